"""Measure nmt: how fast it trains beside another trainer, and what preparing a large corpus takes.

    python scripts/benchmark.py train CONFIG [section.key=value …] [--against COMMAND] [--rounds 5]
    python scripts/benchmark.py prepare [--pairs 10000000]

`train` runs `nmt train` for some steps and, in turn, the command given, which must print
`target_tokens_per_second=NUMBER`; the ratio is taken round by round, so that it holds on a machine whose
speed drifts. `prepare` generates a corpus, prepares it and trains a few steps on it, each in a process of its
own, and gives seconds and the peak of resident memory.
"""

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

NMT = [sys.executable, "-c", "from nmt.cli import main; main()"]


def nmt_speed(config: Path, overrides: Sequence[str], steps: int, warmup: int) -> float:
    """Target tokens a second of a fresh run, its first `warmup` steps left out."""
    with tempfile.TemporaryDirectory() as folder:
        settings = [
            *overrides, f"run_dir={folder}/run", f"training.max_steps={warmup + steps}", "data.validation=null",
            "training.patience=null", f"training.log_every={warmup}", "training.checkpoint_every=1000000",
        ]  # fmt: skip
        subprocess.run([*NMT, "train", str(config), *settings], check=True, capture_output=True)
        lines = Path(folder, "run", "metrics.jsonl").read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    first, last = rows[0], rows[-1]
    return float((last["target_tokens"] - first["target_tokens"]) / (last["seconds"] - first["seconds"]))


def other_speed(command: str) -> float:
    """Target tokens a second, as the command prints them. SystemExit with its output if it does not."""
    done = subprocess.run(shlex.split(command), capture_output=True, text=True)
    found = re.search(r"target_tokens_per_second=([0-9.]+)", done.stdout)
    if found is None:
        sys.exit(f"benchmark: {command} printed no target_tokens_per_second=…:\n{done.stdout}{done.stderr}")
    return float(found[1])


def train(arguments: argparse.Namespace) -> None:
    """Print a table of speeds, a line a round, and the median ratio."""
    with tempfile.TemporaryDirectory() as store:  # prepared once, not once a round
        overrides = [f"data.store_dir={store}", *arguments.overrides]
        print("round  nmt tokens/s" + ("  other tokens/s  ratio" if arguments.against else ""))
        ratios = []
        for number in range(1, arguments.rounds + 1):
            ours = nmt_speed(arguments.config, overrides, arguments.steps, arguments.warmup)
            line = f"{number:5d}  {ours:12,.0f}"
            if arguments.against:
                theirs = other_speed(arguments.against)
                ratios.append(ours / theirs)
                line += f"  {theirs:14,.0f}  {ratios[-1]:5.2f}"
            print(line, flush=True)
    if ratios:
        print(f"median ratio {statistics.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")


def write_corpus(folder: Path, pairs: int) -> None:
    """A corpus of made-up words with a natural skew: `pairs` lines of 5 to 35 words in source.txt, target.txt."""
    random = np.random.default_rng(1)
    letters = np.array(list("etaoinsrhldcumfpgwybvkxjqz"))
    zipf = 1 / np.arange(1, len(letters) + 1)
    spelled = random.choice(letters, (50_000, 9), p=zipf / zipf.sum())
    words = ["".join(row[:length]) for row, length in zip(spelled, random.integers(2, 10, len(spelled)), strict=True)]
    shares = np.cumsum(1 / np.arange(1, len(words) + 1))
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("source", "target"):
        with (folder / f"{name}.txt").open("w", encoding="utf-8") as file:
            for start in range(0, pairs, 10_000):
                ends = random.integers(5, 36, min(10_000, pairs - start)).cumsum()
                drawn = np.searchsorted(shares, random.random(ends[-1]) * shares[-1]).tolist()
                for begin, end in zip([0, *ends[:-1]], ends, strict=True):
                    file.write(" ".join(words[i] for i in drawn[begin:end]) + "\n")


def measured(command: Sequence[str]) -> tuple[float, float]:
    """Seconds, and the peak of resident memory in GiB of the process (it must start none of its own)."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"benchmark: {shlex.join(command)} ended with status {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB on Linux
    return time.perf_counter() - start, usage.ru_maxrss * unit / 2**30


def prepare(arguments: argparse.Namespace) -> None:
    """Print seconds and peak memory of preparing a generated corpus, of finding it again, and of training on it."""
    folder = Path(arguments.folder or tempfile.mkdtemp())
    corpus = folder / f"corpus-{arguments.pairs}"
    if not (corpus / "target.txt").exists():
        write_corpus(corpus, arguments.pairs)
    config = folder / "prepare.yaml"
    config.write_text(
        f"run_dir: {folder}/run-{arguments.pairs}\n"
        f"data: {{source_language: a, target_language: b, "
        f"train: [{{source: {corpus}/source.txt, target: {corpus}/target.txt}}]}}\n"
        "vocabulary: {size: 8000}\n"
        "model: {d_model: 128, feed_forward: 256, layers: 1, heads: 4}\n"
        "training: {batch_tokens: 4096, checkpoint_every: 1000000, validate_every: 1000000}\n",
        encoding="utf-8",
    )
    size = sum(file.stat().st_size for file in corpus.iterdir()) / 2**30
    print(f"{arguments.pairs:,} pairs, {size:.2f} GiB of text in {folder}")
    print("what                        seconds  peak GiB")
    for what, command in (
        ("prepare", ["prepare", str(config)]),
        ("prepare again (reused)", ["prepare", str(config)]),
        ("train 20 steps", ["train", str(config), "training.max_steps=20"]),
    ):
        seconds, memory = measured([*NMT, *command])
        print(f"{what:26s}  {seconds:7.1f}  {memory:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train", help="target tokens a second, beside another command")
    training.add_argument("config", type=Path)
    training.add_argument("overrides", nargs="*", metavar="section.key=value")
    training.add_argument("--against", metavar="COMMAND", help="run in turn; prints target_tokens_per_second=NUMBER")
    training.add_argument("--rounds", type=int, default=5)
    training.add_argument("--steps", type=int, default=60, help="steps that are timed")
    training.add_argument("--warmup", type=int, default=10, help="steps before them that are not")
    training.set_defaults(run=train)
    preparing = commands.add_parser("prepare", help="seconds and memory of preparing a large corpus")
    preparing.add_argument("--pairs", type=int, default=10_000_000)
    preparing.add_argument("--folder", help="keep corpus and run here; default: a new temporary folder")
    preparing.set_defaults(run=prepare)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
