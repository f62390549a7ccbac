"""What a run's folder tells of how it went, whether it has finished, goes on or was killed."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt.checkpoints import model_file
from nmt.commands.report.curves import PLACES, Curves, curves, is_number
from nmt.config import reader
from nmt.config.schema import Config
from nmt.data import token_store
from nmt.data.report import DataReport
from nmt.errors import NmtError
from nmt.files import json_lines
from nmt.training import state

log = logging.getLogger("nmt")

EVALUATIONS = "evaluation*.json"  # what `nmt evaluate --json` printed, kept in the run's folder


@dataclass(frozen=True)
class Sample:
    """A validation sentence, and its translations in order: the step of the validation and the text."""

    source: str
    reference: str
    translations: list[tuple[int, str]]


@dataclass(frozen=True)
class Session:
    """One time that training started or went on.

    started, ended: time of day, UTC; step, last_step: how many were done then. Where `ended` is None training goes on,
    or was killed. facts: hardware, versions and sizes; see `nmt.training.environment`.
    """

    started: str
    step: int
    facts: dict[str, Any]
    ended: str | None = None
    last_step: int | None = None
    reason: str | None = None
    finished: bool = False

    @property
    def outcome(self) -> str | None:
        """How it ended, in words, if it did."""
        return None if self.ended is None else f"{'finished' if self.finished else 'stopped'}: {self.reason}"


@dataclass(frozen=True)
class Evaluation:
    """A system's scores in a file that `nmt evaluate --json` gave.

    name: of the file. Each score: name, value, half the width of its 95% interval or None, sacreBLEU's signature.
    system: what was scored, a model or a file of translations; empty where the file does not say.
    """

    name: str
    scores: list[tuple[str, float, float | None, str]]
    system: str = ""


@dataclass(frozen=True)
class Run:
    """A run as far as it got.

    best: the provenance of its best checkpoint; nothing before there is one. data: None where it is not to be found.
    notes: what could not be read, in words.
    """

    name: str
    config: Config
    training: Curves
    validation: Curves
    totals: dict[str, float]  # of PLACES, the last ones logged; the step no lower than that of a model saved
    samples: list[Sample]
    sessions: list[Session]
    best: dict[str, Any]
    evaluations: list[Evaluation]
    data: DataReport | None
    notes: list[str]


def gather(folders: Sequence[Path]) -> list[Run]:
    """The runs of these folders. What is damaged in one is left out, logged and among the run's notes.

    Raises NmtError for a folder that is none of a run, whose settings cannot be read, or that is given twice.
    """
    for i, folder in enumerate(folders):
        if not (folder / "config.yaml").is_file():
            raise NmtError(f"{folder}: holds no config.yaml: give the folder of a run (its run_dir)")
        if folder.resolve() in [other.resolve() for other in folders[:i]]:
            raise NmtError(f"{folder}: given twice: give each run once")
    return [_Reader(folder).run(name) for folder, name in zip(folders, _names(folders), strict=True)]


def files_of(folders: Sequence[Path]) -> list[Path]:
    """What `gather` reads: everything in these folders but pages."""
    there = [folder for folder in folders if folder.is_dir()]
    return [path for folder in there for path in folder.iterdir() if path.suffix != ".html"]


def _names(folders: Sequence[Path]) -> list[str]:
    """As many of each folder's last parts as tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(path[-count:]) for path in parts]
        if len(set(names)) == len(names):
            return names
    raise AssertionError("folders that are one")


_Facts = Mapping[str, Callable[[object], bool]]  # by name: whether a value is of the fact's type


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _has_total(value: object) -> bool:
    return isinstance(value, dict) and is_number(value.get("total"))


def _are_texts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


# The facts that are read of each kind of record; the others are shown as they are, if at all.
_OF_METRICS: _Facts = {}  # `curves` leaves out what is no number
_OF_SAMPLES: _Facts = {"source": _is_text, "reference": _is_text, "translation": _is_text}
_OF_SESSIONS: _Facts = {"time": _is_text, "reason": _is_text, "parameters": _has_total, "skipped_pairs": is_number}
_OF_MODELS: _Facts = {
    "step": _is_whole, "validation_loss": is_number, "bleu": is_number, "chrf": is_number, "signatures": _are_texts,
}  # fmt: skip


