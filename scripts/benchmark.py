"""Measure the speed and memory of training, translation, and data preparation.

    python scripts/benchmark.py train CONFIG [section.key=value …] [--size base] [--against COMMAND | --beside SETTING]
    python scripts/benchmark.py translate MODEL INPUT [decoding.key=value …] [--beside MODEL …] [--nproc-per-node N]
    python scripts/benchmark.py process MODEL INPUT [decoding.key=value …] [--rounds 5]
    python scripts/benchmark.py prepare [section.key=value …] [--pairs 10000000]

`train` runs `nmt train` for some steps, on the CPU or a GPU, with one rank or several. With --against it alternates
with another command, which must print `target_tokens_per_second=NUMBER`; with --beside it alternates with nmt in
another setting (such as training.precision=float32). The two are compared in each round, so that changes in the
machine's speed do not matter. It reports speed and peak resident memory of both, and for nmt also padding, the time
spent waiting for data, and TFLOP/s as a share of those of a large matrix product.
`translate` measures target subwords per second of MODEL and, in alternation, of other models, such as its export for
CTranslate2, with one process or several that share the lines. Loading and a first batch are not counted.
`process` measures seconds of the complete command `nmt translate`, in alternation with a plain CTranslate2 script on
the export of the same model, with several batch sizes.
`prepare` generates a corpus, prepares it, and trains a few steps on it, each in a new process. It reports seconds and
peak resident memory.
"""

import argparse
import json
import os
import re
import resource
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt.config import schema
from nmt.errors import NmtError
from nmt.loading.opened_model import open_model
from nmt.machine import usable_cores

NMT = [sys.executable, "-m", "nmt"]
# Without this variable, Python keeps compiled modules; otherwise each start of nmt would compile them again.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
# d_model, feed-forward, layers, heads, dropout: the paper's base and big models, and one small enough for two cores.
SIZES = {
    "tiny": (128, 256, 4, 4, 0.3),
    "base": (512, 2048, 6, 8, 0.1),
    "big": (1024, 4096, 6, 16, 0.3),
}


def size_settings(size: str) -> list[str]:
    """The overrides for a model of this size in SIZES."""
    names = ("d_model", "feed_forward", "layers", "heads", "dropout")
    return [f"model.{name}={value}" for name, value in zip(names, SIZES[size], strict=True)]


class Launch(NamedTuple):
    """The device and the number of ranks of a run; None: one process."""

    device: str
    ranks: int | None = None


@dataclass(frozen=True)
class Measured:
    """The result of a run: target tokens per second, peak resident memory in GiB, and for nmt the rows of
    metrics.jsonl."""

    speed: float
    memory: float
    rows: list[dict[str, float]]


# Settings of all timed runs. The runs are short: they are not validated, and their learning rate is constant, because
# the config's schedule may need more steps. There are no data stages, because a validation can end a stage.
TIMED = (
    "training.schedule=constant", "training.learning_rate=0.0001", "training.final_learning_rate=0",
    "training.warmup_steps=0", "data.validation=null", "data.stages=[]", "training.best_set=null",
    "training.patience=null", "training.max_epochs=null", "training.max_seconds=null",
    "training.validate_every=1000000", "training.checkpoint_every=1000000",
)  # fmt: skip


