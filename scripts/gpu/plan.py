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
    Check("kernels of search", "training:tests", ("decoding/search/test_beam_kernels.py",), 110),
    *(Check(f"gradients {p}", "training:gradients", (p,)) for p in ("bfloat16", "float16", "float32", "tf32")),
    Check("compiled gradients base", "training:compiled_gradients", ("base",), 110),
    Check("trains bfloat16 packed compiled", "training:runs", ("bfloat16", "packed", "compiled"), 110),
    Check("trains float16 padded", "training:runs", ("float16", "padded", "eager"), 110),
    Check("trains float32 packed", "training:runs", ("float32", "packed", "eager"), 110),
    Check("trains tf32 packed", "training:runs", ("tf32", "packed", "eager"), 110),
]
_REPEATABLE = [
    *(Check(f"recorded gradients {p}", "training:recorded_gradients", (p,)) for p in ("bfloat16", "float16")),
    Check("a step twice", "training:step_twice"),
    Check("stop and resume", "training:resume", ("base",)),
    Check("stop and resume small", "training:resume", ("small",)),
    Check("no wait in a step", "training:waits"),
    Check("SIGTERM", "processes:sigterm"),
    Check("two ranks", "processes:two_ranks"),
    Check("NCCL with one rank", "processes:nccl"),
    Check("translations", "searching:translations"),
]
# What is measured runs alone. What tells most comes first, because the end may be cut off.
GROUPS = [
    [Check("ceilings", "ceilings:measure", (), 30)],
    _CORRECT,
    _REPEATABLE,
    [Check("base as trained", "training:speed", ("base",), 50)],
    [Check("small steps", "training:small_steps", (), 20)],
    [Check("search from text to text", "search_speed:lines", (), 65)],
    [Check("text to score", "text_to_score:train", (), 90)],
    [Check("steps of search", "search_speed:steps", (), 40)],
    [Check("big as trained", "training:speed", ("big",), 45)],
    [Check("memory", "processes:auto", (), 30)],
]
EARLY = 3  # groups that are never left out


def every() -> dict[str, Check]:
    """All checks, by name."""
    return {check.name: check for check in chain.from_iterable(GROUPS)}
