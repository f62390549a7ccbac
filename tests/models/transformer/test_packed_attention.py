"""Attention over packed batches: the plain implementation sentence by sentence, the Triton kernels against it."""

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.packed_sentences import HEADS, Packed, both
from torch import Tensor

from nmt.models.transformer import packed_attention as plain
from nmt.models.transformer.packed_attention import packed_attention

if sys.platform != "linux":
    pytest.skip("Triton is made for Linux", allow_module_level=True)

TESTS = Path(__file__).parents[2]
LENGTHS, OTHERS = (1, 1, 5, 7, 28, 30, 40), (3, 1, 2, 9, 20, 33, 70)
BATCHES = {
    "self": Packed(LENGTHS, LENGTHS, (9, 9)),
    "causal": Packed(LENGTHS, LENGTHS, (9, 9), causal=True),
    "cross": Packed(OTHERS, LENGTHS, (80, 9)),  # the last queries' tile holds nothing but filling
    "no tail": Packed((64, 1, 63), (2, 94, 32)),
    "a long sentence": Packed((150,), (150,), (50, 50), causal=True),
}
SMALL = Packed((1, 3, 2), (2, 1, 3), (1, 2), widths=(3, 2))


def with_(name: str, dtype: torch.dtype, widths: tuple[int, int] = (64, 64), dropout: float = 0.0) -> Packed:
    return dataclasses.replace(BATCHES[name], dtype=dtype, widths=widths, dropout=dropout)


WIDE, HALF, BRAIN = torch.float32, torch.float16, torch.bfloat16
KERNEL_CASES = [
    with_("self", WIDE),
    with_("causal", HALF),
    with_("a long sentence", HALF),
    with_("cross", HALF, (40, 5)),
    with_("cross", BRAIN, (64, 48), 0.3),
]
DEVICES = ["interpreter", *(["cuda"] if torch.cuda.is_available() else [])]


def by_sentence(case: Packed) -> dict[str, Tensor]:
    """What `Packed.computed` should give, from PyTorch's attention of one sentence after the other."""
    *inputs, gradient = case.inputs()
    query, key, value = (x.requires_grad_() for x in inputs)
    outputs = []
    for rows, columns in zip(case._places(case.targets), case._places(case.sources), strict=True):
        q, k, v = (
            x[part.start : part.stop].transpose(0, 1) for x, part in ((query, rows), (key, columns), (value, columns))
        )  # [H, the sentence's tokens, d]
        outputs.append(F.scaled_dot_product_attention(q, k, v, is_causal=case.causal).transpose(0, 1))
    output = torch.cat([*outputs, value.new_zeros(case.tails[0], HEADS, case.widths[1])])
    gradients = torch.autograd.grad(output, (query, key, value), gradient)
    return dict(zip(("output", "query", "key", "value"), (output.detach(), *gradients), strict=True))


def assert_filling_gets_nothing(case: Packed, results: dict[str, Tensor]) -> None:
    for name, x in results.items():
        side = case.sources if name in ("key", "value") else case.targets
        assert not x[sum(side) :].any(), name


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("widths", [(8, 8), (5, 3)])
def test_packed_equals_sentence_by_sentence(name: str, widths: tuple[int, int]) -> None:
    case = dataclasses.replace(BATCHES[name], widths=widths)
    got = case.computed()
    torch.testing.assert_close(got, by_sentence(case), rtol=1e-12, atol=1e-12)
    assert_filling_gets_nothing(case, got)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_numerical_gradients(dropout: float) -> None:
    inputs = [x.clone().requires_grad_() for x in SMALL.inputs()[:3]]

    def attention(*inputs: Tensor) -> Tensor:
        torch.manual_seed(7)
        return packed_attention(*inputs, SMALL.ranges(), dropout)

    assert torch.autograd.gradcheck(attention, inputs)


# Dropout.


def kept(seed: int, dropped: int, heads: int = 4, size: int = 300) -> Tensor:
    """Whether each of the weights [heads, size, size] is kept."""
    return plain._kept(torch.zeros(heads, size, size), torch.tensor([seed]), dropped) != 0


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_masks_look_random(rate: float) -> None:
    """The rates of everything, of heads, rows and columns; and no two rows, columns, heads or seeds, neighbours among
    them, agree more often than by chance. Of 90,000 normal numbers, all are most likely within 4.6 deviations."""
    masks = torch.stack([kept(seed, int(rate * 2**24)) for seed in (0, 1, 2**31 - 1)]).double()  # [3, 4, 300, 300]
    centred = (masks - (1 - rate)) / (rate * (1 - rate)) ** 0.5
    for dimensions in ((0, 1, 2, 3), (2, 3), (3,), (2,)):
        count = centred.sum(dim=dimensions).numel()
        assert (centred.sum(dim=dimensions).abs() <= 5 * (centred.numel() / count) ** 0.5).all()
    for vectors in (centred[0, 0], centred[0, 0].T, centred.flatten(0, 1).flatten(1)):
        products = (vectors @ vectors.T).fill_diagonal_(0) / vectors.shape[1] ** 0.5
        assert products.abs().max() < (6 if rate == 0.1 else 5)  # rare events are less normally distributed