def run_nmt(config: Path, overrides: Sequence[str], launch: Launch, steps: int, untimed: int) -> Measured:
    """Train a new run with the settings of `TIMED`, and measure the speed of `steps` steps after the first `untimed`
    steps. Raises NmtError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        ends = [f"run_dir={folder}/run", f"training.max_steps={untimed + steps}", f"training.log_every={untimed}"]
        settings = [*overrides, *TIMED, *ends]
        ranks = ["--nproc-per-node", str(launch.ranks)] if launch.ranks else []
        command = [*NMT, "train", str(config), *settings, "--device", launch.device, *ranks]
        _, memory, _ = measured(command)
        lines = Path(folder, "run", "metrics.jsonl").read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    first, last = rows[0], rows[-1]
    speed = (last["target_tokens"] - first["target_tokens"]) / (last["seconds"] - first["seconds"])
    return Measured(float(speed), memory, rows[1:])


def run_other(command: str) -> Measured:
    """Run another trainer, and read the speed that it prints. Raises SystemExit with its output if there is no
    speed."""
    _, memory, output = measured(shlex.split(command))
    match = re.search(r"target_tokens_per_second=([0-9]+\.?[0-9]*)", output)
    if match is None or not float(match[1]):
        sys.exit(f"benchmark: {command} printed no target_tokens_per_second=NUMBER above 0:\n{output}")
    return Measured(float(match[1]), memory, [])


def train(arguments: argparse.Namespace) -> None:
    """Print the speed and memory of each round, the median ratio, and how nmt spent its time."""
    with tempfile.TemporaryDirectory() as store:  # the data is prepared once for all rounds
        overrides = [f"data.store_dir={store}"]
        if arguments.size:
            overrides += size_settings(arguments.size)
        overrides += arguments.overrides
        compared = arguments.against or arguments.beside
        print("round  nmt tokens/s    GiB" + ("  other tokens/s    GiB  ratio" if compared else ""))
        launch = Launch(arguments.device, arguments.nproc_per_node)
        nmt_runs, other_runs = list[Measured](), list[Measured]()

        def run_settings(settings: Sequence[str]) -> Measured:
            return run_nmt(arguments.config, settings, launch, arguments.steps, arguments.warmup)

        for round_number in range(1, arguments.rounds + 1):
            nmt_runs.append(run_settings(overrides))
            line = f"{round_number:5d}  {nmt_runs[-1].speed:12,.0f}  {nmt_runs[-1].memory:5.2f}"
            if compared:
                beside = [*overrides, *(arguments.beside or [])]
                other_runs.append(run_other(arguments.against) if arguments.against else run_settings(beside))
                ratio = nmt_runs[-1].speed / other_runs[-1].speed
                line += f"  {other_runs[-1].speed:14,.0f}  {other_runs[-1].memory:5.2f}  {ratio:5.2f}"
            print(line, flush=True)
    if other_runs:
        for quantity in ("speed", "memory"):
            ratios = [getattr(a, quantity) / getattr(b, quantity) for a, b in zip(nmt_runs, other_runs, strict=True)]
            print(f"{quantity}: {statistics.median(ratios):.2f} × the other's ({min(ratios):.2f} to {max(ratios):.2f})")
    rows = list(chain.from_iterable(run.rows for run in nmt_runs))
    mean = {name: statistics.mean(row[name] for row in rows) for name in ("padding", "data_wait", "tflops")}
    print(f"nmt: {mean['padding']:.1%} padding, {mean['data_wait']:.1%} of the time spent waiting for data")
    gpus = (arguments.nproc_per_node or 1) if "peak_memory_gib" in rows[-1] else 1  # on the CPU, ranks share the device
    peak = device_peak(arguments, overrides) * gpus
    print(f"nmt: {mean['tflops']:.3f} TFLOP/s; large matrix products reach {peak:.3f}: {mean['tflops'] / peak:.0%}")
    if "peak_memory_gib" in rows[-1]:
        print(f"nmt: peak GPU memory {rows[-1]['peak_memory_gib']:.1f} GiB")


def device_peak(arguments: argparse.Namespace, overrides: Sequence[str]) -> float:
    """TFLOP/s of a large matrix product on the device, in the precision of the config, measured in a new process."""
    script = (
        "import sys, torch, nmt.device; from pathlib import Path; from nmt.config import schema;"
        "from nmt.training import precision, profiling;"
        "config = schema.load(Path(sys.argv[1]), sys.argv[3:]); kind = config.training.precision;"
        "kind = precision.fastest_precision(nmt.device.choose(sys.argv[2])) if kind == 'auto' else kind;"
        "torch.set_float32_matmul_precision('high' if kind == 'tf32' else 'highest');"
        "dtype = getattr(torch, kind.replace('tf32', 'float32'));"
        "print(profiling.measured_peak(nmt.device.choose(sys.argv[2]), dtype, seconds=2) / 1e12)"
    )
    command = [sys.executable, "-c", script, str(arguments.config), arguments.device, *overrides]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


TRANSLATE = """
import sys, nmt.machine
nmt.machine.prepare_memory()
model, path, device, process, processes, *overrides = sys.argv[1:]
translator = nmt.load(model, device, overrides=overrides)
with open(path, encoding="utf-8", newline="\\n") as file:
    lines = [line.rstrip("\\n") for line in file][int(process)::int(processes)]
