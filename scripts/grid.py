#!/usr/bin/env python3
"""Trains, scores and compares variations of a config with `nmt train`, `nmt average-checkpoints` and `nmt evaluate`.

    scripts/grid.py configs/grids/ablations.yaml configs/multi30k.yaml --average 3 --seeds 1,2,3

A grid is a YAML file with `rows`, and `base` settings for all rows (section.key=value). A row has a name (`row`) and,
optionally, `settings`, `steps` (a factor for training.max_steps) and `paper` (published results for comparison).

    OUTPUT/ROW-seedN/       the run of a row, with its averaged model and its scores
    OUTPUT/results.jsonl    a line for each finished row and seed
    OUTPUT/report.html      the curves of all runs

Run the same command again to continue after an interruption. Scores that are newer than their model and texts are kept.
"""

import json
import logging
import math
import os
import shlex
import signal
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
import yaml

from nmt.cli import options, terminal
from nmt.config import schema, writer
from nmt.config.schema import Config
from nmt.distributed.environment import LAUNCHER
from nmt.distributed.stopping import SIGNALS
from nmt.errors import NmtError
from nmt.files import atomic, json_lines, text
from nmt.files.outputs import check_new_folder
from nmt.files.table import table
from nmt.files.text import to_path

log = logging.getLogger("nmt")

