"""The recurrent encoder-decoder of Sutskever et al. 2014, Cho et al. 2014, Bahdanau et al. 2015 and Luong et al. 2015.

Shapes: B sentences, S source and T target positions, K hypotheses per sentence, L encoder layers, V subwords; widths: M
of the embeddings, H of the decoder's states, E of the encoder's states (both directions together).
"""

from dataclasses import dataclass
from typing import NamedTuple, assert_never

import torch
from torch import Tensor, nn

from nmt.config.schema import RecurrentConfig
from nmt.models.dropout import dropout
from nmt.models.embedding import embedded
from nmt.models.linear import Linear, linear
from nmt.models.recurrent.attention import Attention, SampledPositions, Source
from nmt.models.recurrent.cells import Cells, State
from nmt.models.translation_model import Memory, ModelInternals, PackedSentences, SampledStates, TranslationModel


class EncoderLayer(nn.Module):
    """Cells that read the source from its start, from its end, or in both directions (Bahdanau et al. 2015, section
    3.2). The states of both directions are concatenated at each position."""

    def __init__(self, config: RecurrentConfig, inputs: int):
        super().__init__()
        size = config.source_width // config.directions
        from_start, from_end = config.reads
        self.forwards = Cells(config.cell, inputs, size) if from_start else None
        self.backwards = Cells(config.cell, inputs, size) if from_end else None

    def forward(self, x: Tensor, reading: Tensor) -> Tensor:
        """x [S, B, ·] → [S, B, E]. reading [S, B]: the positions in the order of a reader from the end. Padding keeps
        its position, so that no state of a token depends on it."""
        states = []
        if self.forwards is not None:
            states.append(self.forwards(x))
        if self.backwards is not None:
            states.append(_in_order(self.backwards(_in_order(x, reading)), reading))
        return torch.cat(states, dim=2) if len(states) > 1 else states[0]

    def final(self, states: Tensor, last: Tensor) -> Tensor:
        """The states after each whole sentence: states [S, B, E] → [B, E]; last [B]: the last token's position."""
        if self.backwards is None:
            return states[last, torch.arange(len(last), device=last.device)]
        if self.forwards is None:
            return states[0]
        half = states.shape[2] // 2
        forwards = states[last, torch.arange(len(last), device=last.device), :half]
        return torch.cat([forwards, states[0, :, half:]], dim=1)


def _in_order(x: Tensor, order: Tensor) -> Tensor:
    """x [S, B, ·] at the positions `order` [S, B]."""
    return x.gather(0, order[:, :, None].expand(-1, -1, x.shape[2]))


@dataclass(frozen=True)
class RecurrentMemory(Memory):
    """Also contains the final states of all encoder layers, concatenated: [B, L·E]."""

    final: Tensor


class DecoderState(NamedTuple):
    """The state between two decoding steps, for K hypotheses of each sentence.

    cells: for each layer h, and c of an LSTM, [B·K, H] each; fed [B·K, H]: the last attentional states, with input
    feeding; length: the number of target positions so far.
    """

    source: Source
    cells: tuple[State, ...]
    fed: Tensor | None
    hypotheses: int
    length: int