translator.translate(lines[:64])
print("ready", flush=True)
sys.stdin.readline()
texts = translator.translate(lines)
print("done", flush=True)
print(sum(len(ids) + 1 for ids, line in zip(translator.vocabulary.target.encode(texts), lines) if line.strip()))
"""


def run_translator(model: str, arguments: argparse.Namespace) -> Measured:
    """Measure N processes that start together and translate every N-th line each. Raises SystemExit if one fails."""
    count = arguments.nproc_per_node
    environment = os.environ | {"OMP_NUM_THREADS": str(max(1, usable_cores() // count))}
    command = [sys.executable, "-c", TRANSLATE, model, str(arguments.input), arguments.device]
    processes = [
        subprocess.Popen(
            [*command, str(process), str(count), *arguments.overrides],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for process in range(count)
    ]

    def next_line(process: subprocess.Popen[str]) -> str:
        assert process.stdout
        return process.stdout.readline().strip() or sys.exit(f"benchmark: translating with {model} failed")

    for process in processes:
        next_line(process)
    start = time.perf_counter()
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        next_line(process)
    seconds = time.perf_counter() - start
    subwords = sum(int(next_line(process)) for process in processes)
    memory = sum(peak_gib(os.wait4(process.pid, 0)[2]) for process in processes)
    return Measured(subwords / seconds, memory, [])


def translate(arguments: argparse.Namespace) -> None:
    """Print target subwords per second and memory of each model and round, and the first model's ratio to others."""
    models = [arguments.model, *(arguments.beside or [])]
    print("round  " + "  ".join(f"{Path(model).name[-20:]:>20s}    GiB" for model in models))
    measured_rounds: list[list[Measured]] = [[] for _ in models]
    for round_number in range(1, arguments.rounds + 1):
        line = f"{round_number:5d}"
        for model, rounds in zip(models, measured_rounds, strict=True):
            rounds.append(run_translator(model, arguments))
            line += f"  {rounds[-1].speed:20,.0f}  {rounds[-1].memory:5.2f}"
        print(line, flush=True)
    for model, rounds in zip(models[1:], measured_rounds[1:], strict=True):
        ratios = [first.speed / other.speed for first, other in zip(measured_rounds[0], rounds, strict=True)]
        print(f"{statistics.median(ratios):.2f} × the speed of {model} ({min(ratios):.2f} to {max(ratios):.2f})")


PLAIN = """
import sys, ctranslate2, sentencepiece
folder, path, beam, tokens, threads = *sys.argv[1:3], *map(int, sys.argv[3:])
source = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/source.spm")
target = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/target.spm")
translator = ctranslate2.Translator(folder, inter_threads=threads, intra_threads=1)
with open(path, encoding="utf-8", newline="\\n") as file:
    lines = [line.rstrip("\\n") for line in file]
pieces = source.encode(lines, out_type=str)
results = translator.translate_batch(pieces, beam_size=beam, max_batch_size=tokens, batch_type="tokens")
sys.stdout.write("".join(target.decode(result.hypotheses[0]) + "\\n" for result in results))
"""


