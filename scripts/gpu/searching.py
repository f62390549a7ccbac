"""Checks search on a GPU: its speed, and its results compared with the CPU."""

import time
from pathlib import Path

import torch

import nmt
from gpu import store, training
from gpu.report import Run
from nmt.checkpoints import model_file
from nmt.commands.train import train


def speed(run: Run) -> None:
    """Target subwords per second in bfloat16 and float32, with beam 4 and greedy, of a base model that was trained on
    the demo for a short time; and translations of some lines compared with the CPU."""
    overrides = training.settings(run, "bfloat16", packed=not run.small, compiled=False)
    last = 20 if run.small else 300
    overrides += [f"training.{key}={last}" for key in ("max_steps", "validate_every", "checkpoint_every")]
    overrides += ["training.warmup_steps=100"]
    config = training.demo_config(overrides)
    train(config, run.device)
    path = model_file.checkpoints(Path(config.run_dir))[-1]
    lines = (store.demo(run.store) / "train.en").read_text(encoding="utf-8").split("\n")[: 20 if run.small else 5_000]
    texts: dict[tuple[str, int], list[str]] = {}
    for precision in ("float32",) if run.small else ("bfloat16", "float32"):
        for beam in (4, 1):
            settings = [f"decoding.beam_size={beam}", f"decoding.precision={precision}"]
            translator = nmt.load(path, run.device, overrides=settings)
            translator.translate(lines[:500])
            if not run.small:
                torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            texts[precision, beam] = translations = translator.translate(lines)
            seconds = time.perf_counter() - start
            subwords = sum(len(ids) + 1 for ids in translator.vocabulary.target.encode(translations))
            note = f"{len(lines):,} lines{training.peak(run)}"
            run.row(f"{precision}, beam {beam}", subwords / seconds, unit="target subwords/s", note=note)
    plain = nmt.load(path, "cpu", overrides=["decoding.beam_size=4"]).translate(lines[:100])
    same = sum(a == b for a, b in zip(plain, texts["float32", 4][:100], strict=True))
    run.row("sentences as on the CPU, float32", same, unit=f"of {len(plain)}", ok=same >= 0.97 * len(plain))
