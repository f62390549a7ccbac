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

from nmt import config
from nmt.model.attention import KeysValues, MultiHeadAttention
from nmt.model.dropout import dropout, residual_sum
from nmt.model.positions import LearnedPositions, SinusoidalPositions


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (equation 2), or with another activation."""

    def __init__(self, sizes: config.Model):
        super().__init__()
        self.inner = nn.Linear(sizes.d_model, sizes.feed_forward, bias=sizes.bias)
        self.outer = nn.Linear(sizes.feed_forward, sizes.d_model, bias=sizes.bias)
        self.dropout = sizes.activation_dropout
        activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}
        self.activation = activations[sizes.activation]

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D], each position by itself."""
        inner = dropout(self.activation(self.inner(x)), self.dropout, self.training)
        outer: Tensor = self.outer(inner)
        return outer


class SubLayer(nn.Module):
    """What surrounds attention and feed-forward: LayerNorm(x + Dropout(f(x))), the paper's post-norm,
    or x + Dropout(f(LayerNorm(x))), pre-norm (Xiong et al. 2020)."""

    def __init__(self, sizes: config.Model):
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


def _attention(sizes: config.Model) -> MultiHeadAttention:
    return MultiHeadAttention(
        sizes.d_model,
        sizes.heads,
        sizes.key_size or sizes.d_model // sizes.heads,
        sizes.value_size or sizes.d_model // sizes.heads,
        dropout=sizes.attention_dropout,
        bias=sizes.bias,
    )


class EncoderLayer(nn.Module):
    def __init__(self, sizes: config.Model):
        super().__init__()
        self.self_attention, self.self_attention_around = _attention(sizes), SubLayer(sizes)
        self.feed_forward, self.feed_forward_around = FeedForward(sizes), SubLayer(sizes)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [B, S, D], mask [B, 1, 1, S] true at tokens → [B, S, D]."""
        around = self.self_attention_around
        x = around.after(x, self.self_attention(around.before(x), mask))
        around = self.feed_forward_around
        return around.after(x, self.feed_forward(around.before(x)))


class DecoderLayer(nn.Module):
    def __init__(self, sizes: config.Model):
        super().__init__()
        self.self_attention, self.self_attention_around = _attention(sizes), SubLayer(sizes)
        self.cross_attention, self.cross_attention_around = _attention(sizes), SubLayer(sizes)
        self.feed_forward, self.feed_forward_around = FeedForward(sizes), SubLayer(sizes)

    def forward(self, x: Tensor, memory: "Memory") -> Tensor:
        """x [B, T, D] → [B, T, D]; position t sees positions ≤ t and the whole source."""
        around = self.self_attention_around
        x = around.after(x, self.self_attention(around.before(x), causal=True))
        around = self.cross_attention_around
        query = self.cross_attention.queries(around.before(x))
        cross = self.cross_attention.keys_values(memory.states)
        x = around.after(x, self.cross_attention.attend(query, cross, memory.mask))
        around = self.feed_forward_around
        return around.after(x, self.feed_forward(around.before(x)))

    def step(self, x: Tensor, cache: KeysValues | None, cross: KeysValues, mask: Tensor) -> tuple[Tensor, KeysValues]:
        """`forward` for the newest position of B·K hypotheses.

        x [B·K, 1, D], cache of the earlier positions, cross the source's keys and values and mask
        [B, 1, 1, S] of B sentences → [B·K, 1, D] and the longer cache.
        """
        around = self.self_attention_around
        y, cache = self.self_attention.extend(around.before(x), cache)
        x = around.after(x, y)
        # A sentence's hypotheses are as many queries on the same keys and values: nothing is repeated.
        around = self.cross_attention_around
        together = x.view(mask.shape[0], -1, x.shape[-1])  # [B, K, D]
        query = self.cross_attention.queries(around.before(together))
        together = around.after(together, self.cross_attention.attend(query, cross, mask))
        x = together.view(x.shape)
        around = self.feed_forward_around
        return around.after(x, self.feed_forward(around.before(x))), cache


@dataclass(frozen=True)
class Memory:
    """The encoder's result: states [B, S, D] and mask [B, 1, 1, S], true at tokens."""

    states: Tensor
    mask: Tensor


@dataclass(frozen=True)
class State:
    """What decoding carries from step to step, B sentences of K hypotheses each.

    cross: keys and values of the source for each decoder layer, [B, H, S, ·]; mask [B, 1, 1, S];
    cache: keys and values of the `length` target positions so far, [B·K, H, length, ·], none at first.
    """

    cross: tuple[KeysValues, ...]
    mask: Tensor
    cache: tuple[KeysValues | None, ...]
    length: int


class Transformer(nn.Module):
    """Encoder and decoder with embeddings scaled by sqrt(d_model) and tied as `sizes.tie` says (section 3.4)."""

    def __init__(self, sizes: config.Model, source_vocabulary: int, target_vocabulary: int, padding: int):
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
    def _positions(sizes: config.Model) -> nn.Module:
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
        cross = tuple(layer.cross_attention.keys_values(memory.states) for layer in self.decoder)  # type: ignore[union-attr, operator]
        return State(cross, memory.mask, (None,) * len(self.decoder), 0)

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """The newest token of every hypothesis, ids [B, K] → float32 scores of the next, [B, K, V]."""
        y = self._embed(tokens.reshape(-1, 1), self.target_embedding, self.target_positions, state.length)
        cache = []
        for layer, old, cross in zip(self.decoder, state.cache, state.cross, strict=True):
            y, new = layer.step(y, old, cross, state.mask)  # type: ignore[operator]
            cache.append(new)
        scores = self.logits(self.decoder_norm(y)).float().view(*tokens.shape, -1)
        return scores, State(state.cross, state.mask, tuple(cache), state.length + 1)

    def reorder(self, state: State, rows: Tensor) -> State:
        """The state of other hypotheses: rows [B', K'] index the B·K old ones.

        Each line of `rows` stays within one old sentence, so this widens (B, 1) to (B, K), follows the
        survivors of a beam, and drops finished sentences or puts them in another order.
        """
        flat = rows.flatten()
        cache = tuple(old and (old[0][flat], old[1][flat]) for old in state.cache)
        old_sentences = state.mask.shape[0]
        hypotheses = 1 if state.cache[0] is None else state.cache[0][0].shape[0] // old_sentences
        sentences = rows[:, 0] // hypotheses  # [B']
        if torch.equal(sentences, torch.arange(old_sentences, device=rows.device)):  # most often: nothing to copy
            return State(state.cross, state.mask, cache, state.length)
        cross = tuple((key[sentences], value[sentences]) for key, value in state.cross)
        return State(cross, state.mask[sentences], cache, state.length)

    def _run(self, layer: nn.Module, x: Tensor, other: "Tensor | Memory") -> Tensor:
        """layer(x, other), kept whole for the backward pass or computed again there."""
        again = self.recompute and self.training
        result: Tensor = checkpoint(layer, x, other, use_reentrant=False) if again else layer(x, other)
        return result

    def _embed(self, ids: Tensor, embedding: nn.Module, positions: nn.Module, start: int) -> Tensor:
        """ids [B, T] at positions start, start+1, … → Dropout(sqrt(D) · embedding + position) [B, T, D]."""
        x = torch.add(positions(start, ids.shape[1]), embedding(ids), alpha=self.scale)
        return dropout(x, self.sizes.dropout, self.training)
