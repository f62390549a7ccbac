"""The page of `nmt report`: the data of the runs as JSON, for the script of the page."""

import dataclasses
import datetime
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any

from nmt import __version__
from nmt.config import writer
from nmt.config.metrics import METRICS, TRANSLATION_METRICS
from nmt.config.schema import Config
from nmt.data.batches.stages import end_of, mix_of
from nmt.pages.html_page import html_page
from nmt.pages.report.curves import is_number
from nmt.pages.report.run import Evaluation, Run
from nmt.training.validation import SINCE_START

_NONE = "–"
_SCORES = {name: metric.label.replace("_", " ") for name, metric in METRICS.items()}
_SINCE_START = {f"{name}{SINCE_START}": f"{label} since the start" for name, label in _SCORES.items()}
_DECIMALS = {"COMET": 4} | {  # as printed by `nmt evaluate` and training; other labels have two
    label: METRICS[name.removesuffix(SINCE_START)].decimals for name, label in (_SCORES | _SINCE_START).items()
}
# Settings that scores on the validation set depend on.
_MEASURED_BY = ("data.validation", "training.validation_sentences", "decoding.")
_FACTS = {
    "nmt": "nmt", "python": "Python", "torch": "PyTorch", "cuda": "CUDA", "sentencepiece": "SentencePiece",
    "sacrebleu": "sacreBLEU", "system": "system", "processor": "processor", "cores": "cores",
    "memory_gib": "memory, GiB", "gpu": "GPU", "gpu_memory_gib": "GPU memory, GiB", "device": "device",
    "ranks": "ranks", "threads": "threads per rank",
}  # fmt: skip


def page(runs: Sequence[Run]) -> str:
    """The report on these runs, as the text of an HTML file."""
    return html_page("nmt.pages.report", f"{', '.join(run.name for run in runs)} – nmt report", to_data(runs))


def to_data(runs: Sequence[Run]) -> dict[str, Any]:
    """The data of the page. A row of a table has a label, a cell for each run, and whether the cells differ."""
    return {
        "nmt": __version__,
        "metrics": {name: _SCORES[name] for name in TRANSLATION_METRICS},
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "runs": [_run(run) for run in runs],
        "summary": list(_summary(runs)),
        "scores": list(_scores(runs)),
        "unlike": _incomparable(runs),
        "signatures": _signatures(runs),
        "stages": [_stages(run) for run in runs],
        "corpora": [_corpora(run) for run in runs],
        "samples": _samples(runs),
        "settings": _settings(runs),
        "data": _data(runs),
        "environment": list(_environment(runs)),
        "sessions": [_sessions(run) for run in runs],
    }


def _row(label: str, cells: Sequence[str]) -> dict[str, Any]:
    return {"label": label, "cells": cells, "differs": len(set(cells)) > 1}


def _run(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "notes": run.notes,
        "languages": _only_pair(run.config),
        "training": dataclasses.asdict(run.training),
        "validation": dataclasses.asdict(run.validation),
        "stages": dataclasses.asdict(run.stages),
    }


def _only_pair(config: Config) -> list[str]:
    """The languages of a run of one pair; empty for others, whose sentences are in several."""
    pairs = config.data.language_pairs
    return ["", ""] if pairs.several else list(pairs.pairs[0])


