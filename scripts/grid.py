"""Variations of one config, each trained as a run of its own and scored, the results in one JSON Lines file.

What scripts/reproduce_table3.py and scripts/ablations.py share. A folder OUTPUT holds

    OUTPUT/ROW-seedN/       the run of a row
    OUTPUT/results.jsonl    a line for each row and seed that is done

A row that is done is not done again, and one that was interrupted goes on, when the same command is given again.
"""

import functools
import json
import logging
import math
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import scoring
import typer

from nmt.config import reader, schema
from nmt.config.reader import required, setting
from nmt.config.schema import Config
from nmt.distributed.stopping import SIGNALS
from nmt.errors import NmtError
from nmt.files import atomic

log = logging.getLogger("nmt")

GRIDS = Path(__file__).parents[1] / "configs" / "grids"
RESULTS = "results.jsonl"
WIDTHS = ("d_model", "feed_forward", "key_size", "value_size")  # of `model`: what a scale divides
# What changes no figure of a run, and may differ between its sessions.
_FREE = ("run_dir", "data.store_dir", "data.workers", "data.prefetch", "training.max_seconds", "training.tensorboard")
Scores = dict[str, Any]

# Options of both scripts.
Seeds = Annotated[str | None, typer.Option(metavar="1,2,…", help="One run each; default: the config's.")]
Output = Annotated[Path, typer.Option(help="Folder of runs and of results.jsonl.")]
Average = Annotated[int, typer.Option(min=1, help="Score the mean of so many last checkpoints.")]
Test = Annotated[tuple[Path, Path] | None, typer.Option(metavar="SOURCE REFERENCE", help="Score this text too.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps, or auto: the best one here.")]
Ranks = Annotated[int | None, typer.Option(min=1, help="Train as so many ranks.")]


@dataclass(frozen=True)
class Paper:
    """What the paper's Table 3 says of a row."""

    perplexity: float = required("a subword, on newstest2013")
    bleu: float = required("on newstest2013")
    parameters: float | None = setting(None, "millions; null: the table leaves it out")


@dataclass(frozen=True)
class Row:
    """One variation."""

    row: str = required("its name, and the beginning of its run's folder")
    settings: tuple[str, ...] = setting((), "section.key=value, laid over the grid's base")
    steps: float = setting(1.0, "times the config's training.max_steps", above=0)
    paper: Paper | None = setting(None, "the paper's figures, where it has any")


@dataclass(frozen=True)
class Grid:
    """The rows of a table; the first is what the others are compared with."""

    rows: tuple[Row, ...] = required("the variations")
    base: tuple[str, ...] = setting((), "section.key=value, laid over the config, for all rows")

    def chosen(self, names: str | None) -> list[Row]:
        """The rows of these names, parted by commas, in the grid's order; all without. NmtError for others."""
        wanted = [row.row for row in self.rows] if names is None else [name.strip() for name in names.split(",")]
        known = {row.row for row in self.rows}
        if unknown := [name for name in wanted if name not in known]:
            raise NmtError(f"--rows: {unknown[0]}: no such row; there are {', '.join(row.row for row in self.rows)}")
        return [row for row in self.rows if row.row in wanted]


def load(path: Path) -> Grid:
    """The grid in a YAML file. Raises NmtError as settings.load does."""
    return reader.load(Grid, path)


@dataclass(frozen=True)
class Run:
    """A row with a seed, ready to train: `nmt train CONFIG OVERRIDES` is all it takes."""

    row: Row
    seed: int
    file: Path
    overrides: tuple[str, ...]

    @cached_property
    def config(self) -> Config:
        """The settings it has in the end."""
        return schema.load(self.file, self.overrides)

    @property
    def folder(self) -> Path:
        return Path(self.config.run_dir)

    @property
    def settings(self) -> dict[str, Any]:
        """What decides its figures, without what is at its default."""
        kept: dict[str, Any] = reader.to_dict(self.config, defaults=False)
        for path in _FREE:
            section, _, name = path.rpartition(".")
            (kept[section] if section else kept).pop(name, None)
        return kept


