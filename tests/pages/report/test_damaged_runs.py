"""Runs whose records are damaged, in any way: what can be read is shown, and the page is whole."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.html_elements import Elements
from helpers.runs import config_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.pages.report import page
from nmt.pages.report.run import gather

SIDE = {"words": 9, "characters": 40, "subwords": 12, "longest": 4, "unknown": 0}
COUNTS = {
    "read": 3,
    "empty": 0,
    "copies": 0,
    "duplicates": 0,
    "too_long": 0,
    "ratio": 0,
    "kept_copies": 0,
    "kept_duplicates": 0,
    "source": SIDE,
    "target": SIDE,
    "rules": {},
    "scores": None,
}
CHANGES = {"lines": 3, "removed": 0, "removed_characters": [], "not_written": 0, "lost_characters": []}
RECORDS: dict[str, list[dict[str, Any]]] = {
    "metrics.jsonl": [
        {"step": 4, "epoch": 0, "stage": 1, "stage_step": 4, "loss": 5.5, "learning_rate": 0.01, "target_tokens": 90,
         "seconds": 1.5},
        {"step": 8, "epoch": 1, "stage": 2, "stage_step": 2, "loss": 4.5, "learning_rate": 0.01, "target_tokens": 180,
         "seconds": 3.0,
         "corpora": [{"share": 0.7, "passes": 1.5, "nll": 4.25}, {"share": 0.3, "passes": 9, "nll": 5}]},
        {"step": 8, "stage": 2, "stage_step": 2, "validation_loss": 4.0, "bleu": 1.5, "chrf": 9.0},
    ],
    "samples.jsonl": [{"step": 8, "source": "one", "reference": "eins", "translation": "zwei"}],
    "sessions.jsonl": [
        {"event": "started", "step": 0, "time": "2030-01-01T10:00:00+00:00", "cores": 2, "nmt": "0.1", "ranks": 1,
         "parameters": {"total": 900}, "skipped_pairs": 0,
         "data": {"languages": ["en", "de"], "labels": ["corpus"], "counts": [COUNTS], "changes": [CHANGES, CHANGES],
                  "notes": [[]]}},
        {"event": "finished", "step": 8, "time": "2030-01-01T11:00:00+00:00", "reason": "training.max_steps"},
    ],
    "evaluation-test.json": [
        {"name": "BLEU", "value": 30.5, "interval": {"half_width": 1.5}, "signature": "nrefs:1", "system": "run",
         "compared": "raw"},
        {"name": "chrF", "value": 55.0, "interval": None, "signature": "nrefs:1", "system": "run", "compared": "raw"},
    ],
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    text = config_text(tmp_path, folder).replace("  store_dir", "  stages: [{steps: 6}, {}]\n  store_dir")
    text = text.replace("train.de}]", "train.de, name: first}, {source: more.en, target: more.de, name: more}]")
    (folder / "config.yaml").write_text(text)
    for name, rows in RECORDS.items():
        (folder / name).write_text(written(name, rows))
    return folder


def test_evaluations_of_earlier_versions_are_shown() -> None:
    """They do not say in which form texts were compared."""
    folder = Path(__file__).parents[3] / "docs" / "results" / "multi30k" / "seed1"
    [run] = gather([folder])
    [evaluation] = run.evaluations
    assert [name for name, *_ in evaluation.scores] == ["BLEU", "chrF2", "TER"]


def written(name: str, rows: list[Any]) -> str:
    return json.dumps(rows) if name.endswith(".json") else "".join(f"{json.dumps(row)}\n" for row in rows)


def reported(folder: Path) -> Any:
    """What the page shows. Fails where it is not whole, or holds a number that JSON does not have."""
    runs = gather([folder])
    text = page.page(runs)
    text.encode()
    Elements(text).check_nothing_from_elsewhere()
    [found] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)

    def no_number(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    data = json.loads(found, parse_constant=no_number, parse_int=_precise, parse_float=_precise)
    for note in runs[0].notes:
        assert "\n" not in note
    return data


def _precise(text: str) -> float:
    """As a browser reads it."""
    number = float(text)
    assert abs(number) < 1e300, f"{text[:50]} cannot be drawn"
    return number


LONG = "1" + "0" * 400


@pytest.mark.parametrize(
    "name",
    ["step", "target_tokens"],
)
def test_numbers_that_cannot_be_drawn(run: Path, name: str) -> None:
    path = run / "metrics.jsonl"
    for value in (LONG, "NaN", "1e299", "-1", "9" * 5000):
        text = re.sub(rf'"{name}": [0-9.]+', f'"{name}": {value}', written(path.name, RECORDS[path.name]), count=1)
        assert value in text
        path.write_text(text)
        assert len(reported(run)["runs"][0]["validation"]["step"]) <= 1


NUMBERS = st.integers() | st.sampled_from([10**400, -(10**400), 10**18, 2**63, 1e299, 1e308]) | st.floats()
ANY = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5) | st.sampled_from(["started", "finished", "NaN"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def changed(value: Any, data: st.DataObject) -> Any:
    """The value with one of what it holds, however deep, become something else."""
    if not value or not isinstance(value, dict | list) or data.draw(st.integers(0, 4)) == 0:
        return data.draw(ANY)
    if isinstance(value, list):
        place = data.draw(st.integers(0, len(value) - 1))
        return [changed(one, data) if i == place else one for i, one in enumerate(value)]
    name = data.draw(st.sampled_from(list(value)))
    return {key: changed(one, data) if key == name else one for key, one in value.items()}


@pytest.mark.parametrize("name", RECORDS)
@given(data=st.data())
@settings(deadline=None, max_examples=7, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_values_changed(run: Path, name: str, data: st.DataObject) -> None:
    rows: Any = RECORDS[name]
    for _ in range(data.draw(st.integers(1, 3))):
        rows = changed(rows, data)
    (run / name).write_text(written(name, rows if isinstance(rows, list) else [rows]))
    reported(run)
    (run / name).write_text(written(name, RECORDS[name]))
