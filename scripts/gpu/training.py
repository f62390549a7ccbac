"""Does training run on a GPU, is its gradient right, and how fast is it with each change alone."""

import copy
import json
import logging
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from gpu import report, store
from gpu.report import Run
from gpu.sizes import BATCH_TOKENS, MODELS, VOCABULARY
from nmt import device as devices
from nmt.commands.train import train
from nmt.config import schema
from nmt.config.schema import TrainingConfig, TransformerConfig
from nmt.data.batching import Batches, Step
from nmt.data.packing import pack
from nmt.data.padding import collate_pairs
from nmt.data.vocabulary import PAD
from nmt.distributed.ranks import Ranks
from nmt.models import build
from nmt.training import loss
from nmt.training.objective import Objective
from nmt.training.train_step import TrainStep

# Target tokens per second that the counted roofline gives (docs/performance.md).
PREDICTED = {("base", True): 973_000.0, ("base", False): 939_000.0, ("big", True): 341_000.0, ("big", False): 333_000.0}
TINY = TransformerConfig(d_model=32, feed_forward=64, layers=2, heads=4)


def settings(run: Run, size: str, precision: str, *, packed: bool, compiled: bool) -> list[str]:
    """Overrides of the demo's config for a short run that validates by search."""
    folder, model = store.demo(run.store), TINY if run.small else MODELS[size]
    return [
        f"run_dir={run.out}/runs/{run.check}", f"data.store_dir={run.store}/demo-data",
        f"data.train=[{{source: {folder}/train.en, target: {folder}/train.de}}]",
        f"data.validation={{source: {folder}/validation.en, target: {folder}/validation.de}}",
        f"model.d_model={model.d_model}", f"model.feed_forward={model.feed_forward}", f"model.heads={model.heads}",
        f"model.layers={model.layers}", f"training.precision={precision}", f"training.packed={packed}",
        f"training.compile={compiled}", f"training.batch_tokens={150 if run.small else 4096}", "training.max_steps=20",
        "training.learning_rate=0.0005", "training.warmup_steps=10", "training.validate_every=10",
        f"training.validation_sentences={5 if run.small else 50}", "training.checkpoint_every=10",
        "training.log_every=5",
    ]  # fmt: skip


def demo_config(overrides: list[str]) -> schema.Config:
    return schema.load(Path(__file__).parents[2] / "configs/demo.yaml", overrides)


def runs(run: Run, size: str, precision: str, shape: str, compiled: str) -> None:
    """Train, validate by search, stop, resume: losses fall, both sessions log, weights are numbers (or it raises)."""
    packed, compiling = shape == "packed", compiled == "compiled"
    overrides = settings(run, size, precision, packed=packed, compiled=compiling)
    start, warnings = time.perf_counter(), _Warnings(logging.WARNING)
    logging.getLogger("nmt").addHandler(warnings)
    train(demo_config(overrides), run.device)
    train(demo_config([*overrides, "training.max_steps=30"]), run.device)
    rows = report.rows_of(Path(run.out, "runs", run.check, "metrics.jsonl"))
    losses = [row["loss"] for row in rows if "loss" in row]
    searched = [row for row in rows if "bleu" in row]
    ok = len(losses) == 6 and losses[-1] < losses[0] and len(searched) == 3
    note = f"losses {losses[0]:.2f} to {losses[-1]:.2f}, {len(searched)} validations by search"
    what = f"trains, validates, resumes, {precision}, {shape}"
    run.row(what, time.perf_counter() - start, unit="s", ok=ok, note=note)
    for message in warnings.messages:  # without Triton, torch.compile or packed batches training goes on, slowly
        run.row("a warning", message[:150], ok="not work here" not in message)


class _Warnings(logging.Handler):
    def __init__(self, level: int):
        super().__init__(level)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def make_step(
    run: Run, size: str, precision: str = "bfloat16", *, packed: bool = True, compiled: bool = False
) -> TrainStep:
    where = devices.choose(run.device)
    torch.manual_seed(1)
    model = build.build(TINY if run.small else MODELS[size], VOCABULARY, VOCABULARY, PAD)
    training = TrainingConfig(precision=precision, packed=packed, compile=compiled)  # type: ignore[arg-type]
    return TrainStep(model, training, 1, where, Ranks())


