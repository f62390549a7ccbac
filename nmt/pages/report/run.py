"""Reads the folder of a run. The run may be finished, in training or killed, and files may be damaged."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from nmt.checkpoints import model_file
from nmt.config import schema
from nmt.config.metrics import METRICS
from nmt.config.schema import Config
from nmt.data.cleaning.summary import DataSummary
from nmt.errors import NmtError
from nmt.files import json_lines
from nmt.pages.report.curves import PROGRESS, Curves, curves, is_number, stage_starts, with_corpora, with_sets

log = logging.getLogger("nmt")

T = TypeVar("T")
# Exceptions that are raised when a record has values that nmt does not write.
_DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)

# Translations of validation sentences: (source, reference) → (step of the validation, translation), in order.
Samples = dict[tuple[str, str], list[tuple[int, str]]]
Score = tuple[str, float, float | None, str]  # name, value, half-width of its 95% interval, sacreBLEU's signature


@dataclass(frozen=True)
class Session:
    """The time from one start of training to its end. The end is missing if training still runs or was killed."""

    started: str  # date and time, UTC, as `ended`
    step: int  # steps done at the start
    facts: dict[str, Any]  # hardware, versions and sizes (`nmt.training.run_log.environment`)
    ended: str | None = None
    last_step: int | None = None  # steps done at the end
    outcome: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """A system's scores in a file of `nmt evaluate --format json`."""

    name: str  # of the file
    scores: list[Score]
    system: str  # the model or file of translations that was scored


@dataclass(frozen=True)
class Run:
    """The state of a run."""

    name: str
    config: Config
    training: Curves
    validation: Curves
    stages: Curves  # where the stages of data.stages began, by their `number`
    corpora: list[dict[str, Any]]  # label, share, passes and nll of each in the newest row; empty for one corpus
    totals: dict[str, float]  # the last logged values of PROGRESS; the step is at least the one of the newest model
    samples: Samples
    sessions: list[Session]
    best: dict[str, Any]  # the provenance of its best checkpoint; empty if there is none yet
    evaluations: list[Evaluation]
    data: DataSummary | None  # None if it is not recorded
    notes: list[str]  # messages about files that could not be read


def gather(folders: Sequence[Path]) -> list[Run]:
    """Reads the runs in these folders. Damaged parts are left out, with a warning and a note in the run.

    Raises NmtError if a folder is not a run folder, its settings cannot be read, or a folder is given twice.
    """
    for i, folder in enumerate(folders):
        if not folder.is_dir():
            what = "a file, not a folder" if folder.exists() else "no such folder"
            raise NmtError(f"{folder}: {what}: give a run folder (run_dir)")
        if not (folder / "config.yaml").is_file():
            raise NmtError(f"{folder}: has no config.yaml, which nmt train writes when it begins: give a run folder")
        if folder.resolve() in [other.resolve() for other in folders[:i]]:
            raise NmtError(f"{folder}: given twice: give each run once")
    return [_Reader(folder).run(name) for folder, name in zip(folders, _names(folders), strict=True)]


def files_of(folders: Sequence[Path]) -> list[Path]:
    """The files that `gather` may read: all files in these folders except pages."""
    files = list[Path]()
    for folder in filter(Path.is_dir, folders):
        files += [path for path in folder.iterdir() if path.suffix != ".html"]
    return files


def _names(folders: Sequence[Path]) -> list[str]:
    """The shortest path suffixes that name each folder uniquely."""
    parts = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(path[-count:]) for path in parts]
        if len(set(names)) == len(names):
            return names
    raise AssertionError("a folder is given twice")


