"""Does nmt work on this GPU, how fast, and how does that compare with what was predicted?

    python scripts/gpu_check.py --stage 1|2|3|4 [--out FOLDER] [--store FOLDER]
    python scripts/gpu_check.py --without-gpu
    python scripts/gpu_check.py --roofline base|big
    python scripts/gpu_check.py --stage 1 --rehearse

A stage takes at most nine minutes: 1, what must run and where the time goes; 2, attention and loss alone, the full
design, a loss curve; 3, search, memory, stopping, several processes; 4, the most important checks of all again.
`--without-gpu` runs what needs no GPU, in under four minutes on two cores. `--rehearse` runs a stage on the CPU with
tiny models, to see that the script itself works. `--roofline` prints what docs/performance.md has on GPUs.

Each check is a process of its own with its own time limit, so that one that crashes or hangs does not end the others.
Results go to FOLDER/results.jsonl as they come, output to FOLDER/logs, and a table is printed at the end. The exit
status is 1 if something failed, or there was no time left to run it. What is slower than 0.8 of the prediction is
called slow, and is no failure.
"""

import argparse
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from gpu import plan, report
from gpu.plan import Check

_STAGE_SECONDS = 9 * 60
_WITHOUT_GPU_SECONDS = 4 * 60
_TOGETHER = 4  # checks that run at the same time, where time is not what they measure


def main() -> None:
    arguments = _arguments()
    if arguments.roofline:
        command = [sys.executable, "-m", "gpu.fake_step", arguments.roofline]
        sys.exit(subprocess.run(command, env=_environment()).returncode)
    out = Path(arguments.out or tempfile.mkdtemp(prefix="gpu-check-"))
    (out / "logs").mkdir(parents=True, exist_ok=True)
    if arguments.check:
        _run_here(arguments, out)
        return
    _check_packages(arguments)
    results = out / "results.jsonl"
    results.unlink(missing_ok=True)
    results.touch()
    stage = 0 if arguments.without_gpu else arguments.stage
    deadline = time.monotonic() + (_WITHOUT_GPU_SECONDS if stage == 0 else _STAGE_SECONDS)
    chosen = plan.checks(stage)
    if any(check.pretends for check in chosen) and _has_cuda():
        for check in filter(lambda check: check.pretends, chosen):
            note = "a pretended GPU needs a CPU build of PyTorch, and this is one for CUDA"
            report.append(results, check=check.name, what="all of it", measured="", verdict="skipped", note=note)
        chosen = [check for check in chosen if not check.pretends]
    together = 2 if stage == 0 or arguments.rehearse else _TOGETHER
    with ThreadPoolExecutor(together) as pool:
        list(pool.map(lambda check: _run(check, arguments, out, deadline), [c for c in chosen if not c.alone]))
    for check in [c for c in chosen if c.alone]:
        _run(check, arguments, out, deadline)
    rows = report.rows_of(results)
    (out / "table.txt").write_text(report.table(rows) + "\n", encoding="utf-8")
    print(report.table(rows))
    failed = [row for row in rows if row["verdict"] in ("FAILED", "not run")]
    print(f"{len(rows)} results, {len(failed)} failed or not run; in {out}")
    sys.exit(1 if failed else 0)


def _has_cuda() -> bool:
    import torch  # only here: it takes more than a second

    return torch.version.cuda is not None


def _check_packages(arguments: argparse.Namespace) -> None:
    """Ends the program, with a line that says what to do, where no check could give a result."""
    missing = [name for name in ("pytest", "hypothesis", "triton") if find_spec(name) is None]
    if arguments.without_gpu and missing:
        sys.exit(f"gpu_check: missing: {', '.join(missing)}: pip install -e '.[dev]'")
    if arguments.stage is not None and not (arguments.rehearse or arguments.without_gpu):
        import torch

        if not torch.cuda.is_available():
            sys.exit("gpu_check: PyTorch finds no CUDA device: use --without-gpu, or --rehearse to try the checks")


def _run(check: Check, arguments: argparse.Namespace, out: Path, deadline: float) -> None:
    """Run a check in a process group of its own; a crash or the end of its time becomes a row."""
    log, limit = out / "logs" / f"{check.name.replace(' ', '-')}.txt", min(check.seconds, deadline - time.monotonic())
    failure = "no time was left" if limit <= 0 else None
    verdict = "FAILED" if 0 < limit == check.seconds else "not run"  # of one that takes too long
    start = time.monotonic()
    if failure is None:
        command = [sys.executable, __file__, "--check", check.name, "--out", out, "--store", _store(arguments)]
        command += ["--rehearse"] * arguments.rehearse
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, env=_environment(), start_new_session=True)
            try:
                status = process.wait(limit)
                if status:
                    failure, verdict = f"status {status}: {_last_line(log)}", "FAILED"
            except subprocess.TimeoutExpired:
                failure = f"took longer than {limit:.0f} s"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
    if failure is not None:
        report.append(
            out / "results.jsonl",
            check=check.name,
            what="ends well",
            measured="no",
            verdict=verdict,
            note=failure[:300],
        )
    print(f"{check.name}: {failure or 'done'} ({time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)


def _environment() -> dict[str, str]:
    scripts = Path(__file__).parent
    paths = [str(scripts.parent), str(scripts), str(scripts.parent / "tests"), os.environ.get("PYTHONPATH", "")]
    # A check's own work on the CPU is small: more threads would wait for one another.
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}


def _run_here(arguments: argparse.Namespace, out: Path) -> None:
    """One check, in this process."""
    (check,) = [check for check in plan.CHECKS if check.name == arguments.check]
    module, _, function = check.function.partition(":")
    small = arguments.rehearse or 0 in check.stages
    device = "cpu" if small else "cuda"
    run = report.Run(check.name, out / "results.jsonl", out, _store(arguments), device, small)
    getattr(importlib.import_module(f"gpu.{module}"), function)(run, *check.arguments)


def _store(arguments: argparse.Namespace) -> Path:
    store = Path(arguments.store or Path(tempfile.gettempdir()) / "gpu-check-store")
    store.mkdir(parents=True, exist_ok=True)
    return store


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").split("\n") if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--stage", type=int, choices=(1, 2, 3, 4))
    what.add_argument("--without-gpu", action="store_true", help="what needs no GPU")
    what.add_argument("--roofline", choices=("base", "big"), help="kernels, bytes and time of a step, by counting")
    what.add_argument("--check", help=argparse.SUPPRESS)  # one of them, in this process
    parser.add_argument("--out", help="a folder for results; default: a new one in the temporary folder")
    parser.add_argument("--store", help="a folder for data, 30 MB, which is made if it is missing")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, with tiny models")
    return parser.parse_args()


if __name__ == "__main__":
    main()
