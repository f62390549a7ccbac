"""Reads the folder of a run: finished, in training or killed, and even if some files are damaged."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from nmt.checkpoints import model_file
from nmt.commands.report.curves import (
    PROGRESS,
    Curves,
    are_corpora,
    curves,
    is_number,
    is_scores,
    stage_starts,
    with_corpora,
    with_sets,
)
from nmt.config import reader
from nmt.config.metrics import METRICS
from nmt.config.schema import Config
from nmt.data import statistics, token_store
from nmt.data.report import DataReport
from nmt.errors import NmtError
from nmt.files import json_lines
from nmt.training import state

log = logging.getLogger("nmt")

# Translations of validation sentences: source, reference → step of the validation and translation, in order.
Samples = dict[tuple[str, str], list[tuple[int, str]]]
Score = tuple[str, float, float | None, str]  # name, value, half-width of its 95% interval, sacreBLEU's signature


@dataclass(frozen=True)
class Session:
    """The time from one start of training to its end, which is not known if training still runs or was killed."""

    started: str  # date and time, UTC, as `ended`
    step: int  # steps done at the start
    facts: dict[str, Any]  # hardware, versions and sizes (`nmt.training.run_log.environment`)
    ended: str | None = None
    last_step: int | None = None  # steps done at the end
    outcome: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """A system's scores in a file of `nmt evaluate --json`."""

    name: str  # of the file
    scores: list[Score]
    system: str = ""  # the model or file of translations that was scored; empty if the file does not have it


@dataclass(frozen=True)
class Run:
    """The state of a run."""

    name: str
    config: Config
    training: Curves
    validation: Curves
    stages: Curves  # where the stages of data.stages began, by their `number`
    corpora: list[dict[str, Any]]  # label, share, passes and nll of each in the newest row; none where there is one
    totals: dict[str, float]  # the last logged values of PROGRESS; the step is at least that of the newest model
    samples: Samples
    sessions: list[Session]
    best: dict[str, Any]  # the provenance of its best checkpoint; empty if there is none yet
    evaluations: list[Evaluation]
    data: DataReport | None  # None if it was not found
    notes: list[str]  # about what could not be read


def gather(folders: Sequence[Path]) -> list[Run]:
    """The runs in these folders. Damaged parts are left out, with a warning and a note in the run.

    Raises NmtError if a folder is not a run folder, its settings cannot be read, or it is given twice.
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
    existing = [folder for folder in folders if folder.is_dir()]
    return [path for folder in existing for path in folder.iterdir() if path.suffix != ".html"]


def _names(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the folders' paths that are all different."""
    parts = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(path[-count:]) for path in parts]
        if len(set(names)) == len(names):
            return names
    raise AssertionError("a folder is given twice")


_Types = Mapping[str, Callable[[object], bool]]  # for a name, whether a value has the right type


def _is_text(value: object) -> bool:
    return isinstance(value, str)


# The types of the values that are used from each kind of record.
_SAMPLE: _Types = {"source": _is_text, "reference": _is_text, "translation": _is_text}
_SESSION: _Types = {
    "time": _is_text,
    "reason": _is_text,
    "parameters": lambda value: isinstance(value, dict) and is_number(value.get("total")),
    "skipped_pairs": is_number,
    "trained_parameters": is_number,
    "start_from": lambda value: isinstance(value, dict) and all(map(_is_text, map(value.get, ("file", "sha256")))),
}
_MODEL: _Types = {
    "step": lambda value: type(value) is int and 0 <= value < 2**53,
    **dict.fromkeys(METRICS, is_number),
    "validation": is_scores,
    "signatures": lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
}