def process(arguments: argparse.Namespace) -> None:
    """Print the seconds of each round, and the speed of nmt relative to the script with its best setting: by wall-clock
    time, and by processor time, which depends less on other programs on the machine."""
    with tempfile.TemporaryDirectory() as folder:
        measured([*NMT, "export", arguments.model, "--format", "ctranslate2", "--output", f"{folder}/plain"])
        beam = str(schema.override(open_model(Path(arguments.model)).settings, arguments.overrides).decoding.beam_size)
        commands = {"nmt": [*NMT, "translate", arguments.model, str(arguments.input), *arguments.overrides]}
        for tokens in ("1024", "2048", "4096"):
            script = [sys.executable, "-c", PLAIN, f"{folder}/plain", str(arguments.input), beam, tokens]
            commands[f"plain, {tokens}"] = [*script, str(usable_cores())]
        print("seconds by the clock, and of the processors")
        print("round  " + "  ".join(f"{name:>13s}" for name in commands))
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for round_number in range(1, arguments.rounds + 1):
            for name in list(commands)[:: 1 if round_number % 2 else -1]:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                wall = measured(commands[name])[0]
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                seconds[name].append((wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
            rows = (f"{times[-1][0]:6.2f} {times[-1][1]:6.2f}" for times in seconds.values())
            print(f"{round_number:5d}  " + "  ".join(rows), flush=True)
    nmt_times, *script_times = seconds.values()
    for kind, clock in enumerate(("by the clock", "by processor time")):
        best = min(script_times, key=lambda rounds: statistics.median(timing[kind] for timing in rounds))
        ratios = [script_time[kind] / nmt_time[kind] for nmt_time, script_time in zip(nmt_times, best, strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{statistics.median(ratios):.2f} × the speed of the script {clock} ({spread})")


def write_corpus(folder: Path, pairs: int) -> None:
    """Write a corpus of artificial words with Zipf's distribution: `pairs` lines of 5 to 35 words in source.txt and
    target.txt."""
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


def measured(command: Sequence[str]) -> tuple[float, float, str]:
    """Run a command. Returns its seconds, peak resident memory in GiB (of the largest process, if it starts others),
    and its output.

    Raises NmtError with its last line if it cannot be started or fails. It is ended if this process gets SIGTERM.
    """
    start = time.perf_counter()
    shown = textwrap.shorten(shlex.join(command), 120)
    with tempfile.TemporaryFile("w+") as errors:
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=_ENVIRONMENT)
        except OSError as error:
            raise NmtError(f"{shown}: {error.strerror}") from None
        assert process.stdout
        try:
            output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if process.returncode is None:  # after an exception
                process.terminate()
                process.wait()
        if process.returncode:
            errors.seek(0)
            last = [line for line in (output + errors.read()).split("\n") if line][-1:]
            raise NmtError(": ".join([f"{shown} ended with status {process.returncode}", *last]))
    return time.perf_counter() - start, peak_gib(usage), output


def peak_gib(usage: resource.struct_rusage) -> float:
    """Peak resident memory in GiB."""
    unit = 1 if sys.platform == "darwin" else 1024  # bytes on macOS, KiB on Linux
    return usage.ru_maxrss * unit / 2**30


def prepare(arguments: argparse.Namespace) -> None:
    """Print the seconds and the peak memory for preparing a generated corpus, for reusing it, and for training on
    it."""
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
    for name, command in (
        ("prepare", ["prepare", str(config), *arguments.overrides]),
        ("prepare again (reused)", ["prepare", str(config), *arguments.overrides]),
        ("train 20 steps", ["train", str(config), *arguments.overrides, "training.max_steps=20"]),
    ):
        seconds, memory, _ = measured([*NMT, *command])
        print(f"{name:26s}  {seconds:7.1f}  {memory:8.2f}", flush=True)


def at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is below 1")
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train", help="target tokens per second, compared with another command")
    training.add_argument("config", type=Path)
    training.add_argument("overrides", nargs="*", metavar="section.key=value")
    training.add_argument("--size", choices=SIZES, help="change the size of the config's model")
    training.add_argument("--device", default="auto", help="cpu, cuda, cuda:N, mps or auto")
    training.add_argument("--nproc-per-node", type=at_least_one, metavar="N", help="train as N ranks")
    other = training.add_mutually_exclusive_group()
    other.add_argument(
        "--against", metavar="COMMAND", help="command to compare with; it must print target_tokens_per_second=NUMBER"
    )
    other.add_argument(
        "--beside",
        action="append",
        metavar="section.key=value",
        help="compare with nmt in another setting; not in the schedule, which is constant in all runs",
    )
    training.add_argument("--rounds", type=at_least_one, default=5)
    training.add_argument("--steps", type=at_least_one, default=60, help="steps that are timed; a multiple of --warmup")
    training.add_argument("--warmup", type=at_least_one, default=10, help="steps before them that are not timed")
    training.set_defaults(run=train)
    translating = commands.add_parser("translate", help="target subwords per second, compared with other models")
    translating.add_argument("model", help="a model file, a run's folder, or an exported folder")
    translating.add_argument("input", type=Path, help="the text to translate")
    translating.add_argument(
        "overrides", nargs="*", metavar="decoding.key=value", help="decoding settings for all models"
    )
    translating.add_argument(
        "--beside", action="append", metavar="MODEL", help="another model to compare with; can be repeated"
    )
    translating.add_argument("--device", default="auto", help="cpu, cuda, cuda:N, mps or auto")
    translating.add_argument(
        "--nproc-per-node", type=at_least_one, default=1, metavar="N", help="share the lines among N processes"
    )
    translating.add_argument("--rounds", type=at_least_one, default=5)
    translating.set_defaults(run=translate)
    whole = commands.add_parser("process", help="seconds of nmt translate, compared with a plain CTranslate2 script")
    whole.add_argument("model", help="a model file, or a run's folder")
    whole.add_argument("input", type=Path, help="the text to translate")
    whole.add_argument("overrides", nargs="*", metavar="decoding.key=value")
    whole.add_argument("--rounds", type=at_least_one, default=5)
    whole.set_defaults(run=process)
    preparing = commands.add_parser("prepare", help="seconds and memory of preparing a large corpus")
    preparing.add_argument("overrides", nargs="*", metavar="section.key=value")
    preparing.add_argument("--pairs", type=int, default=10_000_000)
    preparing.add_argument("--folder", help="where to keep the corpus and the run; default: a new temporary folder")
    preparing.set_defaults(run=prepare)
    arguments = parser.parse_args()
    if arguments.run is train and arguments.steps % arguments.warmup:
        parser.error(f"--steps {arguments.steps} must be a multiple of --warmup {arguments.warmup}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that started processes are ended too
    try:
        arguments.run(arguments)
    except NmtError as error:
        sys.exit(f"benchmark: {error}")


if __name__ == "__main__":
    main()
