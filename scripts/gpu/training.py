"""Checks whether training runs on a GPU, its gradients, whether it can be repeated bit by bit, and its speed."""

import copy
import hashlib
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count, islice, product
from pathlib import Path

import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.autograd import DeviceType

from gpu import ceilings, report, store
from gpu.report import Run
from gpu.sizes import BATCH_TOKENS, COUNTED, MODELS, SMALL, SMALL_BATCH_TOKENS, TINY
from nmt import device as devices
from nmt.commands.train import train
from nmt.config import schema
from nmt.config.schema import TrainingConfig
from nmt.data.batches.batching import Batches, BatchOrder, Budget, Step
from nmt.data.batches.packing import pack
from nmt.data.batches.padding import collate_pairs
from nmt.data.subwords.vocabulary import PAD
from nmt.distributed.ranks import Ranks
from nmt.files import tensors as tensor_file
from nmt.models import build
from nmt.training import compilation, cuda_graph
from nmt.training.objective import Objective
from nmt.training.train_step import TrainStep

_ROOT = Path(__file__).parents[2]
# The largest relative errors of a gradient compared with float64. In float32 most of the error comes from ReLU, where a
# number near 0 has another sign.
_ROUNDING = {"float32": 2e-5, "tf32": 5e-3, "bfloat16": 5e-2, "float16": 2e-2}


def tests(run: Run, path: str) -> None:
    """Run the tests in a file. If there is a GPU, they also run kernels on it."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-q", "--thorough", _ROOT / "tests" / path]
    process = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
    print(process.stdout, process.stderr)
    last = next((line for line in reversed(process.stdout.split("\n")) if line.strip()), process.stderr[-200:])
    run.row(f"tests/{path}", "pass" if process.returncode == 0 else "fail", ok=process.returncode == 0, note=last)


def settings(run: Run, precision: str, *, packed: bool, compiled: bool) -> list[str]:
    """Overrides of the demo's config for a short run of base size that validates by search."""
    folder, model = store.demo(run.store), TINY if run.small else MODELS["base"]
    return [
        f"run_dir={run.out}/runs/{run.check.replace(' ', '-')}", f"data.store_dir={run.store}/demo-data",
        f"data.train=[{{source: {folder}/train.en, target: {folder}/train.de}}]",
        f"data.validation={{source: {folder}/validation.en, target: {folder}/validation.de}}",
        f"model.d_model={model.d_model}", f"model.feed_forward={model.feed_forward}", f"model.heads={model.heads}",
        f"model.layers={model.layers}", f"training.precision={precision}", f"training.packed={packed}",
        f"training.compile={compiled}", f"training.batch_tokens={128 if run.small else 4096}", "training.max_steps=20",
        "training.learning_rate=0.0005", "training.warmup_steps=10", "training.validate_every=10",
        f"training.validation_sentences={5 if run.small else 50}", "training.checkpoint_every=10",
        "training.log_every=5",
    ]  # fmt: skip


def demo_config(overrides: list[str]) -> schema.Config:
    return schema.load(_ROOT / "configs/demo.yaml", overrides)


def runs(run: Run, precision: str, shape: str, compiled: str) -> None:
    """Train, validate by search, stop and resume: losses fall, both sessions log, and weights are finite (else an error
    is raised)."""
    overrides = settings(run, precision, packed=shape == "packed", compiled=compiled == "compiled" and not run.small)
    start, warnings = time.perf_counter(), _Warnings(logging.WARNING)
    logging.getLogger("nmt").addHandler(warnings)
    train(demo_config(overrides), run.device)
    config = demo_config([*overrides, "training.max_steps=30"])
    train(config, run.device)
    rows = report.rows_of(Path(config.run_dir) / "metrics.jsonl")
    losses = [row["loss"] for row in rows if "loss" in row]
    searched = [row for row in rows if "bleu" in row]
    ok = len(losses) == 6 and losses[-1] < losses[0] and len(searched) == 3
    note = f"losses {losses[0]:.2f} to {losses[-1]:.2f}, {len(searched)} validations by search"
    what = f"trains, validates, resumes, {precision}, {shape}"
    run.row(what, time.perf_counter() - start, unit="s", ok=ok, note=note)
    for message in warnings.messages:  # without Triton, torch.compile or packed batches, training continues slowly
        run.row("a warning", message[:150], ok="not work here" not in message and "uncompiled" not in message)


