"""Memory that runs out, stopping and resuming, and several processes as far as one GPU allows."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist

from gpu import store, training
from gpu.report import Run
from nmt.commands.train import train
from nmt.data.packing import pack
from nmt.data.padding import collate_pairs
from nmt.data.token_store import TokenStore
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.training import memory, sharding
from nmt.training.objective import Objective, run_passes

ROOT = Path(__file__).parents[2]


def auto(run: Run, size: str) -> None:
    """What micro_batch_tokens: auto chooses fits with the longest pairs, and leaves little memory unused."""
    train_step = training.make_step(run, size, packed=not run.small)
    chosen = memory.largest_micro_batch(train_step.objective, 2_000 if run.small else 2_000_000, 128, Ranks())
    run.row(f"micro_batch_tokens: auto, {size}", chosen, unit="tokens", ok=run.small or chosen >= 25_000)
    if run.small:
        return
    torch.cuda.reset_peak_memory_stats()
    memory._passes(train_step.objective, chosen, 128)
    peak, there = torch.cuda.max_memory_allocated(), torch.cuda.get_device_properties(0).total_memory
    run.row("its peak, of the GPU's memory", peak / there, ok=0.4 < peak / there < 0.95)


def out_of_memory(run: Run) -> None:
    """A step that cannot fit ends with an error that says which setting to lower."""
    if run.small:
        run.row("a step that is too large", "not rehearsed", note="a CPU refuses it before it starts")
        return
    overrides = training.settings(run, "big", "float32", packed=True, compiled=False)
    overrides += ["training.batch_tokens=4000000", "data.validation=null"]  # packed: all of these places are computed
    try:
        train(training.demo_config(overrides), run.device)
        run.row("a step that is too large", "fits", ok=False)
    except NmtError as error:
        run.row("a step that is too large", "an error", ok="micro_batch_tokens" in str(error), note=str(error)[:200])


def sigterm(run: Run) -> None:
    """SIGTERM in the middle of training: the state is saved, the status is 0, and the same command resumes."""
    overrides = training.settings(run, "base", "bfloat16", packed=not run.small, compiled=False)
    overrides += ["training.max_steps=100000", "training.validate_every=100000", "training.checkpoint_every=100000"]
    config = ROOT / "configs/demo.yaml"
    command = [sys.executable, "-m", "nmt", "train", config, *overrides, "--device", run.device]
    metrics = run.out / "runs" / run.check / "metrics.jsonl"
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
        steps = metrics.read_text().count('"loss"')
        note = f"status {status} after {time.monotonic() - start:.1f} s; {steps} rows of metrics"
        run.row(f"stopped, session {session}", "saved" if status == 0 else "failed", ok=status == 0, note=note)


def nccl(run: Run) -> None:
    """A process group of one rank over NCCL: a reduction, DDP and FSDP2 of base size."""
    backend = "gloo" if run.small else "nccl"
    address = f"tcp://127.0.0.1:{29_400 + os.getpid() % 1000}"
    dist.init_process_group(backend, init_method=address, rank=0, world_size=1, timeout=timedelta(seconds=30))
    where = torch.device(run.device)
    values = torch.ones(4, device=where)
    dist.all_reduce(values)
    run.row(f"all_reduce, {backend}", "1", ok=bool((values == 1).all()))
    for name in ("DDP", "FSDP2"):
        made, steps = training.batches_of(run, packed=True, tokens=4_000)
        if name == "DDP":
            train_step = training.make_step(run, "base")
            train_step.parallel = torch.nn.parallel.DistributedDataParallel(
                train_step.objective, broadcast_buffers=False, gradient_as_bucket_view=True
            )
        else:
            train_step = training.make_step(run, "base")
            objective = Objective(train_step.model, train_step.training, sharded=True)
            sharding.shard(objective, where, Ranks())
            run_passes(objective, made.example())
            batch = next(steps).micro_batches[0].to(where)
            objective.train()
            value, _ = objective(batch)
            value.backward()
            norm = float(
                sum(sharding.gather(w.grad).square().sum() for w in objective.parameters() if w.grad is not None)
            )
            run.row("FSDP2: a packed pass", norm, ok=norm > 0, note="the square of the gradient's norm")
            continue
        for number, step in enumerate(islice(steps, 3), start=1):
            train_step.run(step, number, 1e-4)
        run.row(f"{name}: three packed steps", "ok", ok=train_step.is_finite())
    dist.destroy_process_group()


def two_ranks(run: Run) -> None:
    """Two ranks over gloo on one GPU: their gradient is that of one rank with all of the batch."""
    address = run.out / "two-ranks"
    address.unlink(missing_ok=True)
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    ranks = [context.Process(target=_rank, args=(run, rank, str(address), queue)) for rank in range(2)]
    for process in ranks:
        process.start()
    together = queue.get()  # before they end: the pipe is smaller than the gradients
    for process in ranks:
        process.join()
    objective = _objective(run)
    value, _ = objective(_batch(store_of(run), 0, 1).to(torch.device(run.device)))
    value.backward()
    alone = {
        name: weight.grad.cpu().numpy() for name, weight in objective.named_parameters() if weight.grad is not None
    }
    difference = sum(float(((alone[name] - together[name]) ** 2).sum()) for name in alone) ** 0.5
    error = difference / sum(float((x**2).sum()) for x in alone.values()) ** 0.5
    run.row("relative error of the gradient of two ranks", error, ok=error < 1e-4)


def store_of(run: Run) -> TokenStore:
    return store.pairs(run.store, 2_000 if run.small else store.PAIRS)


def _objective(run: Run) -> Objective:
    from gpu.sizes import MODELS, VOCABULARY
    from nmt.config.schema import TrainingConfig
    from nmt.data.vocabulary import PAD
    from nmt.models import build

    torch.manual_seed(1)
    model = build.build(training.TINY if run.small else MODELS["base"], VOCABULARY, VOCABULARY, PAD)
    for module in model.modules():
        if hasattr(module, "dropout"):
            module.dropout = 0.0
    object.__setattr__(model.config, "dropout", 0.0)
    return Objective(model.to(torch.device(run.device)), TrainingConfig()).train()


def _batch(pairs: TokenStore, rank: int, ranks: int) -> object:
    """Every second of the first pairs, packed; or padded, where there are no kernels."""
    import numpy as np

    rows = pairs.pairs(np.arange(rank, 40, ranks))
    if torch.cuda.is_available():
        return pack(*rows, max(sum(map(len, side)) for side in rows) + 8, store.LONGEST + 1)
    return collate_pairs(*rows)


def _rank(run: Run, rank: int, address: str, queue: object) -> None:
    dist.init_process_group("gloo", init_method=f"file://{address}", rank=rank, world_size=2)
    objective = _objective(run)
    parallel = torch.nn.parallel.DistributedDataParallel(objective, broadcast_buffers=False)
    value, _ = parallel(_batch(store_of(run), rank, 2).to(torch.device(run.device)))  # type: ignore[attr-defined]
    (value * 2).backward()  # DDP computes the mean
    if rank == 0:
        found = {name: w.grad.cpu().numpy() for name, w in objective.named_parameters() if w.grad is not None}
        queue.put(found)  # type: ignore[attr-defined]
    dist.barrier()
    dist.destroy_process_group()
