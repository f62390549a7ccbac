"""*Attention Is All You Need* written out once more, equation by equation, in plain numpy and float64.

Nothing of ours is used on the paper's side but the weights. The file can be read beside the paper.
"""

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F

from nmt.config import schema
from nmt.config.schema import DecodingConfig
from nmt.decoding.search.decoder_model import length_penalty_tensor
from nmt.models.transformer.model import Transformer
from nmt.training.loss import smoothed_cross_entropy

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Weights = dict[str, Array]
PAD, BOS, V = 0, 2, 19

# ------------------------------------------------------------------------ section 3: the model


def attention(query: Array, key: Array, value: Array, visible: Mask) -> Array:
    """Equation 1: softmax(Q K^T / sqrt(d_k)) V, with -∞ for what may not be seen (section 3.2.3)."""
    scores = np.where(visible, query @ key.T / math.sqrt(key.shape[1]), -np.inf)
    exponentials = np.exp(scores)
    weights: Array = exponentials / exponentials.sum(axis=1, keepdims=True)
    return weights @ value


def multi_head(w: Weights, name: str, heads: int, d_k: int, x: Array, memory: Array, visible: Mask) -> Array:
    """Section 3.2.2: Concat(head_1, …, head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V); with biases."""
    rows, bias = w[f"{name}.projection.weight"], w[f"{name}.projection.bias"]
    bounds = [heads * d_k, 2 * heads * d_k]
    (w_q, w_k, w_v), (b_q, b_k, b_v) = np.split(rows, bounds), np.split(bias, bounds)
    q, k, v = x @ w_q.T + b_q, memory @ w_k.T + b_k, memory @ w_v.T + b_v
    of_heads = [
        attention(*parts, visible) for parts in zip(*(np.split(m, heads, axis=1) for m in (q, k, v)), strict=True)
    ]
    return np.concatenate(of_heads, axis=1) @ w[f"{name}.output.weight"].T + w[f"{name}.output.bias"]


def feed_forward(w: Weights, name: str, x: Array) -> Array:
    """Equation 2: max(0, x W_1 + b_1) W_2 + b_2."""
    inner = np.maximum(0, x @ w[f"{name}.inner.weight"].T + w[f"{name}.inner.bias"])
    return inner @ w[f"{name}.outer.weight"].T + w[f"{name}.outer.bias"]


def layer_norm(w: Weights, name: str, x: Array) -> Array:
    """Ba et al. 2016, which section 3.1 puts around each sub-layer: LayerNorm(x + Sublayer(x))."""
    centred = x - x.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    return centred / deviation * w[f"{name}.norm.weight"] + w[f"{name}.norm.bias"]