class _Warnings(logging.Handler):
    def __init__(self, level: int):
        super().__init__(level)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def make_step(
    run: Run,
    size: str,
    precision: str = "bfloat16",
    *,
    packed: bool = True,
    compiled: bool = False,
    dropout: float = 0.1,
    tokens: int = BATCH_TOKENS,
) -> TrainStep:
    torch.manual_seed(1)
    config = replace(TINY if run.small else MODELS[size], dropout=dropout)
    model = build.build(config, run.vocabulary, run.vocabulary, PAD)
    compiled = compiled and not run.small
    training = TrainingConfig(precision=precision, packed=packed, compile=compiled, batch_tokens=tokens)  # type: ignore
    return TrainStep(model, training, 1, devices.choose(run.device), Ranks())


def batches_of(run: Run, *, packed: bool, tokens: int = BATCH_TOKENS) -> tuple[Batches, Iterator[Step]]:
    """The batches of the store, and endless steps from it in memory from which a GPU can copy."""
    made = Batches(
        store.pairs(run.store, small=run.small),
        Budget(600 if run.small else tokens),
        BatchOrder(1, 100_000),
        packed=packed,
    )
    steps = chain.from_iterable(map(made.epoch, count()))
    return made, map(Step.pinned, steps) if run.device.startswith("cuda") else steps


def seconds_of_steps(train_step: TrainStep, steps: list[Step], warmup: int = 0) -> tuple[float, int]:
    """Seconds of the steps after the first `warmup`, and their target tokens."""
    start = time.perf_counter()
    for step_number, step in enumerate(steps, start=1):
        if step_number == warmup + 1:
            train_step.wait()
            start = time.perf_counter()
        train_step.run(step, step_number, 1e-4)
    train_step.wait()
    return time.perf_counter() - start, sum(step.target_tokens for step in steps[warmup:])


def speed(run: Run, size: str) -> None:
    """Target tokens per second of training on a GPU, with steps of the paper's size and with small steps; and the
    kernels that take most of the time."""
    for tokens in (BATCH_TOKENS, SMALL_BATCH_TOKENS):
        train_step = make_step(run, size, compiled=True, dropout=MODELS[size].dropout, tokens=tokens)
        made, steps = batches_of(run, packed=True, tokens=tokens)
        start = time.perf_counter()
        train_step.prepare(made.example())
        train_step.run(next(steps), 1, 1e-4)
        train_step.wait()
        first = time.perf_counter() - start
        step_count, warmup = (4, 2) if run.small else (165, 15) if size == "base" else (60, 10)
        timed = list(islice(steps, step_count))
        seconds, target = seconds_of_steps(train_step, timed, warmup)
        milli = 1e3 * seconds / (step_count - warmup)
        note = f"{milli:.1f} ms a step; first step, perhaps cached: {first:.1f} s{peak(run)}"
        name = f"{size}, {tokens:,} tokens a step"
        predicted = _predicted(run, size) if tokens == BATCH_TOKENS else None
        run.row(f"{name}, as trained", target / seconds, predicted, unit="target tokens/s", note=note)
        if tokens == BATCH_TOKENS:
            graphs = compilation.graphs()
            recompiled = sum(graph.recompile_reason is not None for graph in graphs)
            breaks = dict(counters["graph_break"])
            run.row("compiled graphs", len(graphs), note=f"{recompiled} recompiled, breaks {breaks}"[:200])
            _profile(run, size, train_step, timed[:10])


