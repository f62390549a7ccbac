"""Products by oneDNN are the products of PyTorch, and their gradients are; nothing else goes to oneDNN."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.models import linear as module
from nmt.models.linear import Linear, add_product, linear, product

calls: list[tuple[int, ...]] = []


def counting(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """In place of oneDNN's operator, which other processors may lack."""
    calls.append((*x.shape, len(weight)))
    assert x.dtype == weight.dtype == torch.float32
    return F.linear(x, weight, bias)


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    calls.clear()
    monkeypatch.setattr(module, "prefers_onednn", lambda: True)
    monkeypatch.setattr(module, "_onednn", lambda: counting)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("needed", ["all", "not the input", "weight"])
def test_layers_have_the_values_and_gradients_of_pytorch(needed: str, bias: bool) -> None:
    torch.manual_seed(1)
    x = torch.randn(3, 50, 96, requires_grad=needed == "all")
    ours = Linear(96, 80, bias=bias)
    if bias and needed == "weight":
        ours.bias.requires_grad_(False)
    theirs = ours.plain()
    assert type(theirs) is torch.nn.Linear
    gradients = []
    for layer in (ours, theirs):
        x.grad = None
        layer.zero_grad()
        (layer(x) ** 2).sum().backward()
        gradients.append([each.grad for each in (x, layer.weight, layer.bias) if each is not None])
    assert (150, 96, 80) in calls and len(calls) == (3 if needed == "all" else 2)
    for one, other in zip(*gradients, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shape", [(300, 64, 70), (20, 4000, 30)])
def test_products_of_transposed_matrices(shape: tuple[int, int, int], transposed: tuple[bool, bool]) -> None:
    rows, inner, columns = shape
    a = torch.randn(inner, rows).t() if transposed[0] else torch.randn(rows, inner)
    b = torch.randn(columns, inner).t() if transposed[1] else torch.randn(inner, columns)
    total = torch.ones(rows, columns)
    torch.testing.assert_close(product(a, b), a @ b)
    add_product(total, a, b)
    torch.testing.assert_close(total, 1 + a @ b)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda x, w: (x[:1], w[:8]),
        lambda x, w: (x.double(), w.double()),
        lambda x, w: (x, w.t().contiguous()[:, :200].t()),
    ],
    ids=["few", "float64", "part of columns"],
)
def test_everything_else_is_left_to_pytorch(change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
    x, weight = torch.randn(300, 128), torch.randn(256, 128)
    linear(x, weight)
    assert calls == [(300, 128, 256)]
    x, weight = change(x, weight)
    torch.testing.assert_close(linear(x, weight), F.linear(x, weight))
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("maker", "capability", "expected"),
    [("AuthenticAMD", "AVX512", True), ("AuthenticAMD", "AVX2", False), ("GenuineIntel", "AVX512", False)],
)
def test_it_is_used_on_amd_processors_with_avx512(
    maker: str, capability: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    chosen = module.prefers_onednn.__wrapped__
    monkeypatch.setattr(module, "processor_maker", lambda: maker)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    for backend in (torch.backends.mkl, torch.backends.mkldnn):
        monkeypatch.setattr(backend, "is_available", lambda: True)
    monkeypatch.setattr(module, "_onednn", lambda: F.linear)
    assert chosen() is expected

    def missing() -> object:
        raise AttributeError("no operator _linear_pointwise")

    monkeypatch.setattr(module, "_onednn", missing)
    assert chosen() is False


def test_the_compiler_makes_one_graph_of_a_large_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """What chooses the library looks at the processor, where a graph would end."""
    monkeypatch.undo()
    layer, x = Linear(64, 128, bias=True), torch.randn(256, 64)
    assert module._LEAST_MULTIPLICATIONS <= 64 * 128 * 256
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x))
    torch._dynamo.reset()
