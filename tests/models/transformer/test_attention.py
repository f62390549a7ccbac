"""Multi-head attention against equation 1 and section 3.2.2 written out head by head, query by query."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.models.transformer.attention import MultiHeadAttention, Rotation, rotated
from nmt.models.transformer.positions import sinusoids

B, T, S, D = 2, 4, 5, 12
SIZES = [(3, 4, 4), (1, 12, 12), (4, 5, 1)]  # heads, d_k, d_v


def make(heads: int, key_size: int, value_size: int, *, dropout: float = 0.0, bias: bool = True) -> MultiHeadAttention:
    torch.manual_seed(0)
    attention = MultiHeadAttention(D, heads, key_size, value_size, dropout=dropout, bias=bias).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return attention


def plain(attention: MultiHeadAttention, x: Tensor, memory: Tensor, visible: Tensor) -> Tensor:
    """MultiHead(x, memory, memory): x [B, T, D], memory [B, S, D], visible [B, T, S] → [B, T, D]."""
    h, dk, dv = attention.heads, attention.key_size, attention.value_size
    w_query, w_key, w_value = attention.projection.weight.split([h * dk, h * dk, h * dv])
    zero = attention.projection.weight.new_zeros(h * (2 * dk + dv))
    bias = zero if attention.projection.bias is None else attention.projection.bias
    b_query, b_key, b_value = bias.split([h * dk, h * dk, h * dv])
    sentences = []
    for b in range(x.shape[0]):
        queries = []
        for t in range(x.shape[1]):
            heads = []
            for i in range(h):
                k, v = slice(i * dk, (i + 1) * dk), slice(i * dv, (i + 1) * dv)
                query = w_query[k] @ x[b, t] + b_query[k]
                seen = [s for s in range(memory.shape[1]) if visible[b, t, s]]
                keys = [w_key[k] @ memory[b, s] + b_key[k] for s in seen]
                values = [w_value[v] @ memory[b, s] + b_value[v] for s in seen]
                exponentials = [torch.exp(query @ key / math.sqrt(dk)) for key in keys]
                total = sum(exponentials)
                heads.append(sum(e / total * value for e, value in zip(exponentials, values, strict=True)))
            joined = attention.output.weight @ torch.cat(heads)
            queries.append(joined if attention.output.bias is None else joined + attention.output.bias)
        sentences.append(torch.stack(queries))
    return torch.stack(sentences)


def assert_same(attention: MultiHeadAttention, got: Tensor, expected: Tensor, *inputs: Tensor) -> None:
    """Values, and gradients for the inputs and every weight."""
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    wanted = [*inputs, *attention.parameters()]
    direction = torch.randn_like(got)
    for one, other in zip(
        torch.autograd.grad(got, wanted, direction), torch.autograd.grad(expected, wanted, direction), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def states(length: int) -> Tensor:
    return torch.randn(B, length, D, dtype=torch.float64, requires_grad=True)


def padding(lengths: list[int], longest: int) -> Tensor:
    """[B, S], true at tokens."""
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
def test_attention_is_its_equation(sizes: tuple[int, int, int], bias: bool) -> None:
    """To itself with padding, to what came before, and to another sequence."""
    attention, x, tokens = make(*sizes, bias=bias), states(S), padding([3, S], S)
    expected = plain(attention, x, x, tokens[:, None, :].expand(B, S, S))
    assert_same(attention, attention(x, tokens[:, None, None, :]), expected, x)
    lower = torch.ones(S, S).tril().bool().expand(B, S, S)
    assert_same(attention, attention(x, causal=True), plain(attention, x, x, lower), x)
    query, tokens = states(T), padding([S, 2], S)
    got = attention.attend(attention.queries(query), attention.keys_values(x), tokens[:, None, None, :])
    assert_same(attention, got, plain(attention, query, x, tokens[:, None, :].expand(B, T, S)), query, x)


def test_dropout_of_attention_weights_acts_in_training_alone() -> None:
    attention, x = make(3, 4, 4, dropout=0.5), states(T)
    attention.eval()
    assert torch.equal(attention(x), attention(x))
    torch.testing.assert_close(attention(x), plain(attention, x, x, torch.ones(B, T, T)))
    attention.train()
    assert not torch.equal(attention(x), attention(x))


@pytest.mark.parametrize(("dtype", "autocast"), [(torch.bfloat16, True), (torch.float16, False)])
def test_with_16_bit_numbers_scores_and_sums_are_float32_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, autocast: bool
) -> None:
    """Results and gradients are as exact as inputs, weights and results of the products are."""
    attention = make(3, 4, 4).to(dtype)
    exact = make(3, 4, 4)
    exact.load_state_dict(attention.state_dict())
    x, memory = (torch.randn(B, n, D, dtype=dtype).requires_grad_() for n in (T, S))
    mask = (torch.arange(S) < S - 1)[None]  # [1, S]
    seen = set()
    fused = torch.nn.functional.scaled_dot_product_attention

    def spy(*tensors: Tensor, **options: Any) -> Tensor:
        out = fused(*tensors, **options)
        seen.update(tensor.dtype for tensor in (*tensors, out))
        return out

    def results(of: MultiHeadAttention, x: Tensor, memory: Tensor) -> list[Tensor]:
        itself = of(x, causal=True)
        other = of.attend(of.queries(x), of.keys_values(memory), mask)
        total = itself.double().square().sum() + other.double().square().sum()
        return [itself, other, *torch.autograd.grad(total, (x, memory, *of.parameters()))]

    expected = results(exact, x.double(), memory.double())
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    with torch.autocast("cpu", dtype, enabled=autocast):
        got = results(attention.float() if autocast else attention, x, memory)
    assert seen == {torch.float32}
    assert got[0].dtype == got[1].dtype == dtype
    for ours, theirs in zip(got, expected, strict=True):
        assert (ours.double() - theirs).norm() < 0.02 * theirs.norm()


def test_rotated_vectors_are_complex_numbers_turned_by_the_angles_of_their_position() -> None:
    """Su et al. 2021, equations 12 and 34: f(x, m) = x e^(imθ), with θ of pair i 10000^(-2i/dk)."""
    torch.manual_seed(0)
    x, size = torch.randn(B, 3, T, 8, dtype=torch.float64), 8
    angles = torch.arange(T)[:, None] * 10_000.0 ** (-2 * torch.arange(size // 2, dtype=torch.float64) / size)
    turned = torch.complex(x[..., :4], x[..., 4:]) * torch.exp(1j * angles)
    expected = torch.cat([turned.real, turned.imag], dim=-1)
    torch.testing.assert_close(
        rotated(x, Rotation.from_encodings(sinusoids(T, size, "interleaved"))), expected, rtol=1e-6, atol=1e-6
    )
    assert rotated(x, None) is x
