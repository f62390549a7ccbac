"""Train and score variations of one config: the part shared by scripts/reproduce_table3.py and scripts/ablations.py.

    OUTPUT/ROW-seedN/       the run of a row
    OUTPUT/results.jsonl    one line for each row and seed that is finished

The same command again skips rows that are finished and continues one that was interrupted.
"""

import functools
import json
import logging
import math
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import scoring
import training_runs
import typer
from training_runs import Launch

from nmt.config import reader, schema, writer
from nmt.config.declaration import required, setting
from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.text import to_path

log = logging.getLogger("nmt")

GRIDS = Path(__file__).parents[1] / "configs" / "grids"
RESULTS = "results.jsonl"
# Settings of `model` that a scale divides.
WIDTHS = ("d_model", "feed_forward", "key_size", "value_size", "embedding_size", "hidden_size", "encoder_size")
# Settings that do not change the results of a run, and may differ when it is resumed.
_FREE = ("run_dir", "data.store_dir", "data.workers", "data.prefetch", "training.max_seconds", "training.tensorboard")
Scores = dict[str, Any]

# Options of both scripts.
Seeds = Annotated[
    str | None, typer.Option(metavar="1,2,…", help="Train each row with each seed; default: the seed of the config.")
]
Output = Annotated[Path, typer.Option(parser=to_path, help="Folder for the runs and results.jsonl.")]
Average = Annotated[int, typer.Option(min=1, help="Score the average of the last N checkpoints.")]
Test = Annotated[
    tuple[Path, Path] | None, typer.Option(parser=to_path, metavar="SOURCE REFERENCE", help="Score on this text too.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps, or auto: the best device of this machine.")]
Ranks = Annotated[int | None, typer.Option(min=1, help="Train with this number of ranks.")]
Jobs = Annotated[
    int, typer.Option(min=1, help="Rows that are trained at the same time, each with its share of the cores.")
]


@dataclass(frozen=True)
class Paper:
    """The results of a row in Table 3 of the paper."""

    perplexity: float = required("per subword, on newstest2013")
    bleu: float = required("on newstest2013")
    parameters: float | None = setting(None, "in millions; null: the table does not give it")


@dataclass(frozen=True)
class Row:
    """One variation."""

    row: str = required("its name, with which the name of its run folder begins")
    settings: tuple[str, ...] = setting((), "section.key=value; they override the grid's base")
    steps: float = setting(1.0, "factor for the config's training.max_steps", above=0)
    paper: Paper | None = setting(None, "the paper's results, if it has any")


@dataclass(frozen=True)
class Grid:
    """The rows of a table. The others are compared with the first."""

    rows: tuple[Row, ...] = required("the variations")
    base: tuple[str, ...] = setting((), "section.key=value; for all rows, they override the config")

    def chosen(self, names: str | None) -> list[Row]:
        """The rows with these names, separated by commas, in the grid's order; None: all. NmtError for others."""
        wanted = [row.row for row in self.rows] if names is None else [name.strip() for name in names.split(",")]
        known = {row.row for row in self.rows}
        if unknown := [name for name in wanted if name not in known]:
            shown, rows = unknown[0] or "''", ", ".join(row.row for row in self.rows)
            raise NmtError(f"--rows: {shown}: no such row; there are {rows}")
        return [row for row in self.rows if row.row in wanted]


def load(path: Path) -> Grid:
    """The grid in a YAML file. Raises NmtError as reader.load does, for a grid without rows, and for rows of one name:
    they would share a run folder."""
    grid = reader.load(Grid, path)
    if not grid.rows:
        raise NmtError(f"{path}: rows: there are none: give at least one, such as rows: [{{row: recipe}}]")
    for name, count in Counter(row.row for row in grid.rows).items():
        if count > 1:
            raise NmtError(f"{path}: {count} rows have the name {name}: give each row its own")
    return grid


