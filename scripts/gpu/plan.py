"""The checks of each plan. Checks of one group run at the same time, groups one after the other."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

# Where a kernel fails, the error names the operation that started it. Without the compiler's fusion of sums, in which
# PyTorch 2.10 computed gradients of norms and biases wrongly.
_AGAIN = {"CUDA_LAUNCH_BLOCKING": "1"}
_AGAIN_COMPILED = {**_AGAIN, "TORCHINDUCTOR_MIX_ORDER_REDUCTION": "0"}


@dataclass(frozen=True)
class Check:
    """function: `module:function` in this package; it is given a Run and the arguments. seconds: what it may take on a
    GPU. pretends: it needs a CPU build of PyTorch, as a pretended GPU does. environment: variables that it is given."""

    name: str
    function: str
    arguments: tuple[str, ...] = ()
    seconds: int = 60
    pretends: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


Groups = list[list[Check]]

_CORRECT = [
    Check("kernels of attention", "training:tests", ("models/transformer/test_packed_attention.py",), 110),
    Check("kernels of the loss", "training:tests", ("training/test_triton_loss.py",), 110),
    *(Check(f"gradients {p}", "training:gradients", (p,), 60) for p in ("bfloat16", "float16", "float32", "tf32")),
    Check("compiled gradients base", "training:compiled_gradients", ("base",), 110),
    Check("trains bfloat16 packed compiled", "training:runs", ("bfloat16", "packed", "compiled"), 110),
    Check("trains float16 padded", "training:runs", ("float16", "padded", "eager"), 110),
    Check("trains float32 packed", "training:runs", ("float32", "packed", "eager"), 110),
    Check("trains tf32 packed", "training:runs", ("tf32", "packed", "eager"), 110),
]
_REPEATABLE = [
    Check("compiled gradients big", "training:compiled_gradients", ("big",), 90),  # 30 GB
    Check("a step twice", "training:step_twice", (), 60),
    Check("stop and resume", "training:resume", (), 60),
    Check("no wait in a step", "training:waits", (), 60),
    Check("SIGTERM", "processes:sigterm", (), 60),
]
_CEILINGS = Check("ceilings", "parts:ceilings", (), 40)
_FIRST: Groups = [
    [_CEILINGS],
    _CORRECT,
    _REPEATABLE,
    [Check("base as trained", "training:speed", ("base",), 75)],
    [Check("big as trained", "training:speed", ("big",), 75)],
    [Check("attention", "parts:attention", (), 40)],
    [Check("loss", "parts:loss_alone", (), 25)],
    [Check("search", "searching:speed", (), 75)],
    [Check("two ranks", "processes:two_ranks", (), 40)],
]
EARLY = 3  # groups of the first plan that are never left out
_SECOND: Groups = [
    [_CEILINGS],
    *([Check(f"base, {change}", "training:speed", ("base", change), 45)] for change in ("again", "not compiled")),
    [Check("base, 25,000 places", "training:speed", ("base", "25,000 places"), 45)],  # in place of 25,088
    [
        Check(
            "base, sums in a fixed order", "training:speed", ("base", "sums in a fixed order"), 45,
            environment={"TORCHINDUCTOR_DETERMINISTIC": "1"},
        )
    ],
    [Check("memory", "processes:auto", (), 40)],
    [Check("NCCL with one rank", "processes:nccl", (), 40)],
]  # fmt: skip
WITHOUT_GPU: Groups = [
    [
        Check("step base", "without_gpu:step", ("base",), pretends=True),
        Check("precisions", "without_gpu:precisions"),
        Check("steps of search", "without_gpu:search", pretends=True),
        Check("Triton", "without_gpu:triton"),
        Check("autocast", "without_gpu:autocast"),
        Check("step big", "without_gpu:step", ("big",), pretends=True),
    ]
]


def first() -> Groups:
    return _FIRST


def second(failed: set[str]) -> Groups:
    """After the first plan: the checks that failed there, one after the other; if none did, other ways to train."""
    again = [check for group in _FIRST for check in group if check.name in failed]
    return [
        [replace(one, environment=_AGAIN_COMPILED if "compiled" in one.name else _AGAIN)] for one in again
    ] or _SECOND


def every() -> dict[str, Check]:
    """All checks, by name."""
    return {check.name: check for groups in (_FIRST, _SECOND, WITHOUT_GPU) for group in groups for check in group}
