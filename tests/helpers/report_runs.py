"""Runs to report on, made up, of any length, with sentences in several scripts."""

from typing import Any

from nmt.config import reader, schema
from nmt.pages.report.curves import PROGRESS, curves, stage_starts
from nmt.pages.report.run import Run, Session

CONFIG = """
run_dir: runs/{seed}
seed: {seed}
data: {{source_language: en, target_language: de, train: [{{source: a, target: b}}]}}
training: {{max_steps: 2400}}
"""
FACTS = {"nmt": "0.1", "processor": "A Processor", "cores": 2, "parameters": {"total": 2_349_056}}
SENTENCES = [
    ("A dog runs.", "Ein Hund läuft.", ["Ein", "Ein Hund", "Ein Hund", "Ein Hund läuft."]),
    ("שלום לכולם", "مرحبا بالجميع", ["مرحبا", "مرحبا", "مرحبا بالجميع"]),
    ("今天天气很好", "<b>今日は</b></script>いい天気です", ["今日", "<img src=x>"]),
]


STAGES = "[{weights: {crawled: 3, clean: 1}, steps: 850}, {temperature: 5, steps: 3000}, {weights: {clean: 1}}]"


CORPORA = [
    {"label": "crawled", "share": 0.0, "passes": 0.4, "nll": None},
    {"label": "clean", "share": 1.0, "passes": 2.25, "nll": 1.75},
]


def logged(step: int) -> dict[str, float]:
    """A row of metrics, 4,000 target subwords and a second a step."""
    nll = 1.5 + 600 / (step + 100)
    return {
        "step": step, "epoch": 1 + step // 500, "loss": nll + 0.8, "nll": nll, "learning_rate": 4e-6 * step,
        "target_tokens": 4000 * step, "target_tokens_per_second": 4000 + 10 * (step % 700),
        "padding": 0.025 + 0.001 * (step % 300) / 100, "seconds": step,
    }  # fmt: skip


def validated(step: int) -> dict[str, float]:
    return {"step": step, "validation_loss": 1.5 + 500 / step, "bleu": 30 + step / 200, "chrf": 50 + step / 200}


def sessions_of(last_step: int, finished: bool) -> list[Session]:
    """One that was stopped, or one that was killed and one that finished."""
    started, ended = "2030-01-01T10:00:00+00:00", "2030-01-01T11:00:00+00:00"
    if not finished:
        return [Session(started, 0, FACTS, ended, last_step, "stopped: SIGTERM")]
    outcome = f"finished: training.max_steps: {last_step} reached"
    return [Session(started, 0, FACTS), Session(started, 400, FACTS, ended, last_step, outcome)]


def in_stage(row: dict[str, float]) -> dict[str, float]:
    """The row in a run in whose second stage the steps from 850 on are."""
    stage = 1 + (row["step"] > 850)
    return row | {"stage": stage, "stage_step": row["step"] - 850 * (stage - 1)}


def new_run(name: str, last_step: int = 2400, seed: int = 1, *, staged: bool = False) -> Run:
    """A run of 2,400 steps, finished or stopped before; staged: with three stages, of which it has reached two."""
    parsed = schema.parse(CONFIG.format(seed=seed), "test")
    rows = [logged(step) for step in range(100, last_step + 1, 100)]
    if staged:
        corpora = "[{file: a.tsv, name: crawled}, {file: b.tsv, name: clean}]"
        overrides = [f"data.train={corpora}", f"data.stages={STAGES}", "data.validation={file: c.tsv}"]
        parsed = reader.parse(schema.Config, CONFIG.format(seed=seed), "test", overrides)
        rows = [in_stage(row) for row in rows]
    training, validation = curves([*rows, *(validated(step) for step in {*range(500, last_step, 500), last_step})])
    best: dict[str, Any] = {"best_metric": "validation_loss", "nmt": "0.1", **validated(last_step)}
    samples = {
        (source, reference): [(500 * (i + 1), text) for i, text in enumerate(texts)]
        for source, reference, texts in SENTENCES
    }
    return Run(
        name,
        parsed,
        training,
        validation,
        stage_starts(rows, len(parsed.data.stages)),
        corpora=CORPORA if staged else [],
        totals={key: rows[-1][key] for key in PROGRESS if key in rows[-1]},
        samples=samples,
        sessions=sessions_of(last_step, finished=last_step >= parsed.training.max_steps),
        best={**best, "signatures": {"bleu": "nrefs:1|v", "chrf": "nrefs:1|c"}},
        evaluations=[],
        data=None,
        notes=[],
    )