class _Reader:
    """Reads a run's files, and notes what of them is damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notes = folder, list[str]()

    def run(self, name: str) -> Run:
        config = reader.load(Config, self.folder / "config.yaml")
        metrics, best = self._rows("metrics.jsonl", _OF_METRICS), self._provenance(self.folder / model_file.BEST)
        newest = [self._provenance(path) for path in model_file.last(self.folder, 1)]
        saved = max(of.get("step", 0) for of in (best, *newest))
        if saved and not (self.folder / "metrics.jsonl").exists():
            self._note(f"{self.folder / 'metrics.jsonl'}: missing, though models have been saved: no learning curves")
        training, validation = curves(metrics)
        sessions = list(_sessions(self._rows("sessions.jsonl", _OF_SESSIONS)))
        data = self._data(config, sessions)
        return Run(
            name,
            config,
            training,
            validation,
            _totals(metrics, saved),
            _samples(self._rows("samples.jsonl", _OF_SAMPLES)),
            sessions,
            best,
            list(self._evaluations()),
            data,
            self.notes,
        )

    def _note(self, note: str) -> None:
        log.warning("%s", note)
        self.notes.append(note)

    def _rows(self, name: str, facts: _Facts) -> list[dict[str, Any]]:
        rows, damaged = json_lines.read(self.folder / name)
        if damaged:
            which = (
                f"line {damaged[0]} is"
                if len(damaged) == 1
                else f"{len(damaged)} lines, the first line {damaged[0]}, are"
            )
            self._note(f"{self.folder / name}: {which} damaged: left out")
        return self._typed(self.folder / name, rows, facts)

    def _typed(self, path: Path, records: Sequence[dict[str, Any]], facts: _Facts) -> list[dict[str, Any]]:
        """The records without those facts that are of another type."""
        wrong = [
            [name for name, is_right in facts.items() if name in record and not is_right(record[name])]
            for record in records
        ]
        if names := dict.fromkeys(name for of in wrong for name in of):
            self._note(f"{path}: {', '.join(names)}: not what `nmt train` writes: left out")
        return [
            {name: value for name, value in record.items() if name not in of}
            for record, of in zip(records, wrong, strict=True)
        ]

    def _provenance(self, path: Path) -> dict[str, Any]:
        """Of a model file; nothing where there is none."""
        if not path.exists():
            return {}
        try:
            [provenance] = self._typed(path, [model_file.load_provenance(path)], _OF_MODELS)
        except NmtError as error:
            self._note(str(error))
            return {}
        return provenance

    def _evaluations(self) -> Iterator[Evaluation]:
        """By file, then system, in the files' order."""
        for path in sorted(self.folder.glob(EVALUATIONS)):
            try:
                found = json.loads(path.read_text(encoding="utf-8"))
                scores = _by_system(found["scores"] if isinstance(found, dict) else found)
            except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
                scores = {}
            if not scores:
                self._note(f"{path}: not what `nmt evaluate --json` prints: left out")
            yield from (Evaluation(path.stem, of, system) for system, of in scores.items())

    def _data(self, config: Config, sessions: Sequence[Session]) -> DataReport | None:
        """What the run recorded; if it did not, the record of the token store that its newest state names."""
        recorded = [session.facts["data"] for session in sessions if "data" in session.facts]
        try:
            report = DataReport.of(recorded[-1]) if recorded else self._prepared(config)
            str(report)  # fails where its numbers or names are none, or are not as many as each other
        except (NmtError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            self._note(f"{self.folder}: the report on its data cannot be read ({error}): left out")
            return None
        return report

    def _prepared(self, config: Config) -> DataReport | None:
        store = Path(config.data.store_dir or self.folder / "data")
        key = state.data_key(self.folder)
        if key is None or not (store / key).is_dir():
            return None
        languages = (config.data.source_language, config.data.target_language)
        return DataReport(languages, tuple(one.label for one in config.data.train), token_store.counts(store / key))


def _totals(rows: Iterable[dict[str, Any]], saved: int) -> dict[str, float]:
    """saved: the last step that is known to have been saved, 0 where none is."""
    totals: dict[str, float] = {}
    for row in rows:
        totals |= {key: row[key] for key in PLACES if is_number(row.get(key))}
    return totals | ({"step": max(saved, totals.get("step", 0))} if saved else {})


def _samples(rows: Iterable[dict[str, Any]]) -> list[Sample]:
    """By sentence, in the order in which they first came."""
    found: dict[tuple[str, str], Sample] = {}
    for row in rows:
        if row.keys() >= _OF_SAMPLES.keys():
            source, reference = row["source"], row["reference"]
            sample = found.setdefault((source, reference), Sample(source, reference, []))
            sample.translations.append((row["step"], row["translation"]))
    return list(found.values())


def _sessions(rows: Iterable[dict[str, Any]]) -> Iterator[Session]:
    """A session for each start, with the end that follows it, if one does."""
    started: dict[str, Any] | None = None
    for row in [*rows, {"event": "started"}]:
        ended = row.get("event") in ("stopped", "finished")
        if started is not None:
            facts = {key: value for key, value in started.items() if key not in ("event", "time", "step")}
            session = Session(started.get("time", ""), started["step"], facts)
            if ended:
                session = replace(
                    session,
                    ended=row.get("time", ""),
                    last_step=row["step"],
                    reason=row.get("reason", ""),
                    finished=row["event"] == "finished",
                )
            yield session
        started = row if row.get("event") == "started" else None


def _by_system(scores: Iterable[dict[str, Any]]) -> dict[str, list[tuple[str, float, float | None, str]]]:
    found: dict[str, list[tuple[str, float, float | None, str]]] = {}
    for score in scores:
        found.setdefault(str(score.get("system", "")), []).append(_score(score))
    return found


def _score(score: dict[str, Any]) -> tuple[str, float, float | None, str]:
    interval = score.get("interval")
    half = interval["half_width"] if interval else None
    if not is_number(score["value"]) or not (half is None or is_number(half)):
        raise ValueError
    return str(score["name"]), float(score["value"]), None if half is None else float(half), str(score["signature"])