def _predicted(run: Run, size: str) -> float | None:
    flops, copied = run.measured(ceilings.products_of(size)), run.measured(ceilings.COPY)
    if not flops or not copied or run.small:
        return None
    return COUNTED[size].tokens_per_second(1e12 * flops, 1e12 * copied)


def peak(run: Run) -> str:
    return f"; peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if run.device.startswith("cuda") else ""


def _profile(run: Run, size: str, train_step: TrainStep, steps: list[Step]) -> None:
    """The kernels that take longest, as rows, and all of them as a table in the output folder."""
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *([] if run.small else [ProfilerActivity.CUDA])]
    with profile(activities=kinds) as profiled:
        seconds, _ = seconds_of_steps(train_step, steps)
    averages = profiled.key_averages()
    order = "self_cpu_time_total" if run.small else "self_device_time_total"
    table = averages.table(sort_by=order, row_limit=60, max_name_column_width=90)
    (run.out / f"kernels-{size}.txt").write_text(table, encoding="utf-8")
    # On a GPU operators have the time of their kernels, which are also listed.
    kernels = [event for event in averages if run.small or event.device_type == DeviceType.CUDA]
    for event in sorted(kernels, key=lambda event: -getattr(event, order))[:15]:
        milli, calls = getattr(event, order) / 1e3 / len(steps), event.count / len(steps)
        note = f"{milli / 1e3 * len(steps) / seconds:.0%}, {calls:.0f} calls"
        run.row(event.key[:70], milli, unit="ms a step", note=note)


def waits(run: Run) -> None:
    """A step in bfloat16 does not make the program wait for the GPU; otherwise PyTorch raises an error."""
    train_step = make_step(run, "base", compiled=True)
    made, steps = batches_of(run, packed=True)
    train_step.prepare(made.example())
    for step_number, step in enumerate(islice(steps, 6), start=1):
        if step_number == 4 and not run.small:
            torch.cuda.set_sync_debug_mode("error")
        train_step.run(step, step_number, 1e-4, norm=step_number == 6)
    if not run.small:
        torch.cuda.set_sync_debug_mode("default")
    run.row("three steps without a wait", "none", ok=True)


def _gradients(objective: Objective, *batches: object) -> dict[str, Tensor]:
    """The summed gradients of micro-batches."""
    objective.train().zero_grad()
    for batch in batches:
        value, _ = objective(batch)
        value.backward()
    return {name: w.grad.double().cpu() for name, w in objective.model.named_parameters() if w.grad is not None}


def _errors(got: dict[str, Tensor], expected: dict[str, Tensor]) -> tuple[float, dict[str, float]]:
    """The relative error of the whole gradient, and of the gradient of each weight. For a weight with a gradient near
    zero, the error is relative to a thousandth of the whole gradient, because it is only rounding."""
    norm = float(sum(x.square().sum() for x in expected.values())) ** 0.5
    total = float(sum((got[name] - x).square().sum() for name, x in expected.items())) ** 0.5 / norm
    least = 1e-3 * norm
    return total, {name: float((got[name] - x).norm() / x.norm().clamp(min=least)) for name, x in expected.items()}


def _compare(run: Run, what: str, got: dict[str, Tensor], expected: dict[str, Tensor], limit: float) -> None:
    """Write a row with the relative error of the gradient, and with the largest relative error of a weight."""
    total, errors = _errors(got, expected)
    worst = max(errors, key=lambda name: errors[name])
    ok = total < limit and errors[worst] < 6 * limit and got.keys() == expected.keys()
    run.row(f"relative error, {what}", total, ok=ok, note=f"limit {limit}; worst weight: {worst} {errors[worst]:.2g}")