def batches_of(run: Run, *, packed: bool, tokens: int = BATCH_TOKENS, epoch: int = 0) -> tuple[Batches, Iterator[Step]]:
    """The batches of the store, and its steps in memory from which a GPU can copy."""
    pairs = store.pairs(run.store, 2_000 if run.small else store.PAIRS)
    made = Batches(
        pairs, batch_tokens=600 if run.small else tokens, micro_batch_tokens=None, seed=1, pool_pairs=100_000,
        over_budget="skip", packed=packed,
    )  # fmt: skip
    steps = made.epoch(epoch)
    return made, map(Step.pinned, steps) if run.device.startswith("cuda") else steps


def seconds_of_steps(run: Run, train_step: TrainStep, steps: list[Step], warmup: int) -> tuple[float, int]:
    """Seconds of the steps after the first `warmup`, and their target tokens."""
    start = time.perf_counter()
    for number, step in enumerate(steps, start=1):
        if number == warmup + 1:
            train_step.wait()
            start = time.perf_counter()
        torch.compiler.cudagraph_mark_step_begin()  # only CUDA graphs need it
        train_step.run(step, number, 1e-4)
    train_step.wait()
    return time.perf_counter() - start, sum(step.target_tokens for step in steps[warmup:])


def speed(run: Run, size: str, change: str) -> None:
    """Target tokens per second with one change to what is the default on a GPU."""
    packed, compiled = not change.startswith("padded"), change not in ("not compiled", "padded, not compiled")
    own = change in ("whole model compiled", "CUDA graphs, small share")  # compiled here, not by TrainStep
    tokens = 3_125 if change.endswith("small share") else BATCH_TOKENS  # one of eight GPUs' share of a step
    train_step = make_step(run, size, packed=packed, compiled=compiled and not own)
    if change == "autocast":
        train_step.objective.copies_weights = False
    if change == "plain loss":
        loss._in_triton = lambda *_: None  # type: ignore[assignment]
    if change == "whole model compiled":
        train_step.model.compile(dynamic=False)
    if change == "CUDA graphs, small share":
        for layer in train_step.model.layers():
            layer.compile(dynamic=False, mode=None if run.small else "reduce-overhead")
    made, steps = batches_of(run, packed=packed, tokens=tokens)
    start = time.perf_counter()
    train_step.prepare(made.example())
    warmup, count = (2, 4) if run.small else (15, 75)
    train_step.run(next(steps), 1, 1e-4)
    train_step.wait()
    first = time.perf_counter() - start
    seconds, target = seconds_of_steps(run, train_step, list(islice(steps, count)), warmup)
    full = tokens == BATCH_TOKENS and change != "plain loss" and packed
    note = f"{1e3 * seconds / (count - warmup):.1f} ms a step; compiled, first step: {first:.1f} s{_peak(run)}"
    run.row(change, target / seconds, PREDICTED[size, compiled] if full else None, unit="target tokens/s", note=note)


def _peak(run: Run) -> str:
    return f"; peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if run.device.startswith("cuda") else ""


def new_shapes(run: Run) -> None:
    """What the first steps of padded batches cost, all of new shapes, with and without cuDNN's attention."""
    train_step = make_step(run, "base", packed=False)
    _, steps = batches_of(run, packed=False)
    for cudnn in (False, True, False):
        torch.backends.cuda.enable_cudnn_sdp(cudnn)
        chosen, times, shapes = list(islice(steps, 3 if run.small else 30)), [], set()
        for number, step in enumerate(chosen, start=1):
            start = time.perf_counter()
            train_step.run(step, number, 1e-4)
            train_step.wait()
            times.append(time.perf_counter() - start)
            shapes |= {(batch.source.shape, batch.target.shape) for batch in step.micro_batches}  # type: ignore
        name = f"30 new steps, cuDNN's attention {'on' if cudnn else 'off'}"
        note = f"{len(shapes)} shapes, median {1e3 * statistics.median(times):.0f} ms"
        run.row(name, sum(times), unit="s", note=note)


def waits(run: Run) -> None:
    """No step in bfloat16 makes the program wait for the GPU: PyTorch raises an error where one does."""
    train_step = make_step(run, "base", compiled=not run.small)
    made, steps = batches_of(run, packed=True)
    train_step.prepare(made.example())
    chosen = list(islice(steps, 6))
    for number, step in enumerate(chosen[:3], start=1):
        train_step.run(step, number, 1e-4)
    if not run.small:
        torch.cuda.set_sync_debug_mode("error")
    for number, step in enumerate(chosen[3:], start=4):
        train_step.run(step, number, 1e-4, norm=number == 6)
    if not run.small:
        torch.cuda.set_sync_debug_mode("default")
    run.row("three steps without a wait", "none", ok=True)


