"""The Transformer of *Attention Is All You Need*: encoder, decoder, embeddings, output layer.

Shapes: B sentences, S source and T target positions, K hypotheses a sentence, D d_model, V subwords.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nmt.config import schema
from nmt.models.dropout import dropout, residual_sum
from nmt.models.transformer import cache
from nmt.models.transformer.attention import MultiHeadAttention
from nmt.models.transformer.cache import KeysValues
from nmt.models.transformer.positions import LearnedPositions, SinusoidalPositions


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (equation 2), or with another activation."""

    def __init__(self, sizes: schema.ModelConfig):
        super().__init__()
        self.inner = nn.Linear(sizes.d_model, sizes.feed_forward, bias=sizes.bias)
        self.outer = nn.Linear(sizes.feed_forward, sizes.d_model, bias=sizes.bias)
        self.dropout = sizes.activation_dropout
        activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu_, "gelu": F.gelu, "swish": F.silu}
        self.activation = activations[sizes.activation]

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D], each position by itself."""
        inner = dropout(self.activation(self.inner(x)), self.dropout, self.training)
        outer: Tensor = self.outer(inner)
        return outer


class ResidualNorm(nn.Module):
    """What surrounds attention and feed-forward: LayerNorm(x + Dropout(f(x))), the paper's post-norm,
    or x + Dropout(f(LayerNorm(x))), pre-norm (Xiong et al. 2020)."""

    def __init__(self, sizes: schema.ModelConfig):
        super().__init__()
        self.norm = nn.LayerNorm(sizes.d_model)
        self.dropout, self.pre = sizes.dropout, sizes.norm == "pre"

    def before(self, x: Tensor) -> Tensor:
        """What f is given."""
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """The sub-layer's result, from its input x and y = f(before(x))."""
        total = residual_sum(x, y, self.dropout, self.training)
        return total if self.pre else self.norm(total)


def _attention(sizes: schema.ModelConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        sizes.d_model,
        sizes.heads,
        sizes.key_size or sizes.d_model // sizes.heads,
        sizes.value_size or sizes.d_model // sizes.heads,
        dropout=sizes.attention_dropout,
        bias=sizes.bias,
    )


class EncoderLayer(nn.Module):
    def __init__(self, sizes: schema.ModelConfig):
        super().__init__()
        self.self_attention, self.self_attention_residual = _attention(sizes), ResidualNorm(sizes)
        self.feed_forward, self.feed_forward_residual = FeedForward(sizes), ResidualNorm(sizes)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [B, S, D], mask [B, 1, 1, S] true at tokens → [B, S, D]."""
        around = self.self_attention_residual
        x = around.after(x, self.self_attention(around.before(x), mask))
        around = self.feed_forward_residual
        return around.after(x, self.feed_forward(around.before(x)))

    def self_weights(self, x: Tensor, mask: Tensor) -> Tensor:
        """As `forward` → how much each position sees of each other, [B, H, S, S]."""
        return self.self_attention.self_weights(self.self_attention_residual.before(x), mask)


class DecoderLayer(nn.Module):
    def __init__(self, sizes: schema.ModelConfig):
        super().__init__()
        self.self_attention, self.self_attention_residual = _attention(sizes), ResidualNorm(sizes)
        self.cross_attention, self.cross_attention_residual = _attention(sizes), ResidualNorm(sizes)
        self.feed_forward, self.feed_forward_residual = FeedForward(sizes), ResidualNorm(sizes)

    def forward(self, x: Tensor, memory: "Memory") -> Tensor:
        """x [B, T, D] → [B, T, D]; position t sees positions ≤ t and the whole source."""
        x = self._past(x)
        around = self.cross_attention_residual
        query = self.cross_attention.queries(around.before(x))
        cross = self.cross_attention.keys_values(memory.states)
        x = around.after(x, self.cross_attention.attend(query, cross, memory.mask))
        around = self.feed_forward_residual
        return around.after(x, self.feed_forward(around.before(x)))

    def self_weights(self, x: Tensor) -> Tensor:
        """x [B, T, D] → how much each position sees of those up to it, [B, H, T, T]."""
        earlier = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return self.self_attention.self_weights(self.self_attention_residual.before(x), earlier)

    def cross_weights(self, x: Tensor, memory: "Memory") -> Tensor:
        """x [B, T, D] → how much each position's cross-attention sees of each source position, [B, H, T, S]."""
        query = self.cross_attention.queries(self.cross_attention_residual.before(self._past(x)))
        key, _ = self.cross_attention.keys_values(memory.states)
        return self.cross_attention.weights(query, key, memory.mask)

    def _past(self, x: Tensor) -> Tensor:
        around = self.self_attention_residual
        return around.after(x, self.self_attention(around.before(x), causal=True))

    def step(
        self, x: Tensor, own: KeysValues, own_mask: Tensor, rows: Tensor, cross: KeysValues, mask: Tensor
    ) -> Tensor:
        """`forward` for the newest position of K hypotheses a sentence: x [B, K, D] → [B, K, D].

        own: the pool of this layer's past, whose `rows` [B·H·K] the position takes, own_mask [B·H, K, N] of it;
        cross: the source's keys and values, mask [B·H, 1, N] of these.
        """
        around = self.self_attention_residual
        x = around.after(x, self.self_attention.extend(around.before(x), own, own_mask, rows))
        around = self.cross_attention_residual
        x = around.after(x, self.cross_attention.look(around.before(x), cross, mask))
        around = self.feed_forward_residual
        return around.after(x, self.feed_forward(around.before(x)))


