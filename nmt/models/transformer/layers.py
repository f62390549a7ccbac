"""The layers of the Transformer's encoder and decoder (section 3.1), with feed-forward layers and residual connections.

Shapes: B sentences, S source and T target positions, K hypotheses per sentence, D d_model; packed: N tokens per side.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.schema import TransformerConfig
from nmt.models.dropout import dropout, residual_sum
from nmt.models.linear import Linear
from nmt.models.norm import LayerNorm, searches_on_gpu
from nmt.models.transformer.attention import MultiHeadAttention, Rotation
from nmt.models.transformer.cache import Pool
from nmt.models.transformer.packed_attention import Ranges
from nmt.models.translation_model import Memory


def _quick_gelu(x: Tensor) -> Tensor:
    """x · σ(1.702 x), an approximation of GELU (Hendrycks and Gimpel 2016, section 2)."""
    return x * torch.sigmoid(1.702 * x)


def _relu(x: Tensor) -> Tensor:
    """ReLU, in place if no backward pass follows. In training, x is a view, and the backward pass would need a copy."""
    return torch.relu(x) if torch.is_grad_enabled() else torch.relu_(x)


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (equation 2), or with another activation."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.inner = Linear(config.d_model, config.feed_forward, bias=config.bias)
        self.outer = Linear(config.feed_forward, config.d_model, bias=config.bias)
        self.dropout = config.activation_dropout
        activations: dict[str, Callable[[Tensor], Tensor]] = {
            "relu": _relu,
            "gelu": F.gelu,
            "quick_gelu": _quick_gelu,
            "swish": F.silu,
        }
        self.activation = activations[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D], each position independently."""
        if self.activation is _relu and self.inner.bias is not None and searches_on_gpu(x):
            # The product, the bias and ReLU as one operation; the function is PyTorch's own, but not documented.
            rows = torch._addmm_activation(self.inner.bias, x.flatten(0, -2), self.inner.weight.t())
            return self.outer(rows.view(*x.shape[:-1], -1))
        return self.outer(dropout(self.activation(self.inner(x)), self.dropout, self.training))


class ResidualNorm(nn.Module):
    """The residual connection around attention or feed-forward f: LayerNorm(x + Dropout(f(x))), the paper's post-norm,
    or x + Dropout(f(LayerNorm(x))), pre-norm (Xiong et al. 2020)."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.norm = LayerNorm(config.d_model, eps=config.norm_epsilon)
        self.dropout, self.norm_first = config.dropout, config.norm_first

    def pre(self, x: Tensor) -> Tensor:
        """The input of f."""
        return self.norm(x) if self.norm_first else x

    def around(self, f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The output for x."""
        y = f(self.pre(x))
        if not (self.norm_first or self.training):
            return self.norm.of_sum(x, y)
        total = residual_sum(x, y, self.dropout, self.training)
        return total if self.norm_first else self.norm(total)


def _attention(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model, config.heads, *config.head_widths, dropout=config.attention_dropout, bias=config.bias
    )


class EncoderLayer(nn.Module):
    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.self_attention, self.self_attention_residual = _attention(config), ResidualNorm(config)
        self.feed_forward, self.feed_forward_residual = FeedForward(config), ResidualNorm(config)

    def forward(self, x: Tensor, mask: Tensor | Ranges, rotation: Rotation | None = None) -> Tensor:
        """x [B, S, D], mask [B, 1, 1, S], true at tokens → [B, S, D]; or packed, x [N, D] → [N, D]. rotation: for
        rotary positions, see `attention.rotated`."""
        x = self.self_attention_residual.around(lambda y: self.self_attention(y, mask, rotation=rotation), x)
        return self.feed_forward_residual.around(self.feed_forward, x)

    def self_weights(self, x: Tensor, mask: Tensor, rotation: Rotation | None = None) -> Tensor:
        """Like `forward` → the attention weights of each position, [B, H, S, S]."""
        y = self.self_attention_residual.pre(x)
        return self.self_attention.weights(y, y, mask, rotation)


class DecoderLayer(nn.Module):
    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.self_attention, self.self_attention_residual = _attention(config), ResidualNorm(config)
        self.cross_attention, self.cross_attention_residual = _attention(config), ResidualNorm(config)
        self.feed_forward, self.feed_forward_residual = FeedForward(config), ResidualNorm(config)

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        mask: Tensor | Ranges,
        own: Ranges | None = None,
        rotation: Rotation | None = None,
    ) -> Tensor:
        """x [B, T, D], the encoder's states [B, S, D] and their mask [B, 1, 1, S] → [B, T, D]. Position t attends to
        positions ≤ t and to the whole source. Or packed, x [N, D], with the ranges of cross-attention (mask) and of
        self-attention (own). rotation: for rotary positions, see `attention.rotated`."""
        x = self._after_self_attention(x, own, rotation)
        attention = self.cross_attention
        x = self.cross_attention_residual.around(
            lambda y: attention.attend(attention.queries(y), attention.keys_values(source), mask), x
        )
        return self.feed_forward_residual.around(self.feed_forward, x)

    def self_weights(self, x: Tensor, rotation: Rotation | None = None) -> Tensor:
        """x [B, T, D] → the self-attention weights [B, H, T, T]; position t attends to positions ≤ t."""
        earlier = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        y = self.self_attention_residual.pre(x)
        return self.self_attention.weights(y, y, earlier, rotation)

    def cross_weights(self, x: Tensor, memory: Memory, rotation: Rotation | None = None) -> Tensor:
        """x [B, T, D] → the cross-attention weights [B, H, T, S]."""
        y = self.cross_attention_residual.pre(self._after_self_attention(x, None, rotation))
        return self.cross_attention.weights(y, memory.states, memory.mask)

    def _after_self_attention(self, x: Tensor, own: Ranges | None, rotation: Rotation | None) -> Tensor:
        return self.self_attention_residual.around(
            lambda y: self.self_attention(y, own, causal=own is None, rotation=rotation), x
        )

    def step(
        self,
        x: Tensor,
        own: Pool,
        own_mask: Tensor,
        slots: Tensor,
        cross: Pool,
        mask: Tensor,
        rotation: Rotation | None = None,
    ) -> Tensor:
        """`forward` for the newest position of K hypotheses of each sentence: x [B, K, D] → [B, K, D].

        own: this layer's cached target keys and values, with own_mask; the newest position is written to `slots`;
        cross: the source's keys and values, with mask; rotation: of this position.
        """
        x = self.self_attention_residual.around(
            lambda y: self.self_attention.self_step(y, own, own_mask, slots, rotation), x
        )
        x = self.cross_attention_residual.around(lambda y: self.cross_attention.cross_step(y, cross, mask), x)
        return self.feed_forward_residual.around(self.feed_forward, x)