class _Reader:
    """Reads the files of a run, and collects notes about damage."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notes = folder, list[str]()

    def run(self, name: str) -> Run:
        config = schema.load(self.folder / "config.yaml")
        labels = _distinct([corpus.label for corpus in config.data.train])
        metrics = self._rows("metrics.jsonl", lambda row: with_corpora(with_sets(row), labels))
        best = self._provenance(self.folder / model_file.BEST)
        newest = [self._provenance(path) for path in model_file.checkpoints(self.folder)[-1:]]
        saved = max(provenance.get("step", 0) for provenance in (best, *newest))
        path = self.folder / "metrics.jsonl"
        if saved and not path.exists():
            self._note(f"{path}: missing, although models were saved: there are no learning curves")
        training, validation = curves(metrics)
        sessions = list(_sessions(self._rows("sessions.jsonl", _session_row)))
        return Run(
            name=name,
            config=config,
            training=training,
            validation=validation,
            stages=stage_starts(metrics, len(config.data.stages)),
            corpora=next((row["corpora"] for row in reversed(metrics) if "corpora" in row), []),
            totals=_totals(metrics, saved),
            samples=_samples(self._rows("samples.jsonl", _sample)),
            sessions=sessions,
            best=best,
            evaluations=list(self._evaluations()),
            data=self._data(sessions),
            notes=self.notes,
        )

    def _note(self, note: str) -> None:
        log.warning("%s", note)
        self.notes.append(note)

    def _rows(self, name: str, parse: Callable[[dict[str, Any]], T]) -> list[T]:
        """The rows of a file as `parse` returns them, without damaged ones."""
        path = self.folder / name
        rows, damaged = json_lines.read(path)
        if damaged:
            problem = f"line {damaged[0]} is damaged"
            if len(damaged) > 1:
                problem = f"{len(damaged)} lines are damaged, the first is line {damaged[0]}"
            self._note(f"{path}: {problem}: not shown")
        parsed = list[T]()
        for row in rows:
            with suppress(*_DAMAGE):
                parsed.append(parse(row))
        if foreign := len(rows) - len(parsed):
            self._note(f"{path}: {foreign} rows have values that `nmt train` does not write: not shown")
        return parsed

    def _provenance(self, path: Path) -> dict[str, Any]:
        """The provenance of a model file, with the scores of each validation set under separate names. Empty if the
        file does not exist or is damaged."""
        if not path.exists():
            return {}
        try:
            provenance = with_sets(model_file.load_provenance(path))
            scores = [name for name in provenance if name.partition(", ")[0] in METRICS]
            forms = [text["compared"] for text in provenance.get("translated", ())]
            signatures = {name: _signature(text, forms) for name, text in provenance.get("signatures", {}).items()}
            numbers = {name: float(provenance[name]) for name in scores}
            return provenance | numbers | {"step": int(provenance["step"]), "signatures": signatures}
        except NmtError as error:
            self._note(str(error))
        except _DAMAGE as error:
            self._note(f"{path}: its provenance is damaged ({error}): not shown")
        return {}

    def _evaluations(self) -> Iterator[Evaluation]:
        """The scores in files of `nmt evaluate --format json` in the run folder, sorted by name."""
        for path in sorted(self.folder.glob("evaluation*.json")):
            try:
                data = json.loads(path.read_text(encoding="utf-8"))
                scores = _by_system(data["scores"] if isinstance(data, dict) else data)
            except (OSError, RecursionError, *_DAMAGE):
                scores = {}
            if not scores:
                self._note(f"{path}: not an output of `nmt evaluate --format json`: not shown")
            for system, system_scores in scores.items():
                yield Evaluation(path.stem, system_scores, system)

    def _data(self, sessions: Sequence[Session]) -> DataSummary | None:
        """The summary of the data that the newest session recorded."""
        recorded = [session.facts["data"] for session in sessions if "data" in session.facts]
        if not recorded:
            return None
        try:
            summary = DataSummary.from_json(recorded[-1])
            str(summary)  # fails if its numbers or names are damaged
        except _DAMAGE as error:
            self._note(f"{self.folder}: the data report cannot be read ({error}): not shown")
            return None
        return summary


def _distinct(labels: Sequence[str]) -> list[str]:
    """The labels of the corpora. Equal labels get their indices in data.train."""
    return [f"{label} [{i}]" if labels.count(label) > 1 else label for i, label in enumerate(labels)]


def _totals(rows: Iterable[dict[str, Any]], saved: int) -> dict[str, float]:
    """The last logged values of PROGRESS. saved: the step of the newest saved model; 0 if there is none."""
    totals: dict[str, float] = {}
    for row in rows:
        totals |= {key: row[key] for key in PROGRESS if is_number(row.get(key))}
    return totals | ({"step": max(saved, totals.get("step", 0))} if saved else {})


def _sample(row: Mapping[str, Any]) -> tuple[int, tuple[str, str], str]:
    return row["step"], (str(row["source"]), str(row["reference"])), str(row["translation"])


def _samples(rows: Iterable[tuple[int, tuple[str, str], str]]) -> Samples:
    """The samples in the order of the file."""
    samples: Samples = {}
    for step, pair, translation in rows:
        samples.setdefault(pair, []).append((step, translation))
    return samples


def _session_row(row: dict[str, Any]) -> dict[str, Any]:
    """Checks the types of the values in a row, and returns it. Raises one of _DAMAGE for a wrong type."""
    for count in (row.get("parameters", {}).get("total"), row.get("trained_parameters"), row.get("skipped_pairs")):
        format(0 if count is None else count, ",.0f")
    start = row.get("start_from", {})
    if start:
        format(start.get("step", 0), ",")
        _ = start["file"] + start["sha256"]
    return row | {name: str(row[name]) for name in ("time", "reason") if name in row}


def _sessions(rows: Iterable[dict[str, Any]]) -> Iterator[Session]:
    """A session for each start of training, with the end that follows it, if there is one."""
    for row, after in pairwise([*rows, {}]):
        if row.get("event") != "started":
            continue
        facts = {key: value for key, value in row.items() if key not in ("event", "time", "step")}
        session = Session(row.get("time", ""), row["step"], facts)
        if after.get("event") in ("stopped", "finished"):
            outcome = f"{after['event']}: {after.get('reason', '')}"
            session = replace(session, ended=after.get("time", ""), last_step=after["step"], outcome=outcome)
        yield session


def _signature(signature: object, forms: Iterable[object]) -> str:
    """sacreBLEU's signature, and the forms in which texts were compared."""
    return "".join([str(signature), *dict.fromkeys(f"; texts compared {form}" for form in forms)])


def _by_system(rows: Iterable[dict[str, Any]]) -> dict[str, list[Score]]:
    systems: dict[str, list[Score]] = {}
    for row in rows:
        half = row["interval"]["half_width"] if row["interval"] else None
        if not is_number(row["value"]) or not (half is None or is_number(half)):
            raise ValueError
        signature = _signature(row["signature"], [row["compared"]] if "compared" in row else [])
        score = (str(row["name"]), float(row["value"]), None if half is None else float(half), signature)
        systems.setdefault(str(row["system"]), []).append(score)
    return systems