def gradients(run: Run, precision: str) -> None:
    """The gradient on the GPU, packed and padded, compared with the padded batch on the CPU in float64."""
    where = devices.choose(run.device)
    config = replace(TINY if run.small else MODELS["base"], layers=2, dropout=0.0)
    rows = store.pairs(run.store, small=run.small).pairs(torch.arange(8 if run.small else 70).numpy())
    length = max(sum(map(len, side)) for side in rows) + 40
    torch.manual_seed(1)
    model = build.build(config, run.vocabulary, run.vocabulary, PAD)
    exact = _gradients(Objective(copy.deepcopy(model).double(), TrainingConfig()), collate_pairs(*rows))
    objective = Objective(model.to(where), TrainingConfig(precision=precision))  # type: ignore[arg-type]
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    for shape, batch in (("packed", pack(*rows, length, store.LONGEST + 1)), ("padded", collate_pairs(*rows))):
        _compare(run, shape, _gradients(objective, batch.to(where)), exact, _ROUNDING[precision])


def recorded_gradients(run: Run, precision: str) -> None:
    """The summed gradients of three micro-batches with dropout have the same bits, whether they are replayed from a
    CUDA graph or the operations are started one by one."""
    train_step = make_step(run, "base", precision, compiled=True)
    made, steps = batches_of(run, packed=True, tokens=4_000)
    batches = [next(steps).micro_batches[0] for _ in range(3)]
    train_step.prepare(made.example())
    objective, gradients = train_step.objective, []
    is_recorded = objective.recorded is not None
    run.row(f"a pass is recorded, {precision}", str(is_recorded), ok=run.small or is_recorded)
    for recorded in (objective.recorded, None):
        objective.recorded = recorded
        torch.manual_seed(1)
        gradients.append(_gradients(objective, *(batch.to(train_step.device) for batch in batches)))
    total, _ = _errors(*gradients)
    equal = all(torch.equal(gradients[0][name], gradients[1][name]) for name in gradients[1])
    run.row(
        f"relative difference, {precision}", total, ok=total < 1e-6, note="the same bits" if equal else "other bits"
    )


def compiled_gradients(run: Run, size: str) -> None:
    """Compare the gradient of each weight for a full batch of the full model: in float32, compiled and uncompiled
    layers; in bfloat16, both with float32, because sums over a batch, such as the gradients of biases, lose half of
    their digits there. PyTorch 2.10 computed gradients of norms and biases wrongly without an error."""
    made, steps = batches_of(run, packed=True)
    batch = next(steps).micro_batches[0]
    gradients_of: dict[tuple[str, bool], dict[str, Tensor]] = {}
    for precision, compiled in product(("float32", "bfloat16"), (False, True)):
        train_step = make_step(run, size, precision, compiled=compiled, dropout=0.0)
        train_step.prepare(made.example())
        if compiled and not run.small:
            run.row(f"layers are compiled, {precision}", str(train_step.compiled), ok=train_step.compiled)
        gradients_of[precision, compiled] = _gradients(train_step.objective, batch.to(train_step.device))
        del train_step
        if not run.small:
            torch.cuda.empty_cache()
    exact = gradients_of["float32", False]
    _compare(run, "float32, compiled", gradients_of["float32", True], exact, 1e-3)
    eager, plain = _errors(gradients_of["bfloat16", False], exact)
    total, errors = _errors(gradients_of["bfloat16", True], exact)
    worst = max(errors, key=lambda name: errors[name] - 1.5 * plain[name])
    ok = errors[worst] < 1.5 * plain[worst] + 0.02
    run.row("relative error, bfloat16, not compiled", eager)
    note = f"worst weight: {worst} {errors[worst]:.2g}, not compiled {plain[worst]:.2g}"
    run.row("relative error, bfloat16, compiled", total, ok=ok and total < 1.5 * eager + 0.02, note=note)


def step_twice(run: Run) -> None:
    """Three compiled steps with dropout, twice from the same weights, give the same bits."""
    made, steps = batches_of(run, packed=True)
    first_steps, states = list(islice(steps, 3)), []
    for _ in range(2):
        train_step = make_step(run, "base", compiled=True)
        train_step.prepare(made.example())
        for step_number, step in enumerate(first_steps, start=1):
            train_step.run(step, step_number, 1e-3)
        states.append({name: weight.detach().cpu() for name, weight in train_step.model.named_parameters()})
    different = [name for name, weight in states[0].items() if not torch.equal(weight, states[1][name])]
    measured = "equal" if not different else "different"
    run.row("three steps, twice", measured, ok=not different, note=", ".join(different)[:200])