Result = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A variation of the config."""

    row: str
    settings: Sequence[str] = ()
    steps: float = 1
    paper: dict[str, float] = field(default_factory=dict)  # perplexity, bleu, parameters in millions


@dataclass(frozen=True)
class Run:
    """A row with a seed."""

    row: Row
    folder: Path
    overrides: tuple[str, ...]
    config: Config


def read_grid(path: Path) -> tuple[list[str], list[Row]]:
    """The base settings and the rows. Raises NmtError for a file that is not a grid."""
    try:
        grid = yaml.safe_load(path.read_text(encoding="utf-8"))
        base, rows = grid.get("base", []), [Row(**row) for row in grid["rows"]]
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise NmtError(f"{path}: not a grid: it needs rows: [{{row: NAME, settings: [KEY=VALUE]}}] ({error})") from None
    names = [row.row for row in rows]
    if not names:
        raise NmtError(f"{path}: there are no rows: give at least one, such as rows: [{{row: recipe}}]")
    if twice := [name for name in names if names.count(name) > 1]:
        raise NmtError(f"{path}: several rows have the name {twice[0]}: give each row its own")
    return base, rows


def plan(
    grid: Path, file: Path, overrides: Sequence[str], output: Path, names: str | None, seeds: str | None
) -> list[Run]:
    """The runs of the selected rows. The base settings override the config, then come the row's settings, then
    `overrides`. A row with the same settings as an earlier one is left out with a message. Raises NmtError for wrong
    settings, rows and seeds."""
    base, rows = read_grid(grid)
    selected = [row.row for row in rows] if names is None else names.split(",")
    if unknown := set(selected) - {row.row for row in rows}:
        raise NmtError(f"--rows: no row {min(unknown)!r}: there are {', '.join(row.row for row in rows)}")
    planned: dict[str, Run] = {}
    for row in (row for row in rows if row.row in selected):
        try:
            settings_by_key = {setting.partition("=")[0]: setting for setting in (*base, *row.settings, *overrides)}
            config = schema.load(file, list(settings_by_key.values()))
            all_seeds = [config.seed] if seeds is None else [int(seed) for seed in seeds.split(",")]
        except NmtError as error:
            raise NmtError(f"row {row.row}: {error}") from None
        except ValueError:
            raise NmtError(f"--seeds {seeds}: give whole numbers separated by commas, such as 1,2,3") from None
        steps, store = round(row.steps * config.training.max_steps), config.data.store_dir or output / "data"
        settings_by_key["training.max_steps"] = f"training.max_steps={steps}"
        settings_by_key["data.store_dir"] = f"data.store_dir={store}"
        for seed in all_seeds:
            settings = tuple({**settings_by_key, "seed": f"seed={seed}"}.values())
            key = json.dumps(writer.to_dict(schema.load(file, settings)))
            if key in planned:
                log.info("%s: same settings as %s: not trained again", row.row, planned[key].row.row)
                continue
            folder = output / f"{row.row}-seed{seed}"
            settings += (f"run_dir={folder}",)
            planned[key] = Run(row, folder, settings, schema.load(file, settings))
    return list(planned.values())


def nmt(*arguments: str | Path) -> str:
    """Run a command of nmt, and return its output. Raises NmtError if it fails.

    Signals are passed on, except Ctrl-C, which the terminal sends to the command too; this program waits until the
    command has ended. If this program is killed, a training saves its state and ends, so that it can be continued.
    """
    words = [sys.executable, "-m", "nmt", *map(str, arguments)]
    received, running = list[int](), list[subprocess.Popen[str]]()
    log.info("%s", shlex.join(words[2:]))

    def receive(signal_number: int, _: FrameType | None) -> None:
        received.append(signal_number)
        for process in running if signal_number != signal.SIGINT else ():
            process.send_signal(signal_number)

    # Ignored signals stay ignored, as with nohup.
    caught = [signal_number for signal_number in SIGNALS if signal.getsignal(signal_number) != signal.SIG_IGN]
    handlers = {signal_number: signal.signal(signal_number, receive) for signal_number in caught}
    environment = os.environ | {LAUNCHER: str(os.getpid())}
    running.append(process := subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment))
    if received:  # while the command was started
        process.send_signal(received[0])
    printed, _ = process.communicate()
    for signal_number, handler in handlers.items():
        signal.signal(signal_number, handler)
    if received or process.returncode == 130:
        raise typer.Exit(128 + received[0] if received else 130)
    if process.returncode:
        raise NmtError(f"nmt {arguments[0]} failed with status {process.returncode}, see above")
    return printed


def is_outdated(path: Path, *sources: Path) -> bool:
    """Whether a file is missing, or older than one of the files that it was made from."""
    return not path.exists() or path.stat().st_mtime < max(source.stat().st_mtime for source in sources)


def score(run: Run, average: int, device: str, texts: dict[str, tuple[Path, Path]]) -> Result:
    """The result of a trained run: its validations, and the scores of the mean of its last checkpoints on each text."""
    from nmt.checkpoints import model_file

    rows, _ = json_lines.read(run.folder / "metrics.jsonl")
    validated = [row for row in rows if "validation_loss" in row and row["step"] > 0]
    trained = [row for row in rows if "learning_rate" in row]
    if not (trained and validated):
        raise NmtError(
            "no step was logged, or no validation was done: lower training.log_every and training.validate_every"
        )
    newest = max((run.folder / "checkpoints").glob("step-*.safetensors"))
    model = run.folder / f"averaged-{average}.safetensors"
    if is_outdated(model, newest):
        nmt("average-checkpoints", run.folder, "--last", str(average), "--output", model)
    averaged = model_file.load(model)
    if averaged.config.decoding != run.config.decoding:
        raise NmtError(f"{run.folder} was trained with other decoding settings: choose another --output, or delete it")
    result: Result = {
        "row": run.row.row,
        "seed": run.config.seed,
        "average": average,
        "settings": writer.to_dict(run.config, defaults=False),
        "parameters": sum(weight.numel() for weight in averaged.weights.values()),
        "step": max(row["step"] for row in rows),
        **{key: trained[-1][key] for key in ("target_tokens", "seconds")},
        "curve": validated,
    }
    for name, pair in texts.items():
        path, paths = run.folder / f"averaged-{average}-{name}.json", list(map(str, pair))
        evaluation = {} if is_outdated(path, model, *pair) else json.loads(path.read_text(encoding="utf-8"))
        if evaluation.get("texts") != paths:
            files = ("--source", paths[0], "--reference", paths[1], "--device", device)
            evaluation = {"texts": paths, "scores": json.loads(nmt("evaluate", model, *files, "--format", "json"))}
            atomic.write_text(path, json.dumps(evaluation))
        keys = ("value", "signature", "compared")
        result[name] = {score["name"]: {key: score[key] for key in keys} for score in evaluation["scores"]}
    return result


def write_validation(run: Run, output: Path) -> tuple[Path, Path]:
    """Write the run's validation set to two files, without pairs that have an empty side. Raises NmtError unless there
    is exactly one set."""
    from nmt.data.cleaning.cleaner import without_empty
    from nmt.data.sources import corpus

    data = run.config.data
    if len(data.held_out) != 1 or data.language_pairs.several:
        raise NmtError(
            "data.validation: rows are compared on one validation set of one language pair: give exactly one"
        )
    pairs = without_empty(list(corpus.read_pairs(data.held_out[0], data, "validation")))
    files = output / "validation.source", output / "validation.reference"
    for path, side in zip(files, zip(*pairs, strict=True), strict=True):
        content = "".join(f"{line}\n" for line in side)
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            atomic.write_text(path, content)
    return files


def compare(runs: Sequence[Run], results: Sequence[Result]) -> str:
    """A table of the finished rows: means over their seeds, ranges, and differences to the first row."""
    tests = [name for name in ("validation", "test") if name in results[0]]
    papers = {run.row.row: run.row.paper for run in runs if run.row.paper}
    heads = ["row", "millions", "tokens/s", "PPL"]
    for name in tests:
        heads += [f"{name} BLEU", "", "chrF"]
    if papers:
        heads += ["paper: PPL", "BLEU"]
    lines, first = [heads], results[0]["row"]

    def values(row: str, name: str, metric: str) -> list[float]:
        return [result[name][metric]["value"] for result in results if result["row"] == row]

    for row in dict.fromkeys(result["row"] for result in results):
        row_results = [result for result in results if result["row"] == row]
        speed = statistics.mean(result["target_tokens"] / result["seconds"] for result in row_results)
        perplexities = [math.exp(result["curve"][-1]["validation_loss"]) for result in row_results]
        cells = [row, f"{row_results[0]['parameters'] / 1e6:.2f}", f"{speed:,.0f}", mean_and_range(perplexities)]
        for name in tests:
            bleu = values(row, name, "BLEU")
            difference = statistics.mean(bleu) - statistics.mean(values(first, name, "BLEU"))
            cells += [mean_and_range(bleu), "" if row == first else f"{difference:+.2f}"]
            cells.append(mean_and_range(values(row, name, "chrF2")))
        if papers:
            cells += [str(papers.get(row, {}).get(key, "")) for key in ("perplexity", "bleu")]
        lines.append(cells)
    notes = [
        "tokens/s: target tokens per second of training. PPL: per subword, in the last validation; not comparable",
        "between rows with different vocabularies. Differences are to the first row.",
        "BLEU: {signature}; texts compared {compared}".format_map(results[0][tests[0]]["BLEU"]),
    ]
    return "\n".join([table(lines, rule=True), "", *notes])


def mean_and_range(values: Sequence[float]) -> str:
    """`25.31`, or for several values `25.31 (25.10-25.60)`."""
    mean = f"{statistics.mean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f}-{max(values):.2f})"


def count(runs: Sequence[Run]) -> str:
    """A table of the number of parameters of each row: exact, or in millions beside the numbers in the paper. The
    parameters need no memory."""
    from nmt.models.build import build_on_meta

    papers = any("parameters" in run.row.paper for run in runs)
    lines = [["row", "settings", *(["millions", "paper", "differ"] if papers else ["parameters"])]]
    for run in runs:
        size, paper = run.config.vocabulary.size, run.row.paper.get("parameters")
        parameters = build_on_meta(run.config.model, size, size, padding=0).parameter_counts()["total"]
        cells = [f"{parameters:,}"]
        if papers:
            millions = parameters / 1e6
            cells = [f"{millions:.2f}", *([f"{paper:g}", f"{millions / paper - 1:+.1%}"] if paper else ["", ""])]
        lines.append([run.row.row, " ".join(run.row.settings), *cells])
    return f"{table(lines, (0, 1), rule=True)}\n\nCounted with {runs[0].config.vocabulary.size:,} shared subwords."


@terminal.reporting()
def main(
    grid: Annotated[Path, typer.Argument(parser=to_path, metavar="GRID", help="YAML file with the rows.")],
    config: options.ConfigFile,
    overrides: options.Overrides = None,
    count_only: Annotated[bool, typer.Option("--count", help="Only count parameters, which takes seconds.")] = False,
    rows: Annotated[str | None, typer.Option(metavar="NAME,…", help="Only these rows.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="1,2,…", help="Train each row with each seed.")] = None,
    output: Annotated[Path | None, options.file("Folder of the runs; default: runs/GRID.", metavar="DIR")] = None,
    average: Annotated[int, typer.Option(min=1, help="Score the average of the last N checkpoints.")] = 1,
    test: Annotated[tuple[Path, Path] | None, options.file("Also score this text.", metavar="SOURCE REFERENCE")] = None,
    device: options.Device = "auto",
    nproc_per_node: Annotated[int | None, typer.Option(min=1, help="Processes of a training, a device each.")] = None,
) -> None:
    """Train the rows of a grid, score them and compare them with the first. Run it again to resume."""
    output = output or Path("runs") / grid.stem
    runs = plan(grid, config, overrides or (), output, rows, seeds)
    if count_only:
        text.result(count(runs))
        return
    check_new_folder(output)
    if few := [run.row.row for run in runs if average > run.config.training.keep_last]:
        raise NmtError(f"--average {average}: row {few[0]} keeps fewer checkpoints: raise training.keep_last")
    for path in test or ():
        next(text.read_lines(path), None)  # raises NmtError for a file that cannot be read
    atomic.make_folder(output)
    texts = {"validation": write_validation(runs[0], output), **({"test": test} if test else {})}
    results, failed, ranks = list[Result](), list[str](), list[str]()
    if nproc_per_node:
        ranks = ["--nproc-per-node", str(nproc_per_node)]
    for run in runs:
        try:
            if not nmt("train", config, *run.overrides, "--device", device, *ranks).strip():
                raise NmtError("stopped before its end: run the same command to continue")
            results.append(score(run, average, device, texts))
        except NmtError as error:
            log.warning("%s seed %d: %s", run.row.row, run.config.seed, error)
            failed.append(run.folder.name)
            continue
        atomic.write_text(output / "results.jsonl", "".join(json.dumps(result) + "\n" for result in results))
    if results:
        scored = [run.folder for run in runs if run.folder.name not in failed]
        nmt("report", *scored, "--output", output / "report.html")
        text.result(compare(runs, results))
    if failed:
        raise NmtError(f"no result of {', '.join(failed)} (see above): run the same command to try again")


if __name__ == "__main__":
    app = terminal.application()
    app.command()(main)
    sys.exit(app())