def positional_encoding(length: int, d_model: int) -> Array:
    """Section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i+1) = cos of the same."""
    table = np.empty((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            table[position, 2 * i] = math.sin(position / 10000 ** (2 * i / d_model))
            table[position, 2 * i + 1] = math.cos(position / 10000 ** (2 * i / d_model))
    return table


def transformer(w: Weights, sizes: schema.TransformerConfig, source: list[int], target: list[int]) -> Array:
    """Log-probabilities of every next subword, [T, V], for one sentence: sections 3.1 to 3.5."""
    heads, d_k = sizes.heads, sizes.key_size or sizes.d_model // sizes.heads
    embedding = w["target_embedding.weight"]  # section 3.4: one matrix for all three, times sqrt(d_model)

    def embedded(ids: list[int]) -> Array:
        return embedding[ids] * math.sqrt(sizes.d_model) + positional_encoding(len(ids), sizes.d_model)

    x, everything = embedded(source), np.ones((len(source), len(source)), bool)
    for n in range(sizes.layers):
        layer = f"encoder.{n}"
        seen = multi_head(w, f"{layer}.self_attention", heads, d_k, x, x, everything)
        x = layer_norm(w, f"{layer}.self_attention_residual", x + seen)
        x = layer_norm(w, f"{layer}.feed_forward_residual", x + feed_forward(w, f"{layer}.feed_forward", x))
    y, so_far = embedded(target), np.tri(len(target), dtype=bool)
    for n in range(sizes.layers):
        layer = f"decoder.{n}"
        seen = multi_head(w, f"{layer}.self_attention", heads, d_k, y, y, so_far)
        y = layer_norm(w, f"{layer}.self_attention_residual", y + seen)
        whole = np.ones((len(target), len(source)), bool)
        seen = multi_head(w, f"{layer}.cross_attention", heads, d_k, y, x, whole)
        y = layer_norm(w, f"{layer}.cross_attention_residual", y + seen)
        y = layer_norm(w, f"{layer}.feed_forward_residual", y + feed_forward(w, f"{layer}.feed_forward", y))
    logits = y @ embedding.T
    log_p: Array = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return log_p


SHAPES = {"base's shape": {}, "one head": {"heads": 1}, "a key size": {"key_size": 3}, "depth": {"layers": 3}}


def model(changes: dict[str, int]) -> tuple[Transformer, Weights]:
    """A small model in float64, no norm's gain 1 and no bias 0, and its weights."""
    torch.manual_seed(0)
    small = {"d_model": 16, "feed_forward": 24, "layers": 2, "heads": 4}
    made = Transformer(schema.TransformerConfig(dropout=0.0, **(small | changes)), V, V, PAD).double()
    for parameter in made.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=0.7, std=0.3)
    made.source_positions.table = torch.from_numpy(positional_encoding(50, 16))  # ours are the same in float32
    return made, {name: parameter.detach().numpy() for name, parameter in made.named_parameters()}


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
def test_the_model_is_the_papers(changes: dict[str, int]) -> None:
    ours, weights = model(changes)
    source, target = [[5, 9, 4, 17, 3], [8, 3]], [[BOS, 7, 7, 12], [BOS, 18, 6, 5]]
    padded = torch.tensor([source[0], [*source[1], PAD, PAD, PAD]])
    found = ours.logits(ours(padded, torch.tensor(target))).log_softmax(dim=-1).detach().numpy()
    for row, one, other in zip(found, source, target, strict=True):
        np.testing.assert_allclose(row, transformer(weights, ours.config, one, other), rtol=1e-11, atol=1e-12)


# ------------------------------------------------------------------------ section 5: training


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.2])
def test_the_loss_is_cross_entropy_with_the_smoothed_distribution(epsilon: float) -> None:
    """Section 5.4, Szegedy et al. 2015, section 7: -Σ_k q(k) log p(k) with q(k) = (1-ε) δ(k, y) + ε / V."""
    ours, weights = model({})
    source, target = [5, 9, 4, 17, 3], [7, 7, 12, 3]
    log_p = transformer(weights, ours.config, source, [BOS, *target[:-1]])
    smoothed, plain = 0.0, []
    for position, right in enumerate(target):
        q = [epsilon / V] * V
        q[right] += 1 - epsilon
        assert math.fsum(q) == pytest.approx(1, rel=1e-14)
        smoothed -= math.fsum(q[k] * log_p[position, k] for k in range(V))
        plain.append(-log_p[position, right])
    states = ours(torch.tensor([source]), F.pad(torch.tensor([target[:-1]]), (1, 0), value=BOS))[0]
    loss, nll = smoothed_cross_entropy(states, ours.output.weight, torch.tensor(target), epsilon)
    assert loss.item() == pytest.approx(smoothed, rel=1e-12)
    assert nll.tolist() == pytest.approx(plain, rel=1e-12)


# ------------------------------------------------------------------------ section 6: search


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_the_length_penalty_is_wu_et_al_equation_14(alpha: float) -> None:
    """lp(Y) = (5 + |Y|)^α / (5 + 1)^α, which section 6.1 uses with α = 0.6."""
    found = length_penalty_tensor(400, DecodingConfig(length_penalty=alpha)).tolist()
    expected = [(5 + length) ** alpha / (5 + 1) ** alpha for length in range(401)]
    assert found == pytest.approx(expected, rel=6e-8)  # kept in float32
