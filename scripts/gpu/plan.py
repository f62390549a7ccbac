"""The list of checks. The checks of a group run at the same time; groups run one after the other."""

from dataclasses import dataclass
from itertools import chain


@dataclass(frozen=True)
class Check:
    """A check. function: `module:function` in this package, which is called with a Run and the arguments; seconds: the
    most that it may take on a GPU."""

    name: str
    function: str
    arguments: tuple[str, ...] = ()
    seconds: int = 60


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
    *(Check(f"recorded gradients {p}", "training:recorded_gradients", (p,), 60) for p in ("bfloat16", "float16")),
    Check("a step twice", "training:step_twice", (), 60),
    Check("small steps", "training:small_steps", (), 60),
    Check("stop and resume", "training:resume", (), 60),
    Check("no wait in a step", "training:waits", (), 60),
    Check("SIGTERM", "processes:sigterm", (), 60),
]
GROUPS = [
    [Check("ceilings", "parts:ceilings", (), 40)],
    _CORRECT,
    _REPEATABLE,
    [Check("base as trained", "training:speed", ("base",), 75)],
    [Check("big as trained", "training:speed", ("big",), 75)],
    [Check("attention", "parts:attention", (), 20)],
    [Check("loss", "parts:loss_alone", (), 25)],
    [Check("search", "searching:speed", (), 75)],
    [Check("two ranks", "processes:two_ranks", (), 75)],
    [Check("memory", "processes:auto", (), 60)],
    [Check("NCCL with one rank", "processes:nccl", (), 40)],
]
EARLY = 3  # groups that are never left out


def every() -> dict[str, Check]:
    """All checks, by name."""
    return {check.name: check for check in chain.from_iterable(GROUPS)}