@dataclass(frozen=True, eq=False)
class Run:
    """A row with a seed, trained with `nmt train CONFIG OVERRIDES`."""

    row: Row
    seed: int
    file: Path
    overrides: tuple[str, ...]

    @cached_property
    def config(self) -> Config:
        """All settings of the run."""
        return schema.load(self.file, self.overrides)

    @property
    def folder(self) -> Path:
        return Path(self.config.run_dir)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that change its results, without those that have their default."""
        kept: dict[str, Any] = writer.to_dict(self.config, defaults=False)
        for path in _FREE:
            section, _, name = path.rpartition(".")
            (kept.get(section, {}) if section else kept).pop(name, None)
        return kept


def runs(
    grid: Grid, rows: Sequence[Row], file: Path, overrides: Sequence[str], output: Path, seeds: str | None, scale: int
) -> list[Run]:
    """The runs for these rows and seeds. A row with the same settings as an earlier row is left out with a message.

    The config is overridden by the grid's base, then the row, then the scale, which divides all widths of the model,
    then the overrides, then the row's factor for the steps. Raises NmtError for wrong settings.
    """
    made: dict[str, Run] = {}
    last = {override.partition("=")[0]: override for override in overrides}
    for row in rows:
        for own in row.settings:
            if (stronger := last.get(own.partition("=")[0], own)) != own:
                log.warning(
                    "row %s: its %s is overridden by %s, so its name does not describe it", row.row, own, stronger
                )
        over = [*grid.base, *row.settings]
        try:
            # A row need not be complete without the command line, such as one that needs a model to start from.
            over += [*_narrower(schema.load(file, [*over, *overrides]), scale), *overrides]
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
            if twin is not run and not number:  # log it once
                log.info("%s: same settings as %s: not trained again", row.row, twin.row.row)
    return list(made.values())


def _last_of_each(overrides: Sequence[str]) -> tuple[str, ...]:
    """Keep only the last override of each setting."""
    kept: dict[str, str] = {}
    for override in overrides:
        key = override.partition("=")[0]
        kept.pop(key, None)  # so that it moves to the end
        kept[key] = override
    return tuple(kept.values())


def _narrower(whole: Config, scale: int) -> Iterator[str]:
    """Overrides that divide the model's widths by `scale`. Raises NmtError where one cannot be divided."""
    for name in WIDTHS:
        width = getattr(whole.model, name, None)  # of another architecture
        if width is None or scale == 1:
            continue
        if width % scale:
            raise NmtError(f"model.{name}: {width} is not a multiple of --scale {scale}: choose another")
        yield f"model.{name}={width // scale}"


def _seeds(given: str | None, default: int) -> list[int]:
    try:
        return [default] if given is None else [int(part) for part in given.split(",")]
    except ValueError:
        shown = given or "''"
        raise NmtError(f"--seeds: {shown}: give whole numbers separated by commas, such as 1,2,3") from None


def check_unchanged(run: Run) -> None:
    """Raises NmtError if the run folder has a run with other settings, or one that started from another model: its
    results would be wrong for this row. Also if the model that the row starts from is missing."""
    start_digest(run)
    path = run.folder / "config.yaml"
    if not path.exists():
        return
    changed = writer.differences(schema.load(path), run.config)
    rows = [f"{path}: {before} there, {now} here" for path, (before, now) in changed.items() if path not in _FREE]
    if rows:
        raise NmtError(
            f"{run.folder} has a run with other settings ({'; '.join(rows)}): choose another --output, or "
            "delete the folder"
        )


