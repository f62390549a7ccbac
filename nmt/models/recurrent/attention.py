"""Attention of recurrent models: scores, spans and choices.

Shapes: B sentences, S source positions, T queries (target positions, or hypotheses of one position), E the width of the
source's states h_j, H the width of the decoder's states s_t, which are the queries.

The weights are α_t = softmax_j(score(s_t, h_j)) over the source's tokens, and the context is c_t = Σ_j α_tj h_j
(Bahdanau et al. 2015, equations 5 and 6; Luong et al. 2015, section 3). The scores:

    additive   vᵀ tanh(W s_t + U h_j + b)      Bahdanau et al. 2015, A.1.2, who use s of the previous step
    concat     vᵀ tanh(W [s_t; h_j])           Luong et al. 2015, section 3.1: additive without b
    dot        s_tᵀ h_j                        Luong et al. 2015, section 3.1
    general    s_tᵀ W h_j                      Luong et al. 2015, section 3.1
    location   (W s_t)_j                       Luong et al. 2015, equation 8: does not depend on the source's states
    latent     two stages, Liu, Chen, Shin, Chen and Song 2016: latent weights λ_t = softmax_j(vᵀ tanh(W s_t + U h_j))
               select the tokens that decide where to attend; for token j, the active weights are
               A_ij = softmax_i(h_iᵀ W_a h_j); together α_ti = Σ_j A_ij λ_tj

Spans (Luong et al. 2015, section 3.2): only positions within a distance D of p_t get weights.

    local-m    p_t = t, but at most the source's last position
    local-p    p_t = |source| · sigmoid(v_pᵀ tanh(W_p s_t)); α_tj is multiplied by exp(-(j - p_t)² / 2σ²), σ = D / 2
               (equations 9 and 10 there; the products do not sum to 1)

Choices: `soft` takes the weighted mean above. `hard` takes the state of one position (Xu et al. 2015, section 4.1). It
is sampled from α_t in training; otherwise it is the most probable one.
"""

from typing import Any, NamedTuple, assert_never

import torch
from torch import Tensor, nn

from nmt.config.schema import RecurrentConfig
from nmt.models.linear import Linear


class Source(NamedTuple):
    """The data of a batch of sources that attention needs, computed once.

    values [B, S, E]: the states whose weighted mean is the context; keys [B, S, ·]: compared with the queries; mask
    [B, 1, S]: true at tokens; lengths [B, 1]: numbers of tokens; active [B, S, S]: with `latent`, A indexed by j, i.
    """

    values: Tensor
    keys: Tensor
    mask: Tensor
    lengths: Tensor
    active: Tensor | None

    def select(self, sentences: Tensor) -> "Source":
        """The data of some sentences (indices)."""
        selected = (None if tensor is None else tensor.index_select(0, sentences) for tensor in self)
        return Source(*selected)  # type: ignore[arg-type]


class SampledPositions(NamedTuple):
    """log α of the positions that hard attention has sampled, and the entropy of α, [B, T] each."""

    log_p: Tensor
    entropy: Tensor


