"""The Triton kernels of search: computed by Triton's interpreter, compiled for a GPU, and run where there is one."""

import dataclasses
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import search_kernels
from helpers.search_kernels import CASES, case
from torch import Tensor

if sys.platform != "linux":
    pytest.skip("Triton is made for Linux", allow_module_level=True)

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    results = tmp_path_factory.mktemp("triton") / "results"
    subprocess.run(
        [sys.executable, "-m", "helpers.search_kernels", str(results)],
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": f"{TESTS.parent}:{TESTS}"},
        check=True,
        stderr=subprocess.PIPE,  # NumPy warns of NaN
    )
    return torch.load(results)


def check(arguments: tuple[int, int, int, int], got: dict[str, Any]) -> None:
    """Against PyTorch's operations. Hypotheses of probability 0 may be any."""
    step, scores, beams = case(*arguments)
    expected = step._continued(scores.clone(), beams)
    assert torch.equal(got["done"], expected.done)
    live = expected.live > -math.inf
    torch.testing.assert_close(got["live"], expected.live)
    for name in ("rows", "tokens"):
        found, limit = got[name], {"rows": beams.live.numel(), "tokens": scores.shape[2]}[name]
        assert torch.equal(found[live], getattr(expected, name)[live]), name
        assert ((found >= 0) & (found < limit)).all(), name
    torch.testing.assert_close(got["ended"]["scores"], expected.ended.scores)
    assert torch.equal(got["ended"]["count"], expected.ended.count)
    ended = expected.ended.scores > -math.inf
    for name in ("totals", "lengths", "rows"):
        torch.testing.assert_close(got["ended"][name][ended], getattr(expected.ended, name)[ended])


@pytest.mark.parametrize("arguments", CASES)
def test_the_kernels_choose_what_pytorch_does(
    interpreted: dict[Any, Any], arguments: tuple[int, int, int, int]
) -> None:
    check(arguments, interpreted[arguments])


def check_norm(got: Tensor) -> None:
    x, y, weight, bias = search_kernels.norm_inputs()
    expected = torch.nn.functional.layer_norm(x.double() + y.double(), (40,), weight.double(), bias.double())
    torch.testing.assert_close(got, expected.float())


def test_the_norm_of_a_sum(interpreted: dict[Any, Any]) -> None:
    check_norm(interpreted["norm"])


def test_they_compile_for_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an H100 or H200, with a beam of 4 and 32,000 subwords; no register is spilled to memory."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from nmt.decoding.search import beam_kernels
    from nmt.models import triton_norm

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    fixed = {"HYPOTHESES": 4, "WIDTH": 4, "COUNT": 8, "N": 1, "NEVER": 3, "BLOCK": 64, "BLOCKS": 64}
    fixed |= {"PADDED_BLOCKS": 512, "PADDED_HYPOTHESES": 4, "PADDED_COUNT": 8, "PADDED_N": 1}
    types = dict.fromkeys(("eos", "vocabulary", "blocks"), "i32") | {"new_done": "*i1"}
    integers = "limits length never ended_lengths ended_rows ended_count new_rows new_tokens new_lengths new_ended_rows"
    types |= dict.fromkeys([*integers.split(), "new_count"], "*i64") | dict.fromkeys(fixed, "constexpr")
    types |= {"width": "i32", "epsilon": "fp32"}
    for kernel in (beam_kernels._maxima, beam_kernels._continued, triton_norm._normalized_sum):
        signature = {name: types.get(name, "*fp32") for name in kernel.arg_names}
        constants = {(i,): fixed[name] for i, name in enumerate(kernel.arg_names) if name in fixed}
        source = ASTSource(kernel, signature, constants)
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})
        assert "st.local" not in compiled.asm["ptx"]
        assert compiled.metadata.shared < 48 * 1024


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU here: the interpreter and the compiler stand in for it"
)
def test_on_a_gpu() -> None:
    check_norm(search_kernels.normalized([x.cuda() for x in search_kernels.norm_inputs()]).cpu())
    for arguments in CASES:
        step, scores, beams = case(*arguments)
        on_gpu = {name: x.cuda() for name, x in vars(beams).items() if isinstance(x, Tensor)}
        ended = type(beams.ended)(*(x.cuda() for x in vars(beams.ended).values()))
        got = search_kernels.computed(step, scores.cuda(), dataclasses.replace(beams, ended=ended, **on_gpu))
        found = {name: x.cpu() for name, x in got._asdict().items() if name != "ended"}
        check(arguments, found | {"ended": {name: x.cpu() for name, x in vars(got.ended).items()}})
