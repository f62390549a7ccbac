"""Checks the results of search on a GPU: they are compared with the CPU's, and with those of a search that has logits
processors."""

from pathlib import Path

import nmt
from gpu import store, training
from gpu.report import Run
from nmt.checkpoints import model_file
from nmt.commands.train import train


def translations(run: Run) -> None:
    """Translations by a base model that was trained on the demo for a short time. In float32 they are as on the CPU.
    With a logits processor (min_length: 1 excludes empty outputs, which this model does not write), search may compute
    its steps in another way."""
    overrides = training.settings(run, "bfloat16", packed=not run.small, compiled=False)
    last = 20 if run.small else 300
    overrides += [f"training.{key}={last}" for key in ("max_steps", "validate_every", "checkpoint_every")]
    overrides += ["training.warmup_steps=100"]
    config = training.demo_config(overrides)
    train(config, run.device)
    path = model_file.checkpoints(Path(config.run_dir))[-1]
    lines = (store.demo(run.store) / "train.en").read_text(encoding="utf-8").split("\n")[: 5 if run.small else 1_000]
    few = lines[:50]

    def translate(some: list[str], device: str, *settings: str) -> list[str]:
        return nmt.load(path, device, overrides=[f"decoding.{setting}" for setting in settings]).translate(some)

    def compare(what: str, got: list[str], expected: list[str], share: float) -> None:
        same = sum(a == b for a, b in zip(got, expected, strict=True))
        run.row(what, same, unit=f"of {len(got)}", ok=same >= share * len(got))

    for beam in ("beam_size=4", "beam_size=1"):
        for precision in ("float32",) if run.small else ("float32", "bfloat16"):
            settings, name = ("engine=torch", beam, f"precision={precision}"), f"{beam}, {precision}"
            got = translate(lines, run.device, *settings)
            if precision == "float32":
                compare(f"sentences as on the CPU, {name}", got[: len(few)], translate(few, "cpu", *settings), 0.96)
            processed = translate(lines, run.device, *settings, "min_length=1")
            # Other kernels round differently, which decides between outputs of nearly the same probability.
            least = 0.97 if precision == "float32" else 0.9
            compare(f"sentences as with a logits processor, {name}", got, processed, least)