class Attention(nn.Module):
    """Attention with the score, the span and the choice of the settings."""

    def __init__(self, config: RecurrentConfig):
        super().__init__()
        hidden, source, kind = config.hidden_size, config.source_width, config.attention
        self.kind, self.span, self.window = kind, config.attention_span, config.attention_window
        self.hard = config.is_hard
        match kind:
            case "additive" | "concat" | "latent":
                self.query = Linear(hidden, hidden, bias=False)
                self.key = Linear(source, hidden, bias=kind == "additive")
                self.energy = nn.Parameter(torch.empty(hidden))
                if kind == "latent":
                    self.active = Linear(source, source, bias=False)
            case "general":
                self.key = Linear(source, hidden, bias=False)
            case "location":
                self.query = Linear(hidden, config.max_positions, bias=False)
            case "dot" | "none":
                pass
            case _:
                assert_never(kind)
        match self.span:
            case "local-p":
                self.place = Linear(hidden, hidden, bias=False)
                self.place_energy = nn.Parameter(torch.empty(hidden))
            case "global" | "local-m":
                pass
            case _:
                assert_never(self.span)

    def source(self, states: Tensor, mask: Tensor) -> Source:
        """The source's states [B, S, E] and their mask [B, S], true at tokens → the data for all queries."""
        keys = self.key(states) if hasattr(self, "key") else states
        active = None
        if self.kind == "latent":
            scores = states @ self.active(states).transpose(1, 2)  # [B, i, j]
            scores = scores.masked_fill(~mask[:, :, None], float("-inf"))
            active = torch.softmax(scores, dim=1).transpose(1, 2)
        return Source(states, keys, mask[:, None], mask.sum(dim=1, keepdim=True), active)

    def forward(self, query: Tensor, source: Source, positions: Tensor) -> Tensor:
        """Queries [B, T, H] at target positions [T] (from 0) → contexts [B, T, E]."""
        weights = self.weights(query, source, positions)
        return _rows(source.values, weights.argmax(dim=-1)) if self.hard else weights @ source.values

    def mean(self, query: Tensor, source: Source, positions: Tensor) -> Tensor:
        """Like `forward`, for hard attention: the mean of the contexts that may be sampled."""
        return self._probabilities(query, source, positions).to(source.values.dtype) @ source.values

    def draw(self, query: Tensor, source: Source, positions: Tensor, noise: Tensor) -> tuple[Tensor, SampledPositions]:
        """Like `forward`, for hard attention in training. noise [B, T, S]: from an exponential distribution."""
        p = self._probabilities(query, source, positions)
        chosen = (p.detach() / noise).argmax(dim=-1)  # j with probability p_j: the first of exponential waiting times
        log_p = p.clamp(min=1e-20).log()
        chosen_log_p, entropy = log_p.gather(2, chosen[:, :, None])[:, :, 0], -(p * log_p).sum(dim=-1)
        return _rows(source.values, chosen), SampledPositions(chosen_log_p, entropy)

    def _probabilities(self, query: Tensor, source: Source, positions: Tensor) -> Tensor:
        """The probability of sampling each position, [B, T, S], in at least float32."""
        weights = self.weights(query, source, positions)
        weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
        return weights / weights.sum(dim=-1, keepdim=True)  # the weights of local-p do not sum to 1

    def weights(self, query: Tensor, source: Source, positions: Tensor) -> Tensor:
        """Like `forward` → α [B, T, S], 0 at padding."""
        scores = self._scores(query, source)
        if self.span == "global":
            weights = torch.softmax(scores.masked_fill(~source.mask, float("-inf")), dim=-1)
            return weights if source.active is None else weights @ source.active
        source_positions = torch.arange(scores.shape[2], device=query.device)
        distance = source_positions - self.centers(query, source, positions)[:, :, None]  # [B, T, S]
        near = source.mask & (distance.abs() <= self.window)
        weights = torch.softmax(scores.masked_fill(~near, float("-inf")), dim=-1)
        if self.span == "local-p":
            weights = weights * torch.exp(-2 * (distance / self.window) ** 2).to(weights.dtype)  # σ = D / 2
        return weights

    def centers(self, query: Tensor, source: Source, positions: Tensor) -> Tensor:
        """p_t of a local span, [B, T]. Predicted ones are at least float32: bfloat16 has no odd numbers above 256."""
        if self.span == "local-m":
            return torch.minimum(positions, source.lengths - 1)
        wide = torch.promote_types(query.dtype, torch.float32)
        products = torch.tanh(self.place(query)).to(wide) * self.place_energy.to(wide)
        return torch.sigmoid(products.sum(dim=-1)) * source.lengths

    def _scores(self, query: Tensor, source: Source) -> Tensor:
        """The scores [B, T, S], also at padding."""
        match self.kind:
            case "dot" | "general":
                return query @ source.keys.transpose(1, 2)
            case "location":
                return self.query(query)[:, :, : source.keys.shape[1]]
            case "additive" | "concat" | "latent":
                return additive_scores(self.query(query), source.keys, self.energy)
            case "none":
                raise AssertionError("there is no attention")
            case _:
                assert_never(self.kind)


def _rows(states: Tensor, positions: Tensor) -> Tensor:
    """states [B, S, E] at positions [B, T] → [B, T, E]."""
    return states.gather(1, positions[:, :, None].expand(-1, -1, states.shape[2]))


def additive_scores(query: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
    """vᵀ tanh(q_t + k_j): query [B, T, A], keys [B, S, A], energy v [A] → [B, T, S]."""
    return _AdditiveScores.apply(query, keys, energy)  # type: ignore[no-untyped-call]


class _AdditiveScores(torch.autograd.Function):
    """Computes one query at a time, because tanh of all queries, [B, T, S, A], would be the model's largest tensor. The
    backward pass computes it again. With y_tj = tanh(q_t + k_j) and the gradient g_tj of score_tj,

        dv = Σ_tj g_tj y_tj,    dq_t = Σ_j g_tj v ∘ (1 - y_tj²),    dk_j = Σ_t g_tj v ∘ (1 - y_tj²)
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
        ctx.save_for_backward(query, keys, energy)
        scores = query.new_empty(query.shape[0], query.shape[1], keys.shape[1])
        for t in range(query.shape[1]):
            scores[:, t] = torch.tanh_(query[:, t, None] + keys) @ energy
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, keys, energy = ctx.saved_tensors
        d_query, d_keys = torch.empty_like(query), torch.zeros_like(keys)
        d_energy = torch.zeros_like(energy)
        for t in range(query.shape[1]):
            y = torch.tanh_(query[:, t, None] + keys)  # [B, S, A]
            d_score = gradient[:, t]  # [B, S]
            d_energy += d_score.flatten() @ y.flatten(0, 1)
            inner = torch.addcmul(energy.new_ones(()), y, y, value=-1).mul_(energy).mul_(d_score[:, :, None])
            d_query[:, t] = inner.sum(dim=1)
            d_keys += inner
        return d_query, d_keys, d_energy