class _Reader:
    """Reads the files of a run, and collects notes about damage."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notes = folder, list[str]()

    def run(self, name: str) -> Run:
        config = reader.load(Config, self.folder / "config.yaml")
        labels = _distinct([one.label for one in config.data.train])
        fits: _Types = {
            "validation": is_scores,
            "corpora": lambda value: are_corpora(value) and len(value) == len(labels),  # type: ignore[arg-type]
        }
        logged = list(map(with_sets, self._rows("metrics.jsonl", fits)))
        metrics = [with_corpora(row, labels) for row in logged]
        corpora: list[dict[str, Any]] = next((row["corpora"] for row in reversed(logged) if "corpora" in row), [])
        best = with_sets(self._provenance(self.folder / model_file.BEST))
        newest = [self._provenance(path) for path in model_file.checkpoints(self.folder)[-1:]]
        saved = max(of.get("step", 0) for of in (best, *newest))
        path = self.folder / "metrics.jsonl"
        if saved and not path.exists():
            self._note(f"{path}: missing, although models were saved: there are no learning curves")
        training, validation = curves(metrics)
        sessions = list(_sessions(self._rows("sessions.jsonl", _SESSION)))
        data = self._data(config, sessions)
        return Run(
            name,
            config,
            training,
            validation,
            stage_starts(metrics, len(config.data.stages)),
            [{**of, "label": label} for label, of in zip(labels, corpora, strict=True)] if corpora else [],
            _totals(metrics, saved),
            _samples(self._rows("samples.jsonl", _SAMPLE)),
            sessions,
            best,
            list(self._evaluations()),
            data,
            self.notes,
        )

    def _note(self, note: str) -> None:
        log.warning("%s", note)
        self.notes.append(note)

    def _rows(self, name: str, types: _Types) -> list[dict[str, Any]]:
        path = self.folder / name
        rows, damaged = json_lines.read(path)
        if damaged:
            several = f"{len(damaged)} lines are damaged, the first is line {damaged[0]}"
            self._note(f"{path}: {several if damaged[1:] else f'line {damaged[0]} is damaged'}: not shown")
        return self._typed(path, rows, types)

    def _typed(self, path: Path, records: Sequence[dict[str, Any]], types: _Types) -> list[dict[str, Any]]:
        """The records without values of a wrong type."""

        def is_wrong(record: dict[str, Any], name: str) -> bool:
            return name in types and name in record and not types[name](record[name])

        if wrong := dict.fromkeys(name for record in records for name in types if is_wrong(record, name)):
            self._note(f"{path}: {', '.join(wrong)}: not written by `nmt train`: not shown")
        return [{name: value for name, value in record.items() if not is_wrong(record, name)} for record in records]

    def _provenance(self, path: Path) -> dict[str, Any]:
        """The provenance of a model file; empty if the file does not exist."""
        if not path.exists():
            return {}
        try:
            [provenance] = self._typed(path, [model_file.load_provenance(path)], _MODEL)
        except NmtError as error:
            self._note(str(error))
            return {}
        return provenance

    def _evaluations(self) -> Iterator[Evaluation]:
        """Files of `nmt evaluate --json` that users keep in the run folder, sorted by name."""
        for path in sorted(self.folder.glob("evaluation*.json")):
            try:
                data = json.loads(path.read_text(encoding="utf-8"))
                scores = _by_system(data["scores"] if isinstance(data, dict) else data)
            except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
                scores = {}
            if not scores:
                self._note(f"{path}: not an output of `nmt evaluate --json`: not shown")
            yield from (Evaluation(path.stem, of, system) for system, of in scores.items())

    def _data(self, config: Config, sessions: Sequence[Session]) -> DataReport | None:
        """The data report that the run recorded, or else that of the token store of its newest state."""
        recorded = [session.facts["data"] for session in sessions if "data" in session.facts]
        try:
            report = DataReport.of(recorded[-1]) if recorded else self._prepared(config)
            str(report)  # fails if its numbers or names are damaged
        except (NmtError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            self._note(f"{self.folder}: the data report cannot be read ({error}): not shown")
            return None
        return report

    def _prepared(self, config: Config) -> DataReport | None:
        store = Path(config.data.store_dir or self.folder / "data")
        saved = state.saved(self.folder)
        key = "" if saved is None else saved[0].data_key.partition(",")[0]
        if not key or not (store / key).is_dir():
            return None
        labels = tuple(one.label for one in config.data.train)
        sides, counts = config.data.language_pairs.sides, token_store.counts(store / key)
        return DataReport(sides, labels, counts, statistics.changes(store / key), statistics.notes(store / key))


def _distinct(labels: Sequence[str]) -> list[str]:
    """The labels of the corpora; where some are equal, with their places in data.train."""
    return [f"{label} [{i}]" if labels.count(label) > 1 else label for i, label in enumerate(labels)]


def _totals(rows: Iterable[dict[str, Any]], saved: int) -> dict[str, float]:
    """saved: the step of the newest saved model, 0 if there is none."""
    totals: dict[str, float] = {}
    for row in rows:
        totals |= {key: row[key] for key in PROGRESS if is_number(row.get(key))}
    return totals | ({"step": max(saved, totals.get("step", 0))} if saved else {})


def _samples(rows: Iterable[dict[str, Any]]) -> Samples:
    """The samples in the order of the file."""
    samples: Samples = {}
    for row in rows:
        if row.keys() >= _SAMPLE.keys():
            samples.setdefault((row["source"], row["reference"]), []).append((row["step"], row["translation"]))
    return samples


def _sessions(rows: Iterable[dict[str, Any]]) -> Iterator[Session]:
    """A session for each start, with the end that follows it, if there is one."""
    for row, after in pairwise([*rows, {}]):
        if row.get("event") != "started":
            continue
        facts = {key: value for key, value in row.items() if key not in ("event", "time", "step")}
        session = Session(row.get("time", ""), row["step"], facts)
        if after.get("event") in ("stopped", "finished"):
            outcome = f"{after['event']}: {after.get('reason', '')}"
            session = replace(session, ended=after.get("time", ""), last_step=after["step"], outcome=outcome)
        yield session


def _by_system(rows: Iterable[dict[str, Any]]) -> dict[str, list[Score]]:
    systems: dict[str, list[Score]] = {}
    for row in rows:
        interval = row.get("interval")
        half = interval["half_width"] if interval else None
        if not is_number(row["value"]) or not (half is None or is_number(half)):
            raise ValueError
        score = (str(row["name"]), float(row["value"]), None if half is None else float(half), str(row["signature"]))
        systems.setdefault(str(row.get("system", "")), []).append(score)
    return systems