@dataclass(frozen=True)
class Memory:
    """The encoder's result: states [B, S, D] and mask [B, 1, 1, S], true at tokens."""

    states: Tensor
    mask: Tensor


@dataclass(frozen=True)
class AttentionWeights:
    """What every head of every layer looks at, layer by layer; each row is 1 in sum, and 0 where nothing may be seen.

    encoder: [B, H, S, S] each; decoder: [B, H, T, T]; cross: [B, H, T, S].
    """

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


@dataclass(frozen=True)
class State:
    """What decoding carries from step to step, B sentences of K hypotheses each, `length` target positions so far.

    A step writes into the past: the state before it is not to be used again.
    """

    source: cache.Source
    past: cache.Past
    length: int


class Transformer(nn.Module):
    """Encoder and decoder with embeddings scaled by sqrt(d_model) and tied as `sizes.tie` says (section 3.4)."""

    def __init__(self, sizes: schema.ModelConfig, source_vocabulary: int, target_vocabulary: int, padding: int):
        """Sizes, the two vocabularies' subwords (equal where all matrices are tied), the padding id."""
        super().__init__()
        self.sizes, self.padding = sizes, padding
        self.recompute = False  # in training, keep each layer's input alone and compute the rest again
        self.scale = math.sqrt(sizes.d_model)
        self.target_embedding = nn.Embedding(target_vocabulary, sizes.d_model)
        self.source_embedding = (
            self.target_embedding if sizes.tie == "all" else nn.Embedding(source_vocabulary, sizes.d_model)
        )
        self.output = nn.Linear(sizes.d_model, target_vocabulary, bias=False)
        if sizes.tie != "none":
            self.output.weight = self.target_embedding.weight
        self.source_positions = self._positions(sizes)
        self.target_positions = self._positions(sizes) if sizes.positions == "learned" else self.source_positions
        self.encoder = nn.ModuleList(EncoderLayer(sizes) for _ in range(sizes.encoder_layers or sizes.layers))
        self.decoder = nn.ModuleList(DecoderLayer(sizes) for _ in range(sizes.decoder_layers or sizes.layers))
        # Pre-norm leaves the last sum without a norm; the paper's post-norm needs no other.
        self.encoder_norm = nn.LayerNorm(sizes.d_model) if sizes.norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(sizes.d_model) if sizes.norm == "pre" else nn.Identity()
        self.reset_parameters()

    @staticmethod
    def _positions(sizes: schema.ModelConfig) -> nn.Module:
        if sizes.positions == "learned":
            return LearnedPositions(sizes.d_model, sizes.max_positions)
        return SinusoidalPositions(sizes.d_model, sizes.positions)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """All initialisation: projections uniform in ±1/sqrt(inputs), biases zero, embeddings N(0, 1/d_model),
        so that scaled embeddings and tied logits start with unit variance.

        The paper does not say how it begins. A third of the variance that would keep a layer's scale leaves
        each residual sum near its input at first: a post-norm model learns to attend several times sooner than
        from Glorot's larger weights, and takes high learning rates.
        """
        for name, parameter in self.named_parameters():
            if "norm" in name:
                nn.init.ones_(parameter) if name.endswith("weight") else nn.init.zeros_(parameter)
            elif "embedding" in name or "positions" in name or name == "output.weight":
                nn.init.normal_(parameter, std=self.sizes.d_model**-0.5)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.uniform_(parameter, -(parameter.shape[1] ** -0.5), parameter.shape[1] ** -0.5)

    @torch.no_grad()
    def lay_out_for_search(self) -> None:
        """Store each projection's matrix by columns, as products with few rows read it: up to twice as fast on a CPU.

        Shapes and values stay; a tied output matrix becomes a copy. For a model that is not trained any more.
        """
        if self.output.weight is self.target_embedding.weight:  # whose rows are read one by one
            self.output.weight = nn.Parameter(self.output.weight.clone())
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.data = module.weight.data.t().contiguous().t()

    def parameter_counts(self) -> dict[str, int]:
        """Parameters of each part, each shared matrix counted once, where it comes first; `total` last."""
        counts = {"embeddings": 0, "encoder": 0, "decoder": 0, "output": 0}
        for name, parameter in self.named_parameters():
            part = name.partition(".")[0].partition("_")[0]
            counts[part if part in counts else "embeddings"] += parameter.numel()
        return {**counts, "total": sum(counts.values())}

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source ids [B, S], the decoder's input ids [B, T] → the decoder's last states [B, T, D].

        `logits` makes scores of them; apart, because training needs them only where there are tokens.
        """
        memory = self.encode(source)
        y = self._embed(target, self.target_embedding, self.target_positions, 0)
        for layer in self.decoder:
            y = self._run(layer, y, memory)
        states: Tensor = self.decoder_norm(y)
        return states

    def cross_attention(self, source: Tensor, target: Tensor, layer: int) -> Tensor:
        """What each target position looks at in the source, in one decoder layer.

        Source ids [B, S], the decoder's input ids [B, T] → [B, H, T, S], 1 in sum over S.
        """
        memory = self.encode(source)
        y = self._embed(target, self.target_embedding, self.target_positions, 0)
        for below in list(self.decoder)[:layer]:
            y = below(y, memory)
        weights: Tensor = self.decoder[layer].cross_weights(y, memory)  # type: ignore[operator]
        return weights

    def attention_weights(self, source: Tensor, target: Tensor) -> AttentionWeights:
        """The attention of all layers: source ids [B, S], the decoder's input ids [B, T].

        The fused attention of `forward` keeps no weights: each layer computes them again from what it is given there.
        """
        mask = (source != self.padding)[:, None, None, :]
        found = AttentionWeights([], [], [])
        x = self._embed(source, self.source_embedding, self.source_positions, 0)
        for layer in self.encoder:
            found.encoder.append(layer.self_weights(x, mask))  # type: ignore[operator]
            x = layer(x, mask)
        memory = Memory(self.encoder_norm(x), mask)
        y = self._embed(target, self.target_embedding, self.target_positions, 0)
        for layer in self.decoder:
            found.decoder.append(layer.self_weights(y))  # type: ignore[operator]
            found.cross.append(layer.cross_weights(y, memory))  # type: ignore[operator]
            y = layer(y, memory)
        return found

    def logits(self, states: Tensor) -> Tensor:
        """Decoder states [..., D] → unnormalised scores [..., V]."""
        scores: Tensor = self.output(states)
        return scores

    def encode(self, source: Tensor) -> Memory:
        """Source ids [B, S], padded → the encoder's result."""
        mask = (source != self.padding)[:, None, None, :]  # [B, 1, 1, S]
        x = self._embed(source, self.source_embedding, self.source_positions, 0)
        for layer in self.encoder:
            x = self._run(layer, x, mask)
        return Memory(self.encoder_norm(x), mask)

    def start(self, memory: Memory) -> State:
        """The state before the first target token: one hypothesis a sentence."""
        attentions: list[MultiHeadAttention] = [layer.cross_attention for layer in self.decoder]  # type: ignore[misc]
        cross = [attention.keys_values(memory.states) for attention in attentions]
        source = cache.source(cross, memory.mask.flatten(1))
        sizes = cross[0][0].shape[3], cross[0][1].shape[3]
        past = cache.Past.none(memory.states, len(memory.states), len(cross), source.heads, sizes)
        return State(source, past, 0)

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """The newest token of every hypothesis, ids [B, K] → the decoder's output [B, K, D], for `scores`."""
        y = torch.add(
            self.target_positions(state.length, 1), self.target_embedding(tokens), alpha=self.scale
        )  # [B, K, D]: each at the same position
        past, rows = state.past.with_newest()
        mask = past.mask_by_head()
        for layer, own, cross in zip(self.decoder, past.pools, state.source.layers, strict=True):
            y = layer.step(y, own, mask, rows, cross, state.source.mask)  # type: ignore[operator]
        return self.decoder_norm(y), State(state.source, past, state.length + 1)

    def scores(self, hidden: Tensor) -> Tensor:
        """The decoder's output [..., D] → float32 scores of the next token, [..., V]."""
        return self.logits(hidden).float()

    def reorder(self, state: State, rows: Tensor) -> State:
        """The state of other hypotheses: rows [B', K'] index the B·K old ones.

        Each line of `rows` stays within one old sentence, so this widens (B, 1) to (B, K), follows the
        survivors of a beam, and drops finished sentences or puts them in another order.
        """
        old_sentences, hypotheses, _ = state.past.mask.shape
        sentences = rows[:, 0] // hypotheses  # [B']
        if torch.equal(sentences, torch.arange(old_sentences, device=rows.device)):  # most often: only the masks move
            return State(state.source, state.past.of(rows, None), state.length)
        return State(state.source.of(sentences), state.past.of(rows, sentences), state.length)

    def _run(self, layer: nn.Module, x: Tensor, other: "Tensor | Memory") -> Tensor:
        """layer(x, other), kept whole for the backward pass or computed again there."""
        again = self.recompute and self.training
        result: Tensor = checkpoint(layer, x, other, use_reentrant=False) if again else layer(x, other)
        return result

    def _embed(self, ids: Tensor, embedding: nn.Module, positions: nn.Module, start: int) -> Tensor:
        """ids [B, T] at positions start, start+1, … → Dropout(sqrt(D) · embedding + position) [B, T, D]."""
        x = torch.add(positions(start, ids.shape[1]), embedding(ids), alpha=self.scale)
        return dropout(x, self.sizes.dropout, self.training)
