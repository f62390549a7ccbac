"""The loss's Triton kernel: computed by Triton's interpreter, compiled for a GPU, and run where there is one."""

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.loss_kernel import CHUNK_ROWS, Rows, Whole
from torch import Tensor

from nmt.training import loss

if sys.platform != "linux":
    pytest.skip("Triton is made for Linux", allow_module_level=True)

TESTS = Path(__file__).parents[1]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
V = 5000  # more than a block, and not a multiple of one
KINDS: dict[str, Callable[[Tensor], Tensor]] = {  # of normally distributed numbers [n, V]
    "ordinary": lambda x: 3 * x,
    "extreme": lambda x: (4e3 * x).clamp(-1e4, 1e4),
    "rising": lambda x: (3 * x).sort(dim=1).values,  # every block has a larger logit than those before it
    "falling": lambda x: (3 * x).sort(dim=1, descending=True).values,
    "equal": torch.zeros_like,
    "a small vocabulary": lambda x: x[:, :7],
    "two blocks": lambda x: torch.cat([x, x], dim=1)[:, :8192],
    "sure": lambda x: x,  # and the target's logit is raised until p is 0.999
}


def rows(kind: str, dtype: torch.dtype, smoothing: float) -> Rows:
    torch.manual_seed(0)
    logits = KINDS[kind](torch.randn(6, V))
    vocabulary = logits.shape[1]
    target = torch.tensor([0, 4095, 4096, vocabulary - 1, 1234, 5]) % vocabulary
    if kind == "sure":
        others = torch.tensor(0.999 / 0.001).log() + logits.logsumexp(dim=1)
        logits.scatter_(1, target[:, None], others[:, None])
    if kind == "extreme":
        logits[2, target[2]] = 1e4  # the largest, so that -log p is small
    return Rows(logits.to(dtype), target, smoothing)


def whole(kind: str, dtype: torch.dtype, smoothing: float) -> Whole:
    """Numbers that the dtype can hold: only logits and what follows from them are rounded."""
    torch.manual_seed(0)
    hidden, weight, target = torch.randn(13, 16), torch.randn(300, 16), torch.randint(300, (13,))
    if kind == "extreme":
        weight *= 1e3
    if kind == "no tokens":
        hidden, target = hidden[:0], target[:0]
    return Whole(hidden.to(dtype).float(), weight.to(dtype).float(), target, smoothing, dtype)


