"""Checks stopping, memory limits, and several processes on one GPU."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from gpu import store, training
from gpu.report import Run
from gpu.sizes import MODELS, TINY
from nmt.commands.train import train
from nmt.config.schema import TrainingConfig
from nmt.data.batches.batching import Batches, BatchOrder, Budget
from nmt.data.subwords.vocabulary import PAD
from nmt.distributed.ranks import Ranks, limit_waiting
from nmt.errors import NmtError
from nmt.models import build
from nmt.training import memory, sharding
from nmt.training.data_parallel import data_parallel
from nmt.training.objective import Objective, run_passes
from nmt.training.train_step import TrainStep

_ROOT = Path(__file__).parents[2]


def sigterm(run: Run) -> None:
    """SIGTERM during training saves the state and gives status 0, and the same command resumes."""
    overrides = training.settings(run, "bfloat16", packed=not run.small, compiled=False)
    overrides += ["training.max_steps=100000", "training.validate_every=100000", "training.checkpoint_every=100000"]
    command = [sys.executable, "-m", "nmt", "train", _ROOT / "configs/demo.yaml", *overrides, "--device", run.device]
    metrics = Path(training.demo_config(overrides).run_dir) / "metrics.jsonl"
    for session in (1, 2):
        before = metrics.read_text() if metrics.exists() else ""
        process = subprocess.Popen(command, start_new_session=True)
        try:
            while process.poll() is None and not (metrics.exists() and len(metrics.read_text()) > len(before)):
                time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            start = time.monotonic()
            status = process.wait(60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        note = f"status {status} after {time.monotonic() - start:.1f} s"
        run.row(f"stopped, session {session}", "saved" if status == 0 else "failed", ok=status == 0, note=note)


def auto(run: Run) -> None:
    """The choice of micro_batch_tokens: auto fits into memory with the longest pairs, and leaves little memory unused.
    A step that does not fit ends with an error that names the setting to lower. Of the models only big is tried."""
    train_step = training.make_step(run, "big", packed=not run.small, compiled=True, dropout=MODELS["big"].dropout)
    tried, passes = list[int](), memory._passes

    def recorded(objective: Objective, tokens: int, longest: int) -> None:
        tried.append(tokens)
        passes(objective, tokens, longest)

    memory._passes = recorded
    most = 2_000 if run.small else 1_000_000
    start = time.perf_counter()
    chosen = memory.largest_micro_batch(train_step.objective, most, 128, 128.0, Ranks())
    note = f"{len(tried)} sizes tried, {min(tried):,} to {max(tried):,}, in {time.perf_counter() - start:.1f} s"
    run.row("micro_batch_tokens: auto, big", chosen, unit="tokens", ok=run.small or chosen >= 25_000, note=note)
    if run.small:
        return
    torch.cuda.reset_peak_memory_stats()
    passes(train_step.objective, chosen, 128)
    total = torch.cuda.get_device_properties(0).total_memory
    used = torch.cuda.max_memory_allocated() / total
    run.row("its peak, of the GPU's memory", used, ok=(used > 0.4 or chosen >= most) and used < 0.95)
    made, steps = training.batches_of(run, packed=True, tokens=chosen)
    train_step.prepare(made.example())
    for step in (1, 2):
        train_step.run(next(steps), step, 1e-4)
    ok = train_step.objective.recorded is not None and train_step.is_finite()
    note = "of the memory is reserved"
    run.row("two steps of it, with a CUDA graph", torch.cuda.max_memory_reserved() / total, ok=ok, note=note)
    del train_step
    torch.cuda.empty_cache()
    overrides = training.settings(run, "float32", packed=True, compiled=False)
    overrides += ["training.batch_tokens=8000000", "data.validation=null"]  # packed: all of these tokens are computed
    try:
        train(training.demo_config(overrides), run.device)
        run.row("a step that is too large", "fits", ok=False)
    except NmtError as error:
        run.row("a step that is too large", "an error", ok="micro_batch_tokens" in str(error), note=str(error)[:200])


def nccl(run: Run) -> None:
    """A process group of one rank with NCCL: a reduction, and DDP and FSDP2 with the base model."""
    backend, address = "gloo" if run.small else "nccl", f"tcp://127.0.0.1:{29_400 + os.getpid() % 1000}"
    dist.init_process_group(backend, init_method=address, rank=0, world_size=1, timeout=timedelta(seconds=30))
    where = torch.device(run.device)
    limit_waiting(where)
    values = torch.ones(4, device=where)
    dist.all_reduce(values)
    run.row(f"all_reduce, {backend}", "1", ok=bool((values == 1).all()))
    made, steps = training.batches_of(run, packed=True, tokens=4_000)
    train_step = training.make_step(run, "base", compiled=True)
    train_step.prepare(made.example())
    train_step.parallel = data_parallel(train_step.objective, "bfloat16")
    for i, step in enumerate(islice(steps, 3), start=1):
        train_step.run(step, i, 1e-4)
    run.row("DDP: three packed steps", "ok", ok=train_step.is_finite(), note="gradients in bfloat16")
    train_step = training.make_step(run, "base")
    objective = Objective(train_step.model, train_step.training, sharded=True)
    sharding.shard(objective, where, Ranks(), "bfloat16")
    run_passes(objective, made.example())
    value, _ = objective.train()(next(steps).micro_batches[0].to(where))
    value.backward()
    squares = [sharding.gather(w.grad).square().sum() for w in objective.parameters() if w.grad is not None]
    norm = float(sum(squares)) ** 0.5
    run.row("FSDP2: a packed pass", norm, ok=norm > 0, note="the gradient's norm")
    dist.destroy_process_group()


def two_ranks(run: Run) -> None:
    """A step of two ranks with gloo on one GPU has the same gradient as a step of one rank."""
    address = run.out / "two-ranks"
    address.unlink(missing_ok=True)
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    ranks = [context.Process(target=_rank, args=(run, rank, str(address), queue)) for rank in range(2)]
    for process in ranks:
        process.start()
    while queue.empty():  # read before they end: the pipe is smaller than the gradients
        if failed := [process.exitcode for process in ranks if process.exitcode]:
            raise SystemExit(f"a rank ended with status {failed[0]}")
        time.sleep(0.1)
    both_ranks = queue.get()
    for process in ranks:
        process.join()
    one_rank = _gradient(run, Ranks())
    difference = sum(float(((one_rank[name] - both_ranks[name]) ** 2).sum()) for name in one_rank) ** 0.5
    error = difference / sum(float((x**2).sum()) for x in one_rank.values()) ** 0.5
    run.row("relative error of the gradient of two ranks", error, ok=error < 1e-4)


def _gradient(run: Run, ranks: Ranks) -> dict[str, Any]:
    """The gradient of the ranks' first step, in float32."""
    torch.manual_seed(1)
    config = replace(TINY if run.small else MODELS["base"], dropout=0.0)
    model, on_gpu = build.build(config, run.vocabulary, run.vocabulary, PAD), not run.small
    training = TrainingConfig(precision="float32", packed=on_gpu, compile=on_gpu)
    train_step = TrainStep(model, training, 1, torch.device(run.device), ranks)
    budget = Budget(600 if run.small else 4_000)
    made = Batches(store.pairs(run.store, small=run.small), budget, BatchOrder(1, 100_000), ranks, packed=on_gpu)
    train_step.prepare(made.example())
    gradient: dict[str, Any] = {}

    def keep(*_: Any) -> bool:
        gradient.update({name: w.grad.cpu().numpy() for name, w in model.named_parameters() if w.grad is not None})
        return True

    train_step._update = keep  # type: ignore[method-assign]
    train_step.run(next(made.epoch(0)), 1, 1e-4)
    return gradient


def _rank(run: Run, rank: int, address: str, queue: Any) -> None:
    dist.init_process_group("gloo", init_method=f"file://{address}", rank=rank, world_size=2)
    gradient = _gradient(run, Ranks(rank, 2, rank, 2))
    if rank == 0:
        queue.put(gradient)
    dist.barrier()
    dist.destroy_process_group()
