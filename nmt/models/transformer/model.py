"""The Transformer of *Attention Is All You Need*: encoder, decoder, embeddings, positions, output layer.

Shapes: B sentences, S source and T target positions, K hypotheses per sentence, D d_model, V subwords.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nmt.config.schema import TransformerConfig
from nmt.config.special_subwords import BOS, EOS
from nmt.models.dropout import dropout
from nmt.models.embedding import embedded
from nmt.models.linear import Linear, prefers_onednn
from nmt.models.norm import LayerNorm
from nmt.models.transformer.attention import MultiHeadAttention, Rotation
from nmt.models.transformer.cache import SourceCache, TargetCache
from nmt.models.transformer.layers import DecoderLayer, EncoderLayer
from nmt.models.transformer.packed_attention import Ranges, causal_ranges, cross_ranges, sentence_ranges
from nmt.models.transformer.positions import LearnedPositions, SinusoidalPositions, first_positions
from nmt.models.translation_model import Memory, ModelInternals, PackedSentences, TranslationModel

_POSITIONS = 256  # see `with_length_tensor`


class AttentionWeights(NamedTuple):
    """The attention weights of every head, layer by layer. Each row sums to 1, and is 0 at masked positions.

    encoder: [B, H, S, S] each; decoder: [B, H, T, T]; cross: [B, H, T, S].
    """

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


@dataclass(frozen=True)
class DecoderState:
    """The state between two decoding steps: B sentences of K hypotheses each, `length` target positions so far.

    A step writes into the target's cache, so that the previous state must not be used again. For steps that a CUDA
    graph computes, `length` is a tensor [1], and `encodings` has the encodings of all positions.
    """

    source: SourceCache
    target: TargetCache
    length: int | Tensor
    encodings: Tensor | None = None


class Transformer(TranslationModel):
    """Encoder and decoder with embeddings scaled by sqrt(d_model) and tied as `config.tie` says (section 3.4).

    If all matrices are tied, both vocabularies have the same size. Methods without a docstring: see TranslationModel.
    """

    config: TransformerConfig
    can_pack = can_inspect = True

    def __init__(self, config: TransformerConfig, source_vocabulary: int, target_vocabulary: int, padding: int):
        super().__init__(config, source_vocabulary, target_vocabulary, padding)
        d = config.d_model
        self.scale = math.sqrt(d)
        self.target_embedding = nn.Embedding(target_vocabulary, d)
        self.source_embedding = self.target_embedding if config.ties_embeddings else nn.Embedding(source_vocabulary, d)
        self.output = Linear(d, target_vocabulary, bias=config.output_bias)
        if config.ties_output:
            self.output.weight = self.target_embedding.weight
        self.source_positions, self.target_positions = self._positions(config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers or config.layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers or config.layers))
        # With pre-norm the last residual sum has no norm of its own.
        epsilon = config.norm_epsilon
        self.encoder_norm = LayerNorm(d, eps=epsilon) if config.norm_first else nn.Identity()
        self.decoder_norm = LayerNorm(d, eps=epsilon) if config.norm_first else nn.Identity()
        self.reset_parameters()

    @staticmethod
    def _positions(config: TransformerConfig) -> tuple[nn.Module, nn.Module]:
        """The position encodings of source and target."""
        match config.positions:
            case "learned":
                size = config.d_model, config.max_positions
                return LearnedPositions(*size), LearnedPositions(*size)
            case "rotary":
                rotations = SinusoidalPositions(config.head_widths[0], "interleaved")
                return rotations, rotations
            case "interleaved" | "concatenated":
                encodings = SinusoidalPositions(config.d_model, config.positions, config.position_offset)
                return encodings, encodings
            case _:
                assert_never(config.positions)

    @property
    def rotary(self) -> bool:
        return self.config.rotates

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise all weights: projections uniform in ±1/sqrt(inputs), biases zero, embeddings N(0, 1/d_model), so
        that scaled embeddings and tied logits start with unit variance.

        The paper does not specify an initialisation. These projections have a third of the variance that would keep a
        layer's scale, so that each residual sum starts near its input. A post-norm model then learns to attend several
        times sooner than with Glorot's larger weights, and tolerates high learning rates.
        """
        for name, parameter in self.named_parameters():
            if "norm" in name:
                nn.init.ones_(parameter) if name.endswith("weight") else nn.init.zeros_(parameter)
            elif "embedding" in name or "positions" in name or name == "output.weight":
                nn.init.normal_(parameter, std=self.config.d_model**-0.5)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.uniform_(parameter, -(parameter.shape[1] ** -0.5), parameter.shape[1] ** -0.5)

    @torch.no_grad()
    def prepare_for_search(self, dtype: torch.dtype) -> None:
        """As TranslationModel. On a CPU, matrices are stored by columns, which makes products with few rows up to twice
        as fast. The output matrix stays in float32 there (see `scores`); a tied one is copied, because embeddings are
        read by rows."""
        matrix, bias = self.output.weight.data, None if self.output.bias is None else self.output.bias.data
        super().prepare_for_search(dtype)
        if matrix.is_cuda:
            return
        self.output.weight = nn.Parameter(matrix)
        self.output.bias = None if bias is None else nn.Parameter(bias)
        for name, module in self.named_modules():
            in_parts = name.endswith("cross_attention.projection")
            if isinstance(module, nn.Linear) and not (in_parts and prefers_onednn()):
                module.weight.data = module.weight.data.t().contiguous().t()

    def int8_layers(self) -> list[str]:
        """All linear layers except the projections of cross-attention, which reads parts of their weight."""
        return [name for name in super().int8_layers() if not name.endswith("cross_attention.projection")]

    @property
    def output_weight(self) -> Tensor:
        return self.output.weight

    @property
    def output_bias(self) -> Tensor | None:
        return self.output.bias

    def layers(self) -> list[nn.Module]:
        return [*self.encoder, *self.decoder]

    def matrices(self) -> dict[Tensor, list[int]]:
        matrices = super().matrices()
        for part in self.modules():
            if isinstance(part, MultiHeadAttention):
                matrices[part.projection.weight] = part.widths
        return matrices

    def _widths(self) -> list[int]:
        """The widths of a layer's queries, keys and values of all heads together: H·dk, H·dk, H·dv."""
        return self.decoder[0].self_attention.widths  # type: ignore[union-attr, return-value]

    def training_flops(self, sentences: int, source_tokens: int, target_tokens: int) -> float:
        """As TranslationModel. A multiplication and an addition count as two operations, and the backward pass counts
        twice the forward pass. Attention grows with the square of the length; it is counted as if all sentences had the
        mean length."""
        d, (_, keys, values) = self.config.d_model, self._widths()
        mean_source, mean_target = source_tokens / max(sentences, 1), target_tokens / max(sentences, 1)
        feed_forward, both = 2 * d * self.config.feed_forward, keys + values  # both: q kᵀ, and weights times values
        projections = d * (2 * keys + values) + values * d
        encoder = source_tokens * (projections + feed_forward + mean_source * both)
        self_attention = target_tokens * (projections + mean_target * both)
        cross_attention = source_tokens * d * both + target_tokens * (d * keys + values * d + mean_source * both)
        decoder = self_attention + cross_attention + target_tokens * feed_forward
        layers = len(self.encoder) * encoder + len(self.decoder) * decoder
        return 3 * 2 * (layers + target_tokens * d * self.target_vocabulary)

    def activation_bytes(self, padded_tokens: int, longest: int) -> int:
        """As TranslationModel, in float32. The numbers per token were measured on models of many sizes; three chunks of
        logits are added."""
        config = self.config
        width = max(config.d_model, *self._widths())
        inner = 3.5 + {"relu": 0.0, "gelu": 2.5, "quick_gelu": 2.5, "swish": 2.5}[config.activation]
        if config.activation_dropout > 0:
            inner += 3.5
        weights = 24 * config.heads * longest if config.attention_dropout > 0 else 0  # only stored with dropout
        layer_numbers = 28 * width + inner * config.feed_forward + weights
        numbers = max(len(self.encoder), len(self.decoder)) * layer_numbers + 40 * width
        return int(4 * padded_tokens * numbers) + (192 << 20)

    def packed_bytes(self, positions: int) -> int:
        """As TranslationModel: without Triton, attention stores several matrices of all weights of one layer."""
        return 40 * self.config.heads * positions**2

    def search_bytes(self, sentences: int, longest: int) -> tuple[int, int]:
        """As TranslationModel: the encoder's widest layer, and each decoder layer's keys and values of the source."""
        numbers = sentences * longest * self.target_embedding.weight.element_size()
        return numbers * self.config.feed_forward, numbers * sum(self._widths()[1:]) * len(self.decoder)

    def forward(self, source: Tensor | PackedSentences, target: Tensor | PackedSentences) -> Tensor:
        cross: Tensor | Ranges
        own: Ranges | None
        if isinstance(source, PackedSentences):
            assert isinstance(target, PackedSentences)
            states = self._encode(source, sentence_ranges(source))
            cross, own = cross_ranges(target, source), causal_ranges(target)
        else:
            memory = self.encode(source)
            states, cross, own = memory.states, memory.mask, None
        y, rotation = self._embed_target(target)
        for layer in self.decoder:
            y = self._run(layer, y, states, cross, own, rotation)
        return self.decoder_norm(y)

    def alignment(self, source: Tensor, target: Tensor) -> Tensor:
        """The mean cross-attention over layers and heads: [B, T, S].

        The single layer that follows word alignments best differs between models (Garg et al. 2019, section 4.1, take
        the penultimate one).
        """
        memory, layer_weights = self.encode(source), list[Tensor]()
        y, rotation = self._embed_target(target)
        for layer in self.decoder:
            layer_weights.append(layer.cross_weights(y, memory, rotation).mean(dim=1))  # type: ignore[operator]
            if len(layer_weights) < len(self.decoder):
                y = layer(y, memory.states, memory.mask, rotation=rotation)
        return torch.stack(layer_weights).mean(dim=0)

    def attention_weights(self, source: Tensor, target: Tensor) -> AttentionWeights:
        """The attention weights of all layers: source ids [B, S], the decoder's input ids [B, T].

        They are computed from each layer's input, because the fused attention of `forward` does not return them.
        """
        mask = (source != self.padding)[:, None, None, :]
        weights = AttentionWeights([], [], [])
        x, rotation = self._embed_source(source)
        for layer in self.encoder:
            weights.encoder.append(layer.self_weights(x, mask, rotation))  # type: ignore[operator]
            x = layer(x, mask, rotation)
        memory = Memory(self.encoder_norm(x), mask)
        y, rotation = self._embed_target(target)
        for layer in self.decoder:
            weights.decoder.append(layer.self_weights(y, rotation))  # type: ignore[operator]
            weights.cross.append(layer.cross_weights(y, memory, rotation))  # type: ignore[operator]
            y = layer(y, memory.states, memory.mask, rotation=rotation)
        return weights

    def inside(self, source: Tensor, target: Tensor) -> ModelInternals:
        by_kind = self.attention_weights(source, target)._asdict()
        weights = {kind: torch.stack(layers)[:, 0] for kind, layers in by_kind.items()}
        return ModelInternals(
            weights,
            alignment=weights["cross"].mean(dim=(0, 1)),
            aligned_by=f"cross-attention, mean of {len(self.decoder)} decoder layers and {self.config.heads} heads",
            layout="" if self.rotary else self.config.positions,
            positions={} if self.rotary else first_positions(self.source_positions, self.target_positions),
        )

    def logits(self, states: Tensor) -> Tensor:
        return self.output(states)

    def encode(self, source: Tensor) -> Memory:
        mask = (source != self.padding)[:, None, None, :]  # [B, 1, 1, S]
        return Memory(self._encode(source, mask), mask)

    def _encode(self, source: Tensor | PackedSentences, mask: Tensor | Ranges) -> Tensor:
        """The encoder's states, [B, S, D] or packed [N, D]."""
        x, rotation = self._embed_source(source)
        for layer in self.encoder:
            x = self._run(layer, x, mask, rotation)
        return self.encoder_norm(x)

    def start(self, memory: Memory) -> DecoderState:
        attentions: list[MultiHeadAttention] = [layer.cross_attention for layer in self.decoder]  # type: ignore[misc]
        cross = [attention.keys_values(memory.states) for attention in attentions]
        source = SourceCache.build(cross, memory.mask.flatten(1))
        widths = cross[0][0].shape[3], cross[0][1].shape[3]
        # Like the keys: with autocast their dtype may differ from the states'.
        target = TargetCache.empty(cross[0][0], len(memory.states), len(cross), self.config.heads, widths)
        return DecoderState(source, target, 0)

    def step(self, state: DecoderState, tokens: Tensor) -> tuple[Tensor, DecoderState]:
        return self.fixed_step(self.with_room(state), tokens)

    def with_length_tensor(self, state: DecoderState, longest: int) -> DecoderState:
        length = state.target.mask.new_zeros(1, dtype=torch.long) + state.length
        # In groups, because the shape of a state decides which graph can be used.
        positions = -(-(state.length + longest + 1) // _POSITIONS) * _POSITIONS
        if self.longest_position is not None:
            positions = min(positions, self.longest_position)
        return replace(state, length=length, encodings=self.target_positions(0, positions))

    def with_room(self, state: DecoderState) -> DecoderState:
        return replace(state, target=state.target.with_room())

    def fixed_step(self, state: DecoderState, tokens: Tensor) -> tuple[Tensor, DecoderState]:
        length = state.length
        if isinstance(length, Tensor):
            assert state.encodings is not None
            position = state.encodings.index_select(0, length)
        else:
            position = self.target_positions(length, 1)  # [1, ·]: the same for all hypotheses
        y, rotation = self._with_positions(self._target_vectors(tokens), position)
        target, slots = state.target.allocate()
        mask, source_mask = target.attention_mask(), state.source.attention_mask
        for layer, own, cross in zip(self.decoder, target.layers, state.source.layers, strict=True):
            y = layer.step(y, own, mask, slots, cross, source_mask, rotation)  # type: ignore[operator]
        return self.decoder_norm(y), replace(state, target=target, length=length + 1)

    def reorder(self, state: DecoderState, rows: Tensor) -> DecoderState:
        old_sentences, hypotheses, _ = state.target.mask.shape
        if len(rows) == old_sentences:  # the most frequent case, in which only masks are copied
            return replace(state, target=state.target.select(rows, None))
        sentences = rows[:, 0] // hypotheses  # [B']
        return replace(state, source=state.source.select(sentences), target=state.target.select(rows, sentences))

    def _run(self, layer: nn.Module, *inputs: Tensor | Ranges | Rotation | None) -> Tensor:
        """layer(*inputs). With `recompute`, the backward pass computes it a second time."""
        again = self.recompute and self.training
        return checkpoint(layer, *inputs, use_reentrant=False) if again else layer(*inputs)

    def _embed_source(self, source: Tensor | PackedSentences) -> tuple[Tensor, Rotation | None]:
        """The first encoder layer's input: see `_embed`."""
        return self._embed(source, self._source_vectors, self.source_positions)

    def _embed_target(self, target: Tensor | PackedSentences) -> tuple[Tensor, Rotation | None]:
        """The first decoder layer's input: see `_embed`."""
        return self._embed(target, self._target_vectors, self.target_positions)

    def _source_vectors(self, ids: Tensor) -> Tensor:
        """The embeddings of ids [...] → [..., D]."""
        return embedded(ids, self.source_embedding, cuts=self.cuts and self.training)

    def _target_vectors(self, ids: Tensor) -> Tensor:
        """The embeddings of the decoder's input, in which `config.decoder_start` determines the embedding of BOS."""
        cuts = self.cuts and self.training
        match self.config.decoder_start:
            case "bos":
                return embedded(ids, self.target_embedding, cuts=cuts)
            case "eos":
                return embedded(torch.where(ids == BOS, EOS, ids), self.target_embedding, cuts=cuts)
            case "zero":
                return embedded(ids, self.target_embedding, cuts=cuts) * (ids != BOS).unsqueeze(-1)
            case _:
                assert_never(self.config.decoder_start)

    def _embed(
        self, tokens: Tensor | PackedSentences, vectors: Callable[[Tensor], Tensor], positions: nn.Module
    ) -> tuple[Tensor, Rotation | None]:
        """Ids [B, T], or packed [N] → Dropout(sqrt(D) · embedding + position), [B, T, D] or [N, D], and None; with
        rotary positions, Dropout(sqrt(D) · embedding) and the rotation of each position."""
        if isinstance(tokens, PackedSentences):
            index = torch.arange(len(tokens.ids), device=tokens.ids.device)
            position = torch.where(tokens.start < tokens.end, index - tokens.start, 0)
            encoding, ids = positions(0, tokens.longest).index_select(0, position), tokens.ids
        else:
            encoding, ids = positions(0, tokens.shape[1]), tokens
        x, rotation = self._with_positions(vectors(ids), encoding)
        return dropout(x, self.config.dropout, self.training), rotation

    def _with_positions(self, vectors: Tensor, encoding: Tensor) -> tuple[Tensor, Rotation | None]:
        """Embeddings and the encodings of their positions → the input of the first layer, and the layers' rotation."""
        if self.rotary:
            return vectors * self.scale, Rotation.from_encodings(encoding)
        return torch.add(encoding, vectors, alpha=self.scale).to(vectors.dtype), None  # sinusoids are float32