def gradients(run: Run, precision: str) -> None:
    """The gradient of a packed batch on the GPU beside that of the padded batch on the CPU in float64."""
    where = devices.choose(run.device)
    config = replace(TINY if run.small else MODELS["base"], layers=2, dropout=0.0)
    pairs = store.pairs(run.store, 2_000 if run.small else store.PAIRS)
    rows = pairs.pairs(torch.arange(8 if run.small else 70).numpy())
    length = max(sum(map(len, side)) for side in rows) + 40
    torch.manual_seed(1)
    model = build.build(config, VOCABULARY, VOCABULARY, PAD)
    exact = _gradients(Objective(copy.deepcopy(model).double(), TrainingConfig()), collate_pairs(*rows))
    objective = Objective(model.to(where), TrainingConfig(precision=precision))  # type: ignore[arg-type]
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    for shape, batch in (("packed", pack(*rows, length, store.LONGEST + 1)), ("padded", collate_pairs(*rows))):
        found = _gradients(objective, batch.to(where))
        errors = {name: float((found[name].cpu() - x).norm() / x.norm().clamp(min=1e-12)) for name, x in exact.items()}
        total = float(sum((found[n].cpu() - x).square().sum() for n, x in exact.items()).sqrt())  # type: ignore
        total /= float(sum(x.square().sum() for x in exact.values()).sqrt())  # type: ignore[union-attr]
        limit = {"float32": 1e-5, "tf32": 5e-3, "bfloat16": 5e-2, "float16": 2e-2}[precision]
        worst = max(errors, key=lambda name: errors[name])
        note = f"limit {limit}; worst of one weight: {worst} {errors[worst]:.2g}"
        run.row(f"relative error, {shape}", total, ok=total < limit, note=note)


def _gradients(objective: Objective, batch: object) -> dict[str, Tensor]:
    objective.train()
    objective.zero_grad()
    value, _ = objective(batch)
    value.backward()
    return {
        name: weight.grad.double() for name, weight in objective.model.named_parameters() if weight.grad is not None
    }


def kernels(run: Run, size: str) -> None:
    """Where the time of a step goes: the slowest kernels, as a table in the output folder."""
    from torch.profiler import ProfilerActivity, profile

    train_step = make_step(run, size, compiled=not run.small)
    made, steps = batches_of(run, packed=True)
    train_step.prepare(made.example())
    chosen = list(islice(steps, 15))
    seconds_of_steps(run, train_step, chosen[:10], 9)
    kinds = [ProfilerActivity.CPU, *([] if run.small else [ProfilerActivity.CUDA])]
    with profile(activities=kinds) as profiled:
        seconds, _ = seconds_of_steps(run, train_step, chosen[10:], 0)
    averages = profiled.key_averages()
    order = "self_cpu_time_total" if run.small else "self_device_time_total"
    path = run.out / f"kernels-{size}.txt"
    path.write_text(averages.table(sort_by=order, row_limit=40, max_name_column_width=90), encoding="utf-8")
    for event in sorted(averages, key=lambda event: -getattr(event, order))[:12]:
        share = getattr(event, order) / 1e6 / seconds
        run.row(
            event.key[:70], getattr(event, order) / 5e3, unit="ms a step", note=f"{share:.0%}, {event.count // 5} calls"
        )


def curve(run: Run) -> None:
    """The losses of 300 steps in bfloat16 (all fast paths) beside float32 (padded, not compiled)."""
    curves = []
    count = 6 if run.small else 300
    for precision, packed in (("float32", False), ("bfloat16", True)):
        train_step = make_step(run, "base", precision, packed=packed, compiled=packed and not run.small)
        made, steps = batches_of(run, packed=packed, tokens=6_000)
        train_step.prepare(made.example())
        found: list[Tensor] = []
        for number, step in enumerate(islice(steps, count), start=1):
            train_step.losses.zero_()
            train_step.run(step, number, 5e-4 * min(1, number / 100))
            found.append(train_step.losses[1] / step.target_tokens)
        curves.append(torch.stack(found).cpu())
    worst = float((curves[0] - curves[1]).abs().max())
    (run.out / "curves.json").write_text(json.dumps([curve.tolist() for curve in curves]), encoding="utf-8")
    last = [float(curve[-count // 6 :].mean()) for curve in curves]
    run.row("-log p of the last steps, float32", last[0])
    run.row(
        "-log p of the last steps, bfloat16", last[1], ok=abs(last[0] - last[1]) < 0.1, note=f"largest gap {worst:.3f}"
    )