def test_forward_and_backward_drop_the_same_weights() -> None:
    """The output is linear in the value: <output(v), g> = <v, gradient of v> for every v, if the masks are equal."""
    case = dataclasses.replace(BATCHES["cross"], dropout=0.3)
    query, key, value, gradient = case.inputs()
    of_value = case.computed()["value"]
    for v in (value, torch.randn_like(value)):
        torch.manual_seed(1)  # as `computed` has it
        output = packed_attention(query, key, v, case.ranges(), 0.3)
        torch.testing.assert_close((output * gradient).sum(), (v * of_value).sum())


# The kernels.


@pytest.fixture(scope="module", params=DEVICES)
def kernel_results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[Packed, tuple[dict[str, Tensor], dict[str, Tensor]]]:
    """By the kernels and by the plain implementation: by Triton's interpreter, and on a GPU where there is one."""
    if request.param == "cuda":
        return {case: both(case, "cuda") for case in KERNEL_CASES}
    numpy, triton = (tuple(map(int, version(name).split(".")[:2])) for name in ("numpy", "triton"))
    if triton < (3, 7) and numpy >= (2, 4):
        pytest.skip("Triton 3.6 cannot interpret a loop's bounds with NumPy 2.4: pip install 'numpy<2.4'")
    folder = tmp_path_factory.mktemp("interpreted")
    cases, results = folder / "cases.pt", folder / "results.pt"
    torch.save(KERNEL_CASES, cases)
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path}
    environment["OMP_NUM_THREADS"] = "1"  # small products: more threads wait for one another
    command = [sys.executable, "-m", "helpers.packed_sentences", str(cases), str(results)]
    subprocess.run(command, env=environment, check=True)
    return torch.load(results, weights_only=False)


@pytest.mark.parametrize("case", KERNEL_CASES, ids=str)
def test_the_kernels_equal_the_plain_implementation(case: Packed, kernel_results: dict[Packed, Any]) -> None:
    """With NaN in the filling, which must not spread. In 16 bits the weights and their gradients are rounded before
    they are multiplied, and bfloat16 is cut off by the interpreter instead: a few units in the last place."""
    got, expected = kernel_results[case]
    tolerance = {WIDE: 1e-5, HALF: 2e-3, BRAIN: 2e-2}[case.dtype]
    for name, x in got.items():
        torch.testing.assert_close(x, expected[name], rtol=0, atol=tolerance * expected[name].abs().max().item())
    assert_filling_gets_nothing(case, got)


def launches(
    monkeypatch: pytest.MonkeyPatch, dropout: float, grids: list[tuple[int, ...]] | None = None
) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments and the constants of each kernel's launch, in bfloat16 with heads of 64; adds its grid to grids."""
    from nmt.models.transformer import packed_attention_kernels as kernels

    found = {}

    def recorder(name: str) -> Any:
        class Launcher:
            def __getitem__(self, grid: tuple[int, int]) -> Callable[..., None]:
                if grids is not None:
                    grids.append(grid)
                return lambda *arguments, **constants: found.update({name: (arguments, constants)})

        return Launcher()

    for name in KERNELS:
        monkeypatch.setattr(kernels, name, recorder(name))
    query, key, value, gradient = (
        x.contiguous() for x in Packed((256,), (256,), dtype=BRAIN, widths=(64, 64)).inputs()
    )
    others = (*Packed((256,), (256,)).ranges(), torch.tensor([1]) if dropout else None, int(dropout * 2**24))
    output, lse = kernels.forward(query, key, value, *others)
    kernels.backward(gradient, output, lse, query, key, value, *others)
    monkeypatch.undo()
    return found


KERNELS = ["forward_kernel", "query_gradient_kernel", "key_value_gradient_kernel"]
POINTERS = {BRAIN: "*bf16", WIDE: "*fp32", torch.int32: "*i32", torch.int64: "*i64"}


@pytest.mark.parametrize("dropout", [pytest.param(0.0, marks=pytest.mark.thorough), 0.1])
@pytest.mark.parametrize("name", KERNELS)
def test_compiled_for_an_h200(
    name: str, dropout: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record_property: Callable[..., None]
) -> None:
    """As it is launched, without a GPU: on the tensor cores, nothing spilled, within a multiprocessor's memory."""
    import triton
    import triton.backends.nvidia
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from nmt.models.transformer import packed_attention_kernels as kernels

    arguments, constants = launches(monkeypatch, dropout)[name]
    kernel = getattr(kernels, name)
    options = {option: constants.pop(option) for option in ("num_warps", "num_stages")}
    bound = kernel.signature.bind(*arguments, **constants).arguments
    signature, aligned = {}, {}
    for place, (argument, x) in enumerate(bound.items()):
        if x is None or place >= len(arguments):
            constants[argument], signature[argument] = x, "constexpr"
        else:
            signature[argument] = POINTERS[x.dtype] if isinstance(x, Tensor) else "i32"
            assert (x.data_ptr() if isinstance(x, Tensor) else x) % 16 == 0
            aligned[(place,)] = [["tt.divisibility", 16]]
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    source = ASTSource(kernel, signature, constants, aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compiled.asm["cubin"])
    tool = Path(triton.backends.nvidia.__file__).parent / "bin/cuobjdump"
    listing = subprocess.run([tool, "--dump-resource-usage", cubin], capture_output=True, text=True, check=True).stdout
    used = {kind: int(number) for kind, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", listing)}
    print(f"{name}, dropout {dropout}: {used}, {compiled.metadata.shared} bytes of shared memory")
    assert used["STACK"] == used["LOCAL"] == 0
    assert compiled.metadata.shared <= 227 << 10
    assert "wgmma.mma_async" in compiled.asm["ptx"]