class Decoder(nn.Module):
    """Layers of cells with attention.

    The attentional state is s̃_t = tanh(W [c_t; s_t]) (Luong et al. 2015, equation 5), from the top cells' state s_t and
    the context c_t; without attention it is s_t. With input feeding (section 3.3 there) the first layer reads
    [y_{t-1}; s̃_{t-1}], otherwise y_{t-1}. The first states of each layer are computed from the encoder's final states
    e: h_0 = tanh(W e + b) as in Bahdanau et al. 2015, A.2.2, and for an LSTM c_0 = W' e + b'.
    """

    def __init__(self, config: RecurrentConfig):
        super().__init__()
        self.config, hidden = config, config.hidden_size
        fed = hidden if config.input_feeding else 0
        inputs = [config.embedding_size + fed] + [hidden] * (config.decoder_layers - 1)
        self.cells = nn.ModuleList(Cells(config.cell, width, hidden) for width in inputs)
        states: int = self.cells[0].states  # type: ignore[assignment]
        self.first = Linear(config.encoder_layers * config.source_width, config.decoder_layers * states * hidden)
        self.attention = Attention(config) if config.has_attention else None
        if self.attention is not None:
            self.combine = Linear(config.source_width + hidden, hidden, bias=False)

    def forward(
        self, y: Tensor, memory: RecurrentMemory, noise: Tensor | None = None, *, mean: bool = False
    ) -> tuple[Tensor, Tensor, SampledPositions | None]:
        """The embedded decoder input [T, B, M] → attentional states and queries s_t, [B, T, H] each, and the sampled
        positions; noise, mean: as for `attend`."""
        source, cells = self.source(memory), self.first_states(memory)
        if self.config.input_feeding:
            return self._fed_forward(y, source, cells, noise, mean=mean)
        x = y
        for i, layer in enumerate(self.cells):
            x = layer(x if i == 0 else self._dropout(x), cells[i])
        queries = x.transpose(0, 1)
        states, drawing = self.attend(queries, source, torch.arange(len(y), device=y.device), noise, mean=mean)
        return self._dropout(states), queries, drawing

    def _fed_forward(
        self, y: Tensor, source: Source, cells: tuple[State, ...], noise: Tensor | None, *, mean: bool
    ) -> tuple[Tensor, Tensor, SampledPositions | None]:
        """`forward` with input feeding, position by position. The product with y is computed for all at once."""
        first: Cells = self.cells[0]  # type: ignore[assignment]
        y_weight, fed_weight = (
            part.contiguous() for part in torch.split(first.input, [y.shape[2], self.config.hidden_size], dim=1)
        )
        inputs = linear(y, y_weight, first.input_bias)  # [T, B, G·H]
        fed = cells[0][0].new_zeros(cells[0][0].shape)
        states, queries, drawings = list[Tensor](), list[Tensor](), list[SampledPositions]()
        for t in range(len(y)):
            cells = self._after(inputs[t] + linear(fed, fed_weight), cells)
            query = cells[-1][0][:, None]  # [B, 1, H]
            position = torch.full((1,), t, device=y.device)
            noise_t = None if noise is None else noise[:, t : t + 1]
            state, drawing = self.attend(query, source, position, noise_t, mean=mean)
            state = self._dropout(state)
            fed = state[:, 0]
            states.append(state)
            queries.append(query)
            if drawing is not None:
                drawings.append(drawing)
        sampled = None
        if drawings:
            log_p, entropy = zip(*drawings, strict=True)
            sampled = SampledPositions(torch.cat(log_p, dim=1), torch.cat(entropy, dim=1))
        return torch.cat(states, dim=1), torch.cat(queries, dim=1), sampled

    def _after(self, input_gates: Tensor, cells: tuple[State, ...]) -> tuple[State, ...]:
        """The states of all layers after a step; input_gates [B, G·H]: W x + b of the first layer, for its G gates."""
        after: list[State] = [self.cells[0].update(input_gates, cells[0])]  # type: ignore[operator]
        for layer, state in zip(self.cells[1:], cells[1:], strict=True):
            after.append(layer.step(self._dropout(after[-1][0]), state))  # type: ignore[operator]
        return tuple(after)

    def step(self, y: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """The embedded newest tokens [B·K, M] → attentional states [B, K, H], and the new state."""
        x = y if state.fed is None else torch.cat([y, state.fed], dim=1)
        first: Cells = self.cells[0]  # type: ignore[assignment]
        cells = self._after(linear(x, first.input, first.input_bias), state.cells)
        query = cells[-1][0].view(-1, state.hypotheses, self.config.hidden_size)
        positions = torch.full((state.hypotheses,), state.length, device=y.device)
        states, _ = self.attend(query, state.source, positions)
        fed = states.flatten(0, 1) if state.fed is not None else None
        return states, DecoderState(state.source, cells, fed, state.hypotheses, state.length + 1)

    def source(self, memory: RecurrentMemory) -> Source:
        """The data of the source that attention needs."""
        mask = memory.mask[:, 0, 0]
        if self.attention is not None:
            return self.attention.source(memory.states, mask)
        return Source(memory.states, memory.states, mask[:, None], mask.sum(dim=1, keepdim=True), None)

    def first_states(self, memory: RecurrentMemory) -> tuple[State, ...]:
        """The first states of each decoder layer, [B, H] each, from the encoder's final states [B, L·E]."""
        parts = torch.split(self.first(memory.final), self.config.hidden_size, dim=1)
        count = len(self.cells)
        h = [part.tanh() for part in parts[:count]]
        match self.config.cell:
            case "lstm":
                return tuple(zip(h, parts[count:], strict=True))
            case "gru":
                return tuple((layer_h,) for layer_h in h)
            case _:
                assert_never(self.config.cell)

    def attend(
        self, query: Tensor, source: Source, positions: Tensor, noise: Tensor | None = None, *, mean: bool = False
    ) -> tuple[Tensor, SampledPositions | None]:
        """Queries [B, T, H] at target positions [T] → attentional states [B, T, H], and the sampled positions.

        noise [B, T, S]: hard attention samples with it (see Attention.draw); mean: hard attention takes the mean.
        """
        if self.attention is None:
            return query, None
        drawing = None
        if noise is not None:
            context, drawing = self.attention.draw(query, source, positions, noise)
        else:
            context = (self.attention.mean if mean else self.attention)(query, source, positions)
        return torch.tanh(self.combine(torch.cat([context, query], dim=2))), drawing

    def _dropout(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)


class RecurrentModel(TranslationModel):
    """Encoder and decoder. Methods without a docstring: see TranslationModel."""

    config: RecurrentConfig
    can_inspect = True

    def __init__(self, config: RecurrentConfig, source_vocabulary: int, target_vocabulary: int, padding: int):
        super().__init__(config, source_vocabulary, target_vocabulary, padding)
        width, source = config.embedding_size, config.source_width
        self.target_embedding = nn.Embedding(target_vocabulary, width)
        self.source_embedding = (
            self.target_embedding if config.ties_embeddings else nn.Embedding(source_vocabulary, width)
        )
        self.output = Linear(config.hidden_size, target_vocabulary, bias=False)
        if config.ties_output:
            self.output.weight = self.target_embedding.weight
        self.encoder = nn.ModuleList(
            EncoderLayer(config, width if i == 0 else source) for i in range(config.encoder_layers)
        )
        self.decoder = Decoder(config)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise the weights: matrices uniform in ±1/sqrt(inputs), as in PyTorch's layers; embeddings N(0, 1/M);
        biases zero, except 1 for an LSTM's forget gates, so that cells remember at first (Jozefowicz et al. 2015)."""
        for name, parameter in self.named_parameters():
            if parameter.ndim == 1:
                nn.init.zeros_(parameter)
                if name.endswith("energy"):
                    nn.init.uniform_(parameter, -(len(parameter) ** -0.5), len(parameter) ** -0.5)
            elif "embedding" in name:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
            else:
                nn.init.uniform_(parameter, -(parameter.shape[1] ** -0.5), parameter.shape[1] ** -0.5)
        for part in self.modules():
            if isinstance(part, Cells):
                part.remember_at_first()

    def prepare_for_search(self, dtype: torch.dtype) -> None:
        """As TranslationModel; on a CPU the output matrix stays in float32 (see `scores`)."""
        matrix = self.output.weight.data
        super().prepare_for_search(dtype)
        if not matrix.is_cuda:
            self.output.weight = nn.Parameter(matrix)

    @property
    def output_weight(self) -> Tensor:
        return self.output.weight

    def layers(self) -> list[nn.Module]:
        return [*self.encoder, self.decoder]

    def matrices(self) -> dict[Tensor, list[int]]:
        stacked = {self.decoder.first.weight: self.config.hidden_size}  # the first states of all layers
        for part in self.modules():
            if isinstance(part, Cells):  # their gates
                stacked |= {part.input: part.hidden, part.recurrent: part.hidden}
        matrices = super().matrices()
        for weight, rows in stacked.items():
            matrices[weight] = [rows] * (len(weight) // rows)
        return matrices

    def training_flops(self, sentences: int, source_tokens: int, target_tokens: int) -> float:
        """As TranslationModel: cells, projections and the output; attention as if all sources had the mean length."""
        attention, mean = self.decoder.attention, source_tokens / max(sentences, 1)
        # Multiplications for each sentence, each source token, each target token, and each context of a target token.
        per_sentence, per_source = _matrices(self.decoder.first), 0.0
        per_target, per_context = _matrices(self.decoder) - per_sentence + self.output.weight.numel(), 0.0
        if attention is not None:
            per_source = sum(_matrices(part) for name, part in attention.named_children() if name in ("key", "active"))
            per_target += mean * (0 if attention.kind == "location" else self.config.hidden_size) - per_source
            per_context = mean * self.config.source_width
            if attention.kind == "latent":  # A, and its product with λ
                per_source, per_target = per_source + mean * self.config.source_width, per_target + mean * mean
        decoding = sentences * per_sentence + source_tokens * per_source + target_tokens * per_target
        contexts = target_tokens * per_context
        if attention is not None and attention.hard:
            passes = 3 * decoding + (decoding + contexts)  # one more forward pass for the baseline
        else:
            passes = 3 * decoding + 3 * contexts
        return 2 * (passes + 3 * source_tokens * _matrices(self.encoder))

    def forward(self, source: Tensor | PackedSentences, target: Tensor | PackedSentences) -> Tensor | SampledStates:
        assert isinstance(source, Tensor) and isinstance(target, Tensor)
        memory, y = self.encode(source), self._embed(target, self.target_embedding)
        if not self.training or self.decoder.attention is None or not self.decoder.attention.hard:
            return self.decoder(y, memory)[0]
        noise = torch.empty(*target.shape, source.shape[1], device=y.device).exponential_()
        # fork_rng gives both passes the same dropout.
        with torch.no_grad(), torch.random.fork_rng([y.device] if y.is_cuda else []):
            mean_states, _, _ = self.decoder(y, memory, mean=True)
        states, _, drawing = self.decoder(y, memory, noise)
        assert drawing is not None
        log_p, entropy = drawing
        return SampledStates(states, log_p, entropy, mean_states, later=self.config.input_feeding)

    def alignment(self, source: Tensor, target: Tensor) -> Tensor:
        """α divided by its sum; without attention, equal weights for all tokens."""
        memory = self.encode(source)
        if self.decoder.attention is None:
            mask = memory.mask[:, 0].to(memory.states.dtype)  # [B, 1, S]
            weights = mask.expand(-1, target.shape[1], -1)
        else:
            weights, _ = self._weights_and_centers(memory, target)
        return _shares(weights)

    def inside(self, source: Tensor, target: Tensor) -> ModelInternals:
        config, missing = self.config, "A recurrent model has no self-attention and no position encodings."
        if not config.has_attention:
            missing += " This model has no attention at all: its decoder gets the source only in its first state."
            return ModelInternals({}, None, "none, as this model has no attention", missing=missing)
        weights, centers = self._weights_and_centers(self.encode(source), target)
        choice = "hard (the probabilities of the positions)" if config.is_hard else "soft"
        kinds = [f"{config.attention} attention", config.attention_span, choice]
        return ModelInternals(
            {"cross": weights[None]},
            alignment=_shares(weights)[0],
            aligned_by=", ".join(kind for kind in kinds if kind not in ("global", "soft")),
            centers=None if centers is None else centers[0],
            window=None if centers is None else config.attention_window,
            chosen=weights[0].argmax(dim=-1) if config.is_hard else None,
            missing=missing,
        )

    def _weights_and_centers(self, memory: RecurrentMemory, target: Tensor) -> tuple[Tensor, Tensor | None]:
        """α [B, T, S], and with a local span p_t [B, T], otherwise None."""
        attention = self.decoder.attention
        assert attention is not None
        _, queries, _ = self.decoder(self._embed(target, self.target_embedding), memory)
        source, positions = self.decoder.source(memory), torch.arange(target.shape[1], device=target.device)
        centers = None if attention.span == "global" else attention.centers(queries, source, positions)
        return attention.weights(queries, source, positions), centers

    def logits(self, states: Tensor) -> Tensor:
        return self.output(states)

    def encode(self, source: Tensor) -> RecurrentMemory:
        mask = source != self.padding  # [B, S]
        last = mask.sum(dim=1) - 1
        positions = torch.arange(source.shape[1], device=source.device)[:, None]
        reading = torch.where(positions <= last, last - positions, positions)  # [S, B]
        x, finals = self._embed(source, self.source_embedding), []
        for i, layer in enumerate(self.encoder):
            x = layer(x if i == 0 else dropout(x, self.config.dropout, self.training), reading)
            finals.append(layer.final(x, last))  # type: ignore[operator]
        states = x.transpose(0, 1) * mask[:, :, None]
        return RecurrentMemory(states, mask[:, None, None], torch.cat(finals, dim=1))

    def start(self, memory: Memory) -> DecoderState:
        assert isinstance(memory, RecurrentMemory)
        cells = self.decoder.first_states(memory)
        fed = torch.zeros_like(cells[0][0]) if self.config.input_feeding else None
        return DecoderState(self.decoder.source(memory), cells, fed, 1, 0)

    def step(self, state: DecoderState, tokens: Tensor) -> tuple[Tensor, DecoderState]:
        return self.decoder.step(self.target_embedding(tokens.flatten()), state)

    def reorder(self, state: DecoderState, rows: Tensor) -> DecoderState:
        source, selected = state.source, rows.flatten()
        if len(rows) != len(source.mask):
            source = source.select(rows[:, 0] // state.hypotheses)
        cells = list[State]()
        for layer_state in state.cells:
            cells.append(tuple(tensor.index_select(0, selected) for tensor in layer_state))
        fed = None if state.fed is None else state.fed.index_select(0, selected)
        return DecoderState(source, tuple(cells), fed, rows.shape[1], state.length)

    def _embed(self, tokens: Tensor, embedding: nn.Embedding) -> Tensor:
        """Ids [B, T] → [T, B, M], with dropout."""
        vectors = embedded(tokens.t(), embedding, cuts=self.cuts and self.training)
        return dropout(vectors, self.config.dropout, self.training)


def _shares(weights: Tensor) -> Tensor:
    """Weights [B, T, S] divided by the sum of each row. The weights of local-p sum to less than 1."""
    return weights / weights.sum(dim=2, keepdim=True)


def _matrices(module: nn.Module) -> float:
    """The number of weights in a module's matrices, which is the number of multiplications for one position."""
    return sum(weight.numel() for weight in module.parameters() if weight.ndim == 2)
