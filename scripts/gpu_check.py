"""Checks whether nmt works on this GPU, and compares its speed with the limits of memory and matrix products.

    python scripts/gpu_check.py [--seconds 540] [--out FOLDER] [--store FOLDER] [--text FOLDER]
    python scripts/gpu_check.py --rehearse
    CUDA_LAUNCH_BLOCKING=1 python scripts/gpu_check.py --check "stop and resume"

The first checks are about correct results; they are always run. Then come the speeds of training and search, and the
time from text to a score. After --seconds, no more checks begin, and running checks are ended. `--rehearse` runs all
checks on the CPU with tiny models, to test this script. `--check` runs one check; with CUDA_LAUNCH_BLOCKING, an error
names the operation that started the kernel that failed.

Each check runs in its own process, so that a crash does not end the others. Results are written to FOLDER/results.jsonl
at once, output to FOLDER/logs, and a table is printed at the end. The exit status is 1 if a result is wrong or a check
crashed. A check that took too long is "not run", and a speed below 0.8 of a prediction or target is "slow"; these are
not failures.
"""

import argparse
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from gpu import plan, report
from gpu.plan import Check

from nmt.machine import usable_cores

_PATIENCE = 10  # how many times longer than on a GPU a check may take in a rehearsal
_WORKERS = "4"  # processes of each check that compile


def main() -> None:
    arguments = _arguments()
    out = Path(arguments.out or tempfile.mkdtemp(prefix="gpu-check-"))
    (out / "logs").mkdir(parents=True, exist_ok=True)
    if arguments.check:
        _run_here(arguments, out)
        return
    _check_packages(arguments)
    results = out / "results.jsonl"
    results.write_bytes(b"")
    shutil.rmtree(out / "runs", ignore_errors=True)  # of an earlier start, which would be resumed
    deadline = time.monotonic() + arguments.seconds
    for i, group in enumerate(plan.GROUPS):
        run = partial(_run, arguments=arguments, out=out, deadline=deadline, early=i < plan.EARLY)
        with ThreadPoolExecutor(min(len(group), max(2, usable_cores()))) as pool:
            list(pool.map(run, group))
        rows = report.rows_of(results)
        (out / "table.txt").write_text(report.table(rows) + "\n", encoding="utf-8")
    print(report.table(rows))
    counts = Counter(row["verdict"] for row in rows)
    print(f"{len(rows)} results, {counts['FAILED']} failed, {counts['not run']} not run; in {out}")
    sys.exit(1 if counts["FAILED"] else 0)


def _check_packages(arguments: argparse.Namespace) -> None:
    """Ends the program with a message if no check can give a result."""
    if missing := [name for name in ("pytest", "hypothesis", "triton") if find_spec(name) is None]:
        sys.exit(f"gpu_check: missing: {', '.join(missing)}: pip install -e '.[dev]'")
    if not arguments.rehearse:
        import torch  # only here, because it takes more than a second

        if not torch.cuda.is_available():
            sys.exit("gpu_check: PyTorch finds no CUDA device: use --rehearse to try the checks")


def _run(check: Check, arguments: argparse.Namespace, out: Path, deadline: float, early: bool) -> None:
    """Run a check in its own process group. A crash, or the end of its time, gives a row."""
    start, log = time.monotonic(), out / "logs" / f"{check.name.replace(' ', '-')}.txt"
    verdict, note, limit = "not run", "", check.seconds * (_PATIENCE if arguments.rehearse else 1)
    limit = limit if early else min(limit, deadline - start)
    if limit < check.seconds / 3:
        note = f"left out: {max(limit, 0):.0f} s were left"
    else:
        command = [sys.executable, __file__, "--check", check.name, "--out", out, "--store", _store(arguments)]
        if arguments.text:
            command += ["--text", arguments.text]
        if arguments.rehearse:
            command.append("--rehearse")
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, env=_environment(), start_new_session=True)
            try:
                if status := process.wait(limit):
                    verdict, note = "FAILED", f"status {status}: {_last_line(log)}"
            except subprocess.TimeoutExpired:
                note = f"took longer than {limit:.0f} s"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
    if note:
        row = {"check": check.name, "what": "all of it", "measured": "", "verdict": verdict, "note": note[:300]}
        report.append(out / "results.jsonl", **row)
    print(f"{check.name}: {note or 'done'} ({time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)


def _environment() -> dict[str, str]:
    scripts = Path(__file__).parent
    paths = [str(scripts.parent), str(scripts), str(scripts.parent / "tests"), os.environ.get("PYTHONPATH", "")]
    # A check does little work on the CPU: more threads would wait for one another.
    new = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    return {"TORCHINDUCTOR_COMPILE_THREADS": _WORKERS, **os.environ, **new}


def _run_here(arguments: argparse.Namespace, out: Path) -> None:
    """Run one check in this process."""
    check = plan.every()[arguments.check]
    module, _, function = check.function.partition(":")
    small = arguments.rehearse
    results, device, text = out / "results.jsonl", "cpu" if small else "cuda", arguments.text and Path(arguments.text)
    run = report.Run(check.name, results, out, _store(arguments), device, small, text)
    getattr(importlib.import_module(f"gpu.{module}"), function)(run, *check.arguments)
    print(report.table([row for row in report.rows_of(results) if row["check"] == check.name]))


def _store(arguments: argparse.Namespace) -> Path:
    store = Path(arguments.store or Path(tempfile.gettempdir()) / "gpu-check-store")
    store.mkdir(parents=True, exist_ok=True)
    return store


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").split("\n") if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = plan.every()
    parser.add_argument("--check", metavar="NAME", choices=names, help=f"one check alone: {', '.join(names)}")
    parser.add_argument("--seconds", type=float, default=540, help="when no more checks begin; default: 540")
    parser.add_argument("--out", help="a folder for results; default: a new one in the temporary folder")
    parser.add_argument("--store", help="a folder for data, 25 MB, which is made if it is missing")
    corpus = "a folder with train.en, val.en and test.en, and the same with .de, for training from text to a score"
    parser.add_argument("--text", help=f"{corpus}; default: the demo's corpus, with 29,000 pairs")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, with tiny models")
    return parser.parse_args()


if __name__ == "__main__":
    main()