def start_digest(run: Run) -> str | None:
    """The SHA-256 of the model that a run starts from; of one that has begun, that it started from: the file is needed
    no more. None without training.start_from. Raises NmtError if the file is missing, or has changed since."""
    from nmt.checkpoints import model_file
    from nmt.files import json_lines
    from nmt.files.text import file_digest

    start, sessions = run.config.training.start_from, run.folder / "sessions.jsonl"
    if start is None:
        return None
    rows, _ = json_lines.read(sessions)
    before: str | None = next((row["start_from"]["sha256"] for row in rows if "start_from" in row), None)
    try:
        now = file_digest(model_file.locate(Path(start)))
    except NmtError as error:
        if before is None:
            raise NmtError(f"row {run.row.row}: training.start_from: {error}") from None
        return before
    if before not in (None, now):
        raise NmtError(
            f"{run.folder} has a run that started from another model (training.start_from: {start}: its content has "
            "changed): choose another --output, or delete the folder"
        )
    return now


# ------------------------------------------------------------------------ score


def score(run: Run, average: int, device: str, test: scoring.Pairs | None) -> Scores:
    """The scores of a finished run: of the average of its last checkpoints on the validation set and the test set, and
    `curve`, the validations during training."""
    from nmt.checkpoints import averaging, model_file

    model = run.folder / "averaged.safetensors"
    mean = averaging.average(averaging.of_run(run.folder, last=average, best=None))
    model_file.save(model, mean)
    trained = [row for row in training_runs.metrics(run) if "learning_rate" in row]
    pairs = scoring.validation_pairs(run.config)
    return {
        "parameters": sum(weight.numel() for weight in mean.weights.values()),
        "step": mean.provenance["step"],
        **({key: trained[-1][key] for key in ("target_tokens", "seconds")} if trained else {}),
        "validation": {"perplexity": scoring.perplexity(model, pairs, device), **scoring.scores(model, pairs, device)},
        **({"test": scoring.scores(model, test, device)} if test else {}),
        "curve": training_runs.validations(run),
    }


# ------------------------------------------------------------------------ results


class Results:
    """OUTPUT/results.jsonl: one line for each result, found by its key. With equal keys the last line counts."""

    def __init__(self, path: Path):
        """Raises NmtError if a line is not JSON."""
        self.path = path
        self.lines: list[dict[str, Any]] = []
        if not path.exists():
            return
        with self._lock():
            text = path.read_text(encoding="utf-8")
            whole, _, torn = text.rpartition("\n")
            if torn:  # an incomplete last line, written when the machine stopped
                atomic.write_text(path, whole + "\n" if whole else "")
        for number, line in enumerate(whole.split("\n") if whole else [], start=1):
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                raise NmtError(
                    f"{path}: line {number}: not JSON: delete the line, and its row is measured again"
                ) from None

    def find(self, key: dict[str, Any]) -> dict[str, Any] | None:
        """The result with this key, or None."""
        return next((line for line in reversed(self.lines) if key.items() <= line.items()), None)

    def add(self, line: dict[str, Any]) -> None:
        """Append a result and sync it to the disk."""
        atomic.make_folder(self.path.parent)
        with self._lock(), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)

    def _lock(self) -> AbstractContextManager[None]:
        """Wait while another command writes results of other rows."""
        return atomic.locked(self.path.parent, waiting=lambda: None)


def check(planned: Sequence[Run], average: int, test_files: tuple[Path, Path] | None) -> None:
    """Raises NmtError where training would be in vain: it would end in an error of `train_and_score`."""
    for run in planned:
        _check_average(run, average)
        check_unchanged(run)
        scoring.validation_pairs(run.config)
    scoring.test_pairs(test_files)