def improbable() -> Whole:
    """A subword that every state finds improbable: its row of the weight gradient is a sum of such probabilities."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(100, 8) + 4, 0.1 * torch.randn(11, 8)
    weight[7] = -0.6
    return Whole(hidden, weight, torch.randint(0, 7, (100,)), 0.0, torch.float16)


def compiled() -> Whole:
    return dataclasses.replace(whole("ordinary", torch.bfloat16, 0.1), compiled=True)


def with_nan() -> Rows:
    case = rows("ordinary", torch.float32, 0.1)
    case.logits[1, 77] = torch.nan
    return case


ROWS = [(kind, DTYPES[i % 3], 0.1) for i, kind in enumerate(KINDS)]
ROWS += [(kind, dtype, 0.0) for kind in ("ordinary", "sure") for dtype in DTYPES]
WHOLE = [("ordinary", dtype, smoothing) for dtype, smoothing in zip(DTYPES, (0.1, 0.1, 0.0), strict=True)]
WHOLE += [("extreme", torch.bfloat16, 0.1), ("no tokens", torch.float16, 0.0)]


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[object, dict[str, Tensor]]:
    """What the interpreter computes for all cases: one process, as loading PyTorch takes longer than they do."""
    folder = tmp_path_factory.mktemp("triton")
    inputs, results = folder / "inputs", folder / "results"
    cases: dict[object, Rows | Whole] = {("rows", *case): rows(*case) for case in ROWS}
    cases |= {("whole", *case): whole(*case) for case in WHOLE}
    torch.save(cases | {"improbable": improbable(), "nan": with_nan(), "compiled": compiled()}, inputs)
    subprocess.run(
        [sys.executable, "-m", "helpers.loss_kernel", str(inputs), str(results)],
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": f"{TESTS.parent}:{TESTS}"},
        check=True,
    )
    return torch.load(results)


def check_rows(case: Rows, got: dict[str, Tensor]) -> None:
    """Against float64. The interpreter cuts what a GPU rounds to bfloat16: wrong by one unit of its last place."""
    x, target = case.logits.double(), case.target[:, None]
    log_p = x.log_softmax(dim=1)
    q = torch.full_like(x, case.smoothing / x.shape[1])
    q.scatter_add_(1, target, torch.full_like(q[:, :1], 1 - case.smoothing))
    torch.testing.assert_close(got["nll"].double(), -log_p.gather(1, target)[:, 0], rtol=1e-6, atol=1e-6)
    assert torch.equal(got["of_target"].double(), x.gather(1, target)[:, 0])
    assert torch.equal(got["nll alone"], got["nll"])
    assert torch.equal(got["untouched"], case.logits)
    assert got["difference"].dtype == {torch.float16: torch.float32}.get(case.logits.dtype, case.logits.dtype)
    p, below = log_p.exp(), x.amax(dim=1, keepdim=True) - x
    exact = p - q
    rounding = 2.0**-7 * exact.abs() if case.logits.dtype == torch.bfloat16 else 0
    error = (got["difference"].double() - exact).abs()
    assert (error <= rounding + 1e-6 * (p * (1 + below) + q) + 1e-37).all()


def check_whole(case: Whole, got: dict[str, Tensor]) -> None:
    """Against float64, but for what both have to round: the logits, which are those of the case's own device."""
    h, w = case.hidden.to(case.dtype), case.weight.to(case.dtype)
    logits = torch.cat([part @ w.t() for part in h.split(CHUNK_ROWS)]).double().cpu()
    h, w, target = h.double().cpu(), w.double().cpu(), case.target.cpu()[:, None]
    log_p, q = logits.log_softmax(dim=1), torch.full_like(logits, case.smoothing / len(w))
    q.scatter_add_(1, target, torch.full_like(q[:, :1], 1 - case.smoothing))
    nll, of_target, mean = -log_p.gather(1, target)[:, 0], logits.gather(1, target)[:, 0], (h @ w.t()).mean(dim=1)
    torch.testing.assert_close(got["nll"].double(), nll, rtol=2e-6, atol=1e-6)
    torch.testing.assert_close(
        got["loss"].double(), (nll + case.smoothing * (of_target - mean)).sum(), rtol=2e-6, atol=0
    )
    difference = log_p.exp() - q
    for name, exact in {"hidden": difference @ w, "weight": difference.t() @ h}.items():
        assert got[name].shape == exact.shape and got[name].dtype == torch.float32
        error = (got[name].double() - exact).norm() / exact.norm().clamp(min=1e-30)
        assert error < {torch.float32: 2e-6, torch.float16: 0.001, torch.bfloat16: 0.01}[case.dtype], name
    assert got["calls"] == -(-len(h) // CHUNK_ROWS)


@pytest.mark.parametrize(("kind", "dtype", "smoothing"), ROWS)
def test_the_kernel_computes_what_float64_does(
    interpreted: dict[object, dict[str, Tensor]], kind: str, dtype: torch.dtype, smoothing: float
) -> None:
    check_rows(rows(kind, dtype, smoothing), interpreted["rows", kind, dtype, smoothing])


@pytest.mark.parametrize(("kind", "dtype", "smoothing"), WHOLE)
def test_the_loss_and_its_gradients_are_those_of_float64(
    interpreted: dict[object, dict[str, Tensor]], kind: str, dtype: torch.dtype, smoothing: float
) -> None:
    check_whole(whole(kind, dtype, smoothing), interpreted["whole", kind, dtype, smoothing])


@pytest.mark.parametrize(("dtype", "needed"), [(torch.float32, False), (torch.bfloat16, True), (torch.float16, True)])
def test_it_compiles_for_a_gpu(
    dtype: torch.dtype, needed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For an H100 or H200: few enough registers and shared memory for four rows at a time on each multiprocessor."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from nmt.training import triton_loss

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    name = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16"}[dtype]
    out = "*fp32" if dtype == torch.float16 and needed else name
    types = [name, "*i64", "*fp32", "*fp32", out, "constexpr", "fp32", "fp32", "constexpr", "constexpr"]
    source = ASTSource(
        triton_loss._row,
        dict(zip(triton_loss._row.arg_names, types, strict=True)),
        {(5,): 32_000, (8,): triton_loss.BLOCK, (9,): needed},
        {(place,): [["tt.divisibility", 16]] for place in range(5)},  # addresses
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": triton_loss.WARPS})
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compiled.asm["cubin"])
    cuobjdump = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    used = subprocess.run([cuobjdump, "--dump-resource-usage", cubin], capture_output=True, text=True, check=True)
    (line,) = re.findall(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", used.stdout)
    registers, stack, local = map(int, line)
    assert ".target sm_90a" in compiled.asm["ptx"]
    assert stack == local == 0  # no register is spilled to memory
    assert 4 * 32 * triton_loss.WARPS * registers <= 65_536
    assert 4 * compiled.metadata.shared <= 227 * 1024
    loads, stores = (len(re.findall(rf"{kind}\.global\.v4\.b32", compiled.asm["ptx"])) for kind in ("ld", "st"))
    width = 16 * torch.finfo(dtype).bits // 8  # bytes that a thread reads of each block, 16 at once
    assert loads == (1 + needed) * width // 16
    assert stores == (16 * (2 if dtype == torch.bfloat16 else 4) // 16 if needed else 0)
    assert ("cvt.rn.bf16" in compiled.asm["ptx"]) == (dtype == torch.bfloat16 and needed)  # to the nearest


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU here: the interpreter and the compiler stand in for it"
)
def test_on_a_gpu_it_computes_the_same_and_the_host_does_not_wait() -> None:
    assert loss._in_triton(torch.device("cuda", 0), torch.float32) is not None
    for case in [rows(*case) for case in ROWS] + [whole(*case) for case in WHOLE]:
        there = type(case)(**{name: x.cuda() if isinstance(x, Tensor) else x for name, x in vars(case).items()})
        torch.cuda.set_sync_debug_mode("error")
        try:
            got = there.computed()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        got = {name: tensor.cpu() for name, tensor in got.items()}
        if isinstance(there, Whole):
            check_whole(there, got)
        elif isinstance(case, Rows):
            check_rows(case, got)
