"""Which checks there are, and in which stage each runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """function: `module:function` in this package; it is given a Run and the arguments. seconds: the most it may take.
    alone: it measures time or memory, so nothing runs beside it. stages: 0 stands for --without-gpu. pretends: it needs
    a CPU build of PyTorch, as a pretended GPU does."""

    name: str
    stages: tuple[int, ...]
    function: str
    arguments: tuple[str, ...] = ()
    seconds: int = 60
    alone: bool = False
    pretends: bool = False


def _training_runs() -> list[Check]:
    cases = [
        *(("base", precision, "packed", "eager") for precision in ("float32", "tf32", "bfloat16", "float16")),
        *(("base", precision, "padded", "eager") for precision in ("float32", "tf32", "bfloat16", "float16")),
        ("base", "bfloat16", "packed", "compiled"),
        ("base", "bfloat16", "padded", "compiled"),
        ("big", "bfloat16", "packed", "compiled"),
        ("big", "float16", "padded", "eager"),
        ("big", "float32", "packed", "eager"),
    ]
    again = {("base", "bfloat16", "packed", "compiled"), ("base", "float16", "padded", "eager")}
    return [
        Check(f"runs {' '.join(case)}", (1, 4) if case in again else (1,), "training:runs", case, 150) for case in cases
    ]


def _speeds() -> list[Check]:
    changes = [
        "as trained", "not compiled", "padded, not compiled", "autocast", "plain loss", "padded",
        "whole model compiled", "small share", "CUDA graphs, small share",
    ]  # fmt: skip
    stages_of = {change: (1, 4) if change == "as trained" else (1,) for change in changes}
    cases = [("base", change, stages_of[change]) for change in changes]
    cases += [("big", change, (2, *stages_of[change][1:])) for change in changes[:5]]
    return [
        Check(f"speed {size} {change}", stages, "training:speed", (size, change), 75, alone=True)
        for size, change, stages in cases
    ]  # fmt: skip


_WITHOUT_GPU = [
    Check("step base", (0,), "without_gpu:step", ("base",), 120, pretends=True),
    Check("precisions", (0,), "without_gpu:precisions", (), 150),
    Check("step big", (0,), "without_gpu:step", ("big",), 120, pretends=True),
    Check("search", (0,), "without_gpu:search", (), 90, pretends=True),
    Check("Triton", (0,), "without_gpu:triton", (), 120),
    Check("autocast", (0,), "without_gpu:autocast", (), 60),
]

CHECKS = [
    *_WITHOUT_GPU,
    *_training_runs(),
    *(
        Check(f"gradients {precision}", (1, 4), "training:gradients", (precision,), 90)
        for precision in ("bfloat16", "float32", "float16", "tf32")
    ),
    Check("waits", (1, 4), "training:waits", (), 90),
    Check("new shapes", (1,), "training:new_shapes", (), 60, alone=True),
    *_speeds(),
    Check("kernels base", (1, 4), "training:kernels", ("base",), 60, alone=True),
    Check("kernels big", (2,), "training:kernels", ("big",), 60, alone=True),
    Check("attention of sentences", (2, 4), "parts:attention", ("sentences",), 120, alone=True),
    Check("causal attention", (2,), "parts:attention", ("causal",), 120, alone=True),
    Check("loss alone", (2, 4), "parts:loss_alone", (), 60, alone=True),
    Check("loss curve", (2,), "training:curve", (), 150, alone=True),
    Check("auto base", (3, 4), "processes:auto", ("base",), 90, alone=True),
    Check("auto big", (3,), "processes:auto", ("big",), 90, alone=True),
    Check("out of memory", (3,), "processes:out_of_memory", (), 90, alone=True),
    Check("SIGTERM", (3, 4), "processes:sigterm", (), 120),
    Check("NCCL", (3, 4), "processes:nccl", (), 90),
    Check("two ranks", (3,), "processes:two_ranks", (), 90),
    Check("speed of search", (3, 4), "searching:speed", (), 240, alone=True),
    Check("memory of search", (3,), "searching:memory", (), 120, alone=True),
]


def checks(stage: int) -> list[Check]:
    return [check for check in CHECKS if stage in check.stages]