def runs(
    grid: Grid, rows: Sequence[Row], file: Path, overrides: Sequence[str], output: Path, seeds: str | None, scale: int
) -> list[Run]:
    """The runs that rows, seeds and overrides make; rows with the settings of one before are left out, aloud.

    Laid over the config one after the other: the grid's base, the row, the scale, which divides every width of the
    model by a whole number, the overrides, and the row's share of steps.
    Raises NmtError for settings that are wrong or cannot go together.
    """
    made: dict[str, Run] = {}
    last = {override.partition("=")[0]: override for override in overrides}
    for row in rows:
        for own in row.settings:
            if (stronger := last.get(own.partition("=")[0], own)) != own:
                log.warning("row %s: its %s gives way to %s: it is not what its name says", row.row, own, stronger)
        over = [*grid.base, *row.settings]
        over += [*_narrower(row, schema.load(file, over), scale), *overrides]
        try:
            plain = schema.load(file, over)
        except NmtError as error:
            raise NmtError(f"row {row.row}: {error}") from None
        if row.steps != 1:
            over.append(f"training.max_steps={round(row.steps * plain.training.max_steps)}")
        if plain.data.store_dir is None:  # rows of one vocabulary share what is prepared
            over.append(f"data.store_dir={output / 'data'}")
        for number, seed in enumerate(_seeds(seeds, plain.seed)):
            given = [*over, f"seed={seed}", f"run_dir={output / f'{row.row}-seed{seed}'}"]
            run = Run(row, seed, file, _last_of_each(given))
            twin = made.setdefault(json.dumps(run.settings), run)
            if twin is not run and not number:  # said once
                log.info("%s: the settings of %s: not trained again", row.row, twin.row.row)
    return list(made.values())


def _last_of_each(overrides: Sequence[str]) -> tuple[str, ...]:
    """Of several for one setting only the last, which counts."""
    kept: dict[str, str] = {}
    for override in overrides:
        key = override.partition("=")[0]
        kept.pop(key, None)  # so that it moves to the end
        kept[key] = override
    return tuple(kept.values())


def _narrower(row: Row, whole: Config, scale: int) -> Iterator[str]:
    """Overrides that divide the model's widths by `scale`."""
    for name in WIDTHS:
        width = getattr(whole.model, name)
        if width is None or scale == 1:
            continue
        if width % scale:
            raise NmtError(f"row {row.row}: model.{name}: {width} is not a multiple of --scale {scale}: choose another")
        yield f"model.{name}={width // scale}"


def _seeds(given: str | None, default: int) -> list[int]:
    try:
        return [int(part) for part in given.split(",")] if given else [default]
    except ValueError:
        raise NmtError(f"--seeds: {given}: give whole numbers parted by commas, such as 1,2,3") from None


# ------------------------------------------------------------------------ train


def train(run: Run, device: str, ranks: int | None) -> None:
    """Train a run to its end, or go on with it. Raises typer.Exit with the command's status where it does not end.

    In a process of its own, which any signal that would stop this one is passed on to: it saves, and says so.
    """
    _check_unchanged(run)
    arguments = ["train", str(run.file), *run.overrides, "--device", device]
    arguments += [] if ranks is None else ["--nproc-per-node", str(ranks)]
    log.info("nmt %s", shlex.join(arguments))
    # In a session of its own, so that Ctrl-C at a terminal comes once, by way of this process.
    command = [sys.executable, "-m", "nmt", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def pass_on(number: int, _: FrameType | None) -> None:
        process.send_signal(number)

    heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # else under nohup
    before = {number: signal.signal(number, pass_on) for number in heard}
    try:
        printed, _ = process.communicate()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if process.returncode or not printed.strip():  # a path is printed by what has come to its end
        log.info("%s seed %d: stopped; the same command goes on with it", run.row.row, run.seed)
        raise typer.Exit(process.returncode if process.returncode >= 0 else 128 - process.returncode)


def _check_unchanged(run: Run) -> None:
    """NmtError where the run's folder holds one with other settings, whose results would not be this row's."""
    path = run.folder / "config.yaml"
    if not path.exists():
        return
    changed = reader.differences(schema.load(path), run.config)
    if changed := [row for row in changed if row.partition(":")[0] not in _FREE]:
        raise NmtError(
            f"{run.folder} holds a run with other settings ({'; '.join(changed)}): choose another --output, or "
            "delete the folder"
        )


# ------------------------------------------------------------------------ score


def score(run: Run, average: int, device: str, test: scoring.Pairs | None) -> Scores:
    """A finished run's result: the mean of its last `average` checkpoints on the validation set, and on the test set.

    `curve` is what was validated on the way; all but the names are figures of the run.
    """
    from nmt.checkpoints import averaging, model_file

    model = run.folder / "averaged.safetensors"
    mean = averaging.average(averaging.of_run(run.folder, last=average, best=None))
    model_file.save(model, mean)
    lines = (run.folder / "metrics.jsonl").read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    trained = [row for row in rows if "learning_rate" in row]
    pairs = scoring.validation_pairs(run.config)
    return {
        "parameters": sum(weight.numel() for weight in mean.weights.values()),
        "step": mean.provenance["step"],
        **({key: trained[-1][key] for key in ("target_tokens", "seconds")} if trained else {}),
        "validation": {"perplexity": scoring.perplexity(model, pairs, device), **scoring.scores(model, pairs, device)},
        **({"test": scoring.scores(model, test, device)} if test else {}),
        "curve": [row for row in rows if "validation_loss" in row],
    }


# ------------------------------------------------------------------------ results


class Results:
    """OUTPUT/results.jsonl: a line for what is done, found again by what it is of. The last line of its kind counts."""

    def __init__(self, path: Path):
        """Raises NmtError where a line is not JSON."""
        self.path = path
        self.lines: list[dict[str, Any]] = []
        if not path.exists():
            return
        with self._alone():
            text = path.read_text(encoding="utf-8")
            whole, _, torn = text.rpartition("\n")
            if torn:  # it was being written when the power went
                atomic.write_text(path, whole + "\n" if whole else "")
        for number, line in enumerate(whole.split("\n") if whole else [], start=1):
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                raise NmtError(
                    f"{path}: line {number}: not JSON: delete the line, and its row is scored again"
                ) from None

    def find(self, key: dict[str, Any]) -> dict[str, Any] | None:
        """What is known of this."""
        return next((line for line in reversed(self.lines) if key.items() <= line.items()), None)

    def add(self, line: dict[str, Any]) -> None:
        """Write it down at once."""
        atomic.make_folder(self.path.parent)
        with self._alone(), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)

    def _alone(self) -> AbstractContextManager[None]:
        """Wait while another command, at work on other rows, writes."""
        return atomic.locked(self.path.parent, waiting=lambda: None)