def _summary(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """A row for each fact that at least one run has."""
    facts = [_facts(run) for run in runs]
    for label in facts[0]:
        cells = [run_facts[label] for run_facts in facts]
        if set(cells) != {_NONE}:
            yield _row(label, cells)


def _facts(run: Run) -> dict[str, str]:
    totals, training = run.totals, run.config.training
    tokens, seconds = totals.get("target_tokens"), totals.get("seconds")
    session = run.sessions[-1].facts if run.sessions else {}
    metric = _SCORES[training.best_metric]
    if training.best_set:
        metric += f" of {training.best_set}"
    best = f"step {run.best['step']:,}, by {metric}" if "step" in run.best else _NONE
    return {
        "state": _state(run),
        "steps": f"{_step(run):,} of {training.max_steps:,}",
        "epochs started": _count(totals.get("epoch")),
        "stage": f"{totals['stage']:,.0f} of {len(run.config.data.stages)}" if "stage" in totals else _NONE,
        "target subwords trained on": _count(tokens),
        "time in training": _NONE if seconds is None else _duration(seconds),
        "target subwords per second": _count(tokens / seconds if tokens and seconds else None),
        "parameters": _count(session.get("parameters", {}).get("total")),
        "parameters that are trained": _count(session.get("trained_parameters")),
        "started from": _origin(session.get("start_from", {})),
        "skipped pairs (longer than a batch)": _count(session.get("skipped_pairs")),
        "sessions": _times(len(run.sessions)),
        "best checkpoint": best,
    }


def _origin(start: dict[str, Any]) -> str:
    """The model that a run started from: its file, step and the first digits of its SHA-256."""
    if not start:
        return _NONE
    step = f", step {start['step']:,}" if is_number(start.get("step")) else ""
    return f"{start['file']}{step}, SHA-256 {start['sha256'][:12]}…"


def _step(run: Run) -> int:
    logged = [run.totals.get("step", 0), *(session.last_step or session.step for session in run.sessions)]
    return int(max(logged))


def _state(run: Run) -> str:
    if run.sessions:
        return run.sessions[-1].outcome or "not finished: still training, or killed"
    if _step(run) >= run.config.training.max_steps:
        return "finished: training.max_steps reached"
    return "not finished" if run.totals else "not started"


def _times(sessions: int) -> str:
    resumed = sessions - 1
    if resumed < 1:
        return _count(sessions or None)
    return f"{sessions}: resumed {resumed} time{'s' if resumed > 1 else ''}"


def _count(number: float | None) -> str:
    return _NONE if number is None else f"{number:,.0f}"


def _duration(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours} h {minute:02} min" if hours else f"{minute} min {second:02} s"


def _scores(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Tables of scores: the best checkpoints, the last validations if they are not the same, and each evaluation."""
    best = [run.best.get("step") for run in runs]
    last = [run.validation.step[-1] if run.validation.step else None for run in runs]
    yield from _validated("On the validation set, best checkpoint", best, [run.best for run in runs])
    if last != best:
        yield from _validated("On the validation set, last validation", last, [run.validation.last() for run in runs])
    evaluations = chain.from_iterable(run.evaluations for run in runs)
    for name in dict.fromkeys(evaluation.name for evaluation in evaluations):
        by_run = [[evaluation for evaluation in run.evaluations if evaluation.name == name] for run in runs]
        yield {"title": name, "rows": list(_evaluated(by_run))}


def _incomparable(runs: Sequence[Run]) -> str:
    """A sentence with the settings that make scores on the validation set incomparable; empty if there are none."""
    validated = [run for run in runs if run.validation.step or "validation_loss" in run.best]
    differing = [
        row["label"] for row in _settings(validated) if row["differs"] and row["label"].startswith(_MEASURED_BY)
    ]
    if not differing:
        return ""
    scores = "Scores" if "data.validation" in differing else " and ".join(_SCORES[name] for name in TRANSLATION_METRICS)
    return f"{scores} on the validation set cannot be compared: the runs differ in {', '.join(differing)}."


def _validated(title: str, steps: list[int | None], scores: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A table of scores on the validation set; none if there are no scores. scores: of each run, by name."""
    names = dict.fromkeys(chain.from_iterable(scores))
    rows, set_rows = list[dict[str, Any]](), list[dict[str, Any]]()
    for name, label in (_SCORES | _SINCE_START).items():
        if name not in names:
            continue
        rows.append(_row(label, [_score(label, run_scores.get(name)) for run_scores in scores]))
        for key in names:
            if key.startswith(f"{name}, "):  # a score of one of several validation sets: see `with_sets`
                cells = [_score(label, run_scores.get(key)) for run_scores in scores]
                set_rows.append(_row(key.replace(name, label, 1), cells))
    if rows:
        yield {"title": title, "rows": [_row("step", [_count(step) for step in steps]), *rows, *set_rows]}


def _evaluated(by_run: Sequence[Sequence[Evaluation]]) -> Iterator[dict[str, Any]]:
    """Rows for the evaluations of each run: names and scores of all first systems, of all second systems, …"""
    ranks = list(zip_longest(*by_run))
    for i, evaluations in enumerate(ranks, start=1):
        names = [evaluation.system if evaluation else _NONE for evaluation in evaluations]
        yield _row("system" if len(ranks) == 1 else f"system {i}", names)
        cells_by_label = list[dict[str, str]]()
        for evaluation in evaluations:
            scores = evaluation.scores if evaluation else []
            cells_by_label.append({label: _score(label, value, half) for label, value, half, _ in scores})
        for label in dict.fromkeys(chain.from_iterable(cells_by_label)):
            yield _row(label, [cells.get(label, _NONE) for cells in cells_by_label])


def _score(label: str, value: float | None, half_width: float | None = None) -> str:
    if value is None:
        return _NONE
    digits, sign = _DECIMALS.get(label, 2), "+" if label in _SINCE_START.values() else ""
    return f"{value:{sign}.{digits}f}" + ("" if half_width is None else f" ± {half_width:.{digits}f}")


def _signatures(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Each signature once, with the names of its scores and the indices of the runs that have it."""
    by_signature: dict[str, tuple[set[str], set[int]]] = {}
    for i, run in enumerate(runs):
        recorded = run.best.get("signatures", {})
        signatures = [
            (_SCORES[key], recorded.get(key, "not recorded")) for key in TRANSLATION_METRICS if key in run.best
        ]
        for evaluation in run.evaluations:
            signatures += [(label, text) for label, _, _, text in evaluation.scores]
        for label, text in signatures:
            labels, indices = by_signature.setdefault(text, (set(), set()))
            labels.add(label)
            indices.add(i)
    rows = [{"score": ", ".join(sorted(labels)), "signature": text, "runs": sorted(indices)}
            for text, (labels, indices) in by_signature.items()]  # fmt: skip
    return sorted(rows, key=lambda row: str(row["score"]))


def _stages(run: Run) -> list[dict[str, Any]]:
    """The stages of the mix: the mix, when the stage ends, and its first step; None if it has not begun."""
    starts = dict(zip(run.stages.values.get("number", []), run.stages.step, strict=True))
    stages = enumerate(run.config.data.stages, start=1)
    return [{"mix": mix_of(stage), "end": end_of(stage), "step": starts.get(i)} for i, stage in stages]


def _corpora(run: Run) -> list[list[str]]:
    """A row for each corpus of a run with several, from the newest row of metrics."""
    rows = [(corpus["label"], corpus["share"], corpus["passes"], corpus["nll"]) for corpus in run.corpora]
    return [
        [label, f"{share:.1%}", f"{passes:.2f}", _NONE if nll is None else f"{nll:.3f}"]
        for label, share, passes, nll in rows
    ]


def _samples(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Each sentence pair once, with the translations of every run."""
    pairs = dict.fromkeys(chain.from_iterable(run.samples for run in runs))
    return [
        {"source": pair[0], "reference": pair[1], "runs": [run.samples.get(pair, []) for run in runs]} for pair in pairs
    ]


def _settings(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The settings of all runs. The default is that of the first run that has the setting."""
    settings, default = [writer.flatten(run.config) for run in runs], dict[str, str]()
    for run in runs:
        default = writer.defaults(run.config) | default
    sections = [field.name for field in dataclasses.fields(Config)]
    rows = list[dict[str, Any]]()
    paths = dict.fromkeys(chain.from_iterable(settings))
    for path in sorted(paths, key=lambda path: sections.index(path.partition(".")[0])):
        values = [run_settings.get(path, _NONE) for run_settings in settings]
        rows.append(_row(path, values) | {"default": default[path]})
    return rows


def _data(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The tables on the data. Runs with the same data share their tables."""
    tables = [None if run.data is None else run.data.tables() for run in runs]
    distinct = [table for i, table in enumerate(tables) if table not in tables[:i]]
    return [{"tables": table, "runs": [i for i, other in enumerate(tables) if other == table]} for table in distinct]


def _environment(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Hardware and versions of the runs. If they changed during a run, all are listed in order."""
    for fact, label in _FACTS.items():
        cells = list[str]()
        for run in runs:
            values = [str(session.facts[fact]) for session in run.sessions if fact in session.facts]
            if not values and fact in run.best:  # a run without recorded sessions
                values = [str(run.best[fact])]
            cells.append(" → ".join(dict.fromkeys(values)) or _NONE)
        if set(cells) - {_NONE}:
            yield _row(label, cells)


def _sessions(run: Run) -> list[dict[str, Any]]:
    names = ("started", "step", "ended", "last_step", "outcome")
    return [{name: getattr(session, name) for name in names} for session in run.sessions]