def train_and_score(
    planned: Sequence[Run], output: Path, launch: Launch, average: int, test_files: tuple[Path, Path] | None
) -> dict[str, list[Scores]]:
    """Train and score what is not finished; returns the results of each row, one for each seed. A row of which a run
    fails is left out.

    Finished results are found by their settings and by the content of their texts and of the model that they start
    from. Raises as `training_runs.train` does, and NmtError as `check_unchanged`.
    """
    from nmt.data import corpus
    from nmt.files.text import content_key

    for run in planned:  # before hours of work
        _check_average(run, average)
    results, test = Results(output / RESULTS), scoring.test_pairs(test_files)
    fingerprint = functools.cache(corpus.fingerprint)  # rows share their data
    keys, found, missing = dict[Run, dict[str, Any]](), dict[Run, Scores](), list[Run]()
    for run in planned:
        named = {
            "row": run.row.row,
            "seed": run.seed,
            "average": average,
            "test_files": [str(path) for path in test_files or ()],
            "settings": run.settings,
        }
        texts = {
            "data.train": [fingerprint(one, run.config.data, "train") for one in run.config.data.train],
            "data.validation": content_key(scoring.validation_pairs(run.config)),
            "--test": content_key(test),
        }
        if digest := start_digest(run):
            texts["training.start_from"] = digest
        keys[run] = named | {"texts": texts}
        if done := results.find(keys[run]):
            found[run] = done
            continue
        if before := results.find(named):
            _log_change(run, before.get("texts", {}), texts)
        check_unchanged(run)
        missing.append(run)
    for run in training_runs.train(missing, launch):
        try:
            found[run] = keys[run] | score(run, average, launch.device, test)
        except NmtError as error:
            log.warning("%s seed %d: cannot be scored: %s", run.row.row, run.seed, error)
            continue
        results.add(found[run])
        bleu = found[run]["validation"]["bleu"]
        log.info(
            "%s seed %d: BLEU %.2f; %d of %d runs are finished", run.row.row, run.seed, bleu, len(found), len(planned)
        )
    failed = {run.row.row for run in planned if run not in found}
    by_row: dict[str, list[Scores]] = {}
    for run in planned:
        if run.row.row not in failed:
            by_row.setdefault(run.row.row, []).append(found[run])
    return by_row


def check_complete(planned: Sequence[Run], done: Collection[str]) -> None:
    """Raises NmtError if a row is not among those that are done."""
    rows = list(dict.fromkeys(run.row.row for run in planned))
    if failed := [row for row in rows if row not in done]:
        raise NmtError(
            f"{len(failed)} of {len(rows)} rows have no result, because a run failed (see above): {', '.join(failed)}: "
            "the same command tries these again; --rows leaves rows out"
        )


def _log_change(run: Run, before: dict[str, Any], texts: dict[str, Any]) -> None:
    """Log why a finished row is done again. Raises NmtError if its run was trained on other text."""
    changed = [name for name in texts if name in before and texts[name] != before[name]]
    if "data.train" in changed and run.folder.exists():
        raise NmtError(
            f"{run.folder} has a run on other training data (data.train: its content has changed): choose another "
            "--output, or delete the folder"
        )
    reason = f"new content of {', '.join(changed)}" if changed else "what it was made from is not recorded"
    log.info("%s seed %d: %s: done again", run.row.row, run.seed, reason)


def _check_average(run: Run, average: int) -> None:
    """Raises NmtError if the run will have fewer checkpoints than are averaged."""
    training = run.config.training
    if average > training.keep_last:
        raise NmtError(
            f"--average {average}: row {run.row.row} keeps only its last {training.keep_last} checkpoints: raise "
            "training.keep_last"
        )
    intervals = training.checkpoint_every, training.validate_every  # and at the end one is written
    written = {training.max_steps}.union(*(range(every, training.max_steps, every) for every in intervals))
    if average > len(written):
        raise NmtError(
            f"--average {average}: row {run.row.row} writes only {len(written)} checkpoints in training.max_steps: "
            f"{training.max_steps}: lower training.checkpoint_every: {training.checkpoint_every}, or --average"
        )


def mean_and_range(values: Sequence[float]) -> str:
    """The mean and the range: `25.31`, or for several values `25.31 (25.10-25.60)`."""
    mean = math.fsum(values) / len(values)
    return f"{mean:.2f}" + (f" ({min(values):.2f}-{max(values):.2f})" if len(values) > 1 else "")


if __name__ == "__main__":
    raise SystemExit("grid.py is a part of scripts/ablations.py and scripts/reproduce_table3.py: run one of these")