def train_and_score(
    planned: Sequence[Run],
    output: Path,
    device: str,
    ranks: int | None,
    average: int,
    test_files: tuple[Path, Path] | None,
) -> dict[str, list[Scores]]:
    """Do what is not done; returns the results of each row, one a seed. Raises as `train` and the scores do.

    Results are found again by settings, and by what the texts that these name hold.
    """
    from nmt.data import corpus, store_folder

    for run in planned:  # before hours of work
        _check_average(run, average)
    results, test = Results(output / RESULTS), scoring.test_pairs(test_files)
    fingerprint = functools.cache(corpus.fingerprint)  # rows share corpora
    found: dict[str, list[Scores]] = {}
    for run in planned:
        named = {
            "row": run.row.row,
            "seed": run.seed,
            "average": average,
            "test_files": [str(path) for path in test_files or ()],
            "settings": run.settings,
        }
        texts = {
            "data.train": [fingerprint(one, "train") for one in run.config.data.train],
            "data.validation": store_folder.content_key(scoring.validation_pairs(run.config)),
            "--test": store_folder.content_key(test),
        }
        key = named | {"texts": texts}
        done = results.find(key)
        if done is None:
            if before := results.find(named):
                _say_changed(run, before.get("texts", {}), texts)
            train(run, device, ranks)
            done = key | score(run, average, device, test)
            results.add(done)
        found.setdefault(run.row.row, []).append(done)
    return found


def _say_changed(run: Run, before: dict[str, Any], texts: dict[str, Any]) -> None:
    """Say why a row that was done is done anew. NmtError where its run was trained on another text."""
    changed = [name for name in texts if name in before and texts[name] != before[name]]
    if "data.train" in changed and run.folder.exists():
        raise NmtError(
            f"{run.folder} holds a run on other training data (data.train: its text has changed): choose another "
            "--output, or delete the folder"
        )
    reason = f"another text behind {', '.join(changed)}" if changed else "not known by which texts it was"
    log.info("%s seed %d: %s: done anew", run.row.row, run.seed, reason)


def _check_average(run: Run, average: int) -> None:
    """NmtError where the run will not have so many last checkpoints."""
    training = run.config.training
    if average > training.keep_last:
        raise NmtError(
            f"--average {average}: of row {run.row.row} only the last {training.keep_last} are kept: training.keep_last"
        )
    intervals = training.checkpoint_every, training.validate_every  # and at the end one is written
    written = {training.max_steps}.union(*(range(every, training.max_steps, every) for every in intervals))
    if average > len(written):
        raise NmtError(
            f"--average {average}: row {run.row.row} writes only {len(written)} in training.max_steps: "
            f"{training.max_steps}: lower training.checkpoint_every: {training.checkpoint_every}, or --average"
        )


def mean_and_range(values: Sequence[float]) -> str:
    """`25.31`, or of several `25.31 (25.10-25.60)`."""
    mean = math.fsum(values) / len(values)
    return f"{mean:.2f}" + (f" ({min(values):.2f}-{max(values):.2f})" if len(values) > 1 else "")