def small_steps(run: Run) -> None:
    """Steps of a small model with Muon and clipping: as one CUDA graph, with a graph of the passes, and with operations
    that are started one by one. They give nearly the same weights and losses, and do not wait for the GPU."""
    made, steps = batches_of(run, packed=True, tokens=SMALL_BATCH_TOKENS)
    step_count, warmup = (4, 2) if run.small else (60, 20)
    timed, weights, losses = list(islice(steps, step_count)), [], []
    training = TrainingConfig(
        packed=True, optimizer="muon", clip_norm=1.0, precision="bfloat16", batch_tokens=SMALL_BATCH_TOKENS
    )
    for name in ("as one graph", "with a graph of the passes", "without a graph"):
        torch.manual_seed(1)
        model = build.build(TINY if run.small else SMALL, run.vocabulary, run.vocabulary, PAD)
        train_step = TrainStep(model, training, 1, devices.choose(run.device), Ranks())
        train_step.prepare(made.example())
        if name != "as one graph":
            train_step.recorded = None
        if name == "with a graph of the passes" and not run.small:
            cuda_graph.record(train_step.objective, made.example())  # type: ignore[arg-type]
        seconds, _ = seconds_of_steps(train_step, timed, warmup)
        run.row(f"a small step {name}", 1e3 * seconds / (step_count - warmup), unit="ms")
        if not run.small:
            torch.cuda.set_sync_debug_mode("error")
            train_step.run(timed[0], step_count + 1, 1e-4)
            torch.cuda.set_sync_debug_mode("default")
        if name == "as one graph" and not run.small:
            (batch,) = timed[0].micro_batches
            is_recorded = train_step.recorded is not None and train_step.recorded.fits(batch)  # type: ignore[arg-type]
            run.row("a small step is recorded", str(is_recorded), ok=is_recorded)
        weights.append({name: weight.detach().double().cpu() for name, weight in model.named_parameters()})
        losses.append(float(train_step.losses[0]))
    total, _ = _errors(weights[0], weights[2])
    run.row("relative difference of the weights", total, ok=total < 1e-3)
    run.row("relative difference of the losses", losses[0] / losses[2] - 1, ok=abs(losses[0] / losses[2] - 1) < 1e-4)


def resume(run: Run, size: str) -> None:
    """12 steps without a stop, and 6 and 6 steps with a stop, give the same bits of weights, moments and average. Steps
    of a small model are one CUDA graph; the first ones after a stop are started one by one."""
    sums, small = (
        [],
        [f"model.{name}={getattr(SMALL, name)}" for name in ("d_model", "feed_forward", "heads", "layers")],
    )
    for name, stops in (("at once", (12,)), ("in two parts", (6, 12))):
        for stop in stops:
            overrides = settings(run, "bfloat16", packed=not run.small, compiled=not run.small)
            if size == "small":
                overrides += [*([] if run.small else small), "training.compile=null", "training.optimizer=muon"]
            overrides += [f"run_dir={run.out}/runs/{size}-{name.replace(' ', '-')}", "training.validate_every=1000"]
            overrides += ["training.checkpoint_every=6", "training.ema_decay=0.9", "training.validation_bleu=false"]
            config = demo_config([*overrides, f"training.max_steps={stop}"])
            train(config, run.device)
        newest = sorted(Path(config.run_dir, "state").glob("step-*.safetensors"))[-1]
        tensors, digest = tensor_file.read(newest)[0], hashlib.sha256()
        for key in sorted(tensors):
            digest.update(tensors[key].reshape(-1).view(torch.uint8).numpy().tobytes())
        sums.append(digest.hexdigest())
    run.row(f"the state after a stop, {size}", "equal" if sums[0] == sums[1] else "different", ok=sums[0] == sums[1])
