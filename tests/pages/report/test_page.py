"""The page as data and as text; tests/pages/report/page_in_chromium.py is the page in a browser."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.html_elements import Elements
from helpers.report_runs import new_run
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import writer
from nmt.pages.html_page import html_page
from nmt.pages.report import page
from nmt.pages.report.run import Evaluation, Session

FOLDER = Path(page.__file__).parent
STYLE, SCRIPT = (
    "".join(
        path.read_text("utf-8") for path in (FOLDER.parent.joinpath(f"html_page.{kind}"), *FOLDER.glob(f"*.{kind}"))
    )
    for kind in ("css", "js")
)


def data_in(text: str) -> Any:
    """What the page's script reads, found as a browser finds it."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def rows(table: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {row["label"]: row["cells"] for row in table}


def test_the_summary_of_a_stopped_and_of_a_finished_run() -> None:
    stopped, finished = new_run("a", last_step=1000, seed=1), new_run("b", last_step=2400, seed=2)
    summary = rows(page.to_data([stopped, finished])["summary"])
    assert summary["state"] == ["stopped: SIGTERM", "finished: training.max_steps: 2400 reached"]
    assert summary["steps"] == ["1,000 of 2,400", "2,400 of 2,400"]
    assert summary["target subwords trained on"] == ["4,000,000", "9,600,000"]
    assert summary["time in training"] == ["16 min 40 s", "40 min 00 s"]
    longer = replace(finished, totals={"step": 1, "seconds": 3600 * 30 + 59 * 60 + 59})
    assert rows(page.to_data([longer])["summary"])["time in training"] == ["30 h 59 min"]
    assert summary["target subwords per second"] == ["4,000", "4,000"]
    assert summary["sessions"] == ["1", "2: resumed 1 time"]
    assert summary["best checkpoint"] == ["step 1,000, by validation loss", "step 2,400, by validation loss"]


def test_stages_and_where_they_began() -> None:
    data = page.to_data([new_run("a", staged=True), new_run("b")])
    assert data["stages"] == [
        [
            {"mix": "crawled 75.0%, clean 25.0%", "end": "for 850 steps", "step": 0},
            {"mix": "temperature 5", "end": "for 3,000 steps", "step": 850},
            {"mix": "clean 100.0%", "end": "to the end", "step": None},
        ],
        [],
    ]
    starts = data["runs"][0]["stages"]
    assert (starts["step"], starts["tokens"], starts["values"]) == ([0, 850], [0, 3_400_000], {"number": [1, 2]})
    assert starts["hours"] == pytest.approx([0, 850 / 3600], rel=1e-5)
    assert data["runs"][1]["stages"]["step"] == [] and rows(data["summary"])["stage"] == ["2 of 3", "–"]
    assert not {"stage", "stage_step"} & data["runs"][0]["training"]["values"].keys()
    assert "stage" not in rows(page.to_data([new_run("b")])["summary"])


def test_corpora_are_a_table_of_the_newest_row() -> None:
    data = page.to_data([new_run("a", staged=True), new_run("b")])
    assert data["corpora"] == [[["crawled", "0.0%", "0.40", "–"], ["clean", "100.0%", "2.25", "1.750"]], []]


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"sessions": [Session("2030-01-01T00:00:00+00:00", 0, {})]}, "not finished: still training, or killed"),
        ({"sessions": [], "totals": {"step": 7}}, "not finished"),
    ],
)
def test_other_states(change: dict[str, Any], state: str) -> None:
    assert rows(page.to_data([replace(new_run("a"), **change)])["summary"])["state"] == [state]


def test_scores_and_each_signature_once() -> None:
    one, other = new_run("a", last_step=1000), new_run("b")
    scored = [Evaluation("evaluation-test", [("BLEU", 35.456, 1.2, "nrefs:1|v"), ("TER", 48.0, None, "ter|v")], "b.de")]
    data = page.to_data([one, replace(other, evaluations=scored)])
    best, test = data["scores"]
    assert rows(best["rows"]) == {
        "step": ["1,000", "2,400"], "validation loss": ["2.0000", "1.7083"],
        "BLEU": ["35.00", "42.00"], "chrF": ["55.00", "62.00"],
    }  # fmt: skip
    assert rows(test["rows"]) == {"system": ["–", "b.de"], "BLEU": ["–", "35.46 ± 1.20"], "TER": ["–", "48.00"]}
    assert data["signatures"] == [
        {"score": "BLEU", "signature": "nrefs:1|v", "runs": [0, 1]},
        {"score": "TER", "signature": "ter|v", "runs": [1]},
        {"score": "chrF", "signature": "nrefs:1|c", "runs": [0, 1]},
    ]
    unsigned = {name: value for name, value in one.best.items() if name != "signatures"}
    (missing,) = page.to_data([replace(one, best=unsigned)])["signatures"]
    assert missing == {"score": "BLEU, chrF", "signature": "not recorded", "runs": [0]}
    earlier = replace(one, best={**one.best, "step": 500})
    assert [table["title"] for table in page.to_data([earlier])["scores"]] == [
        "On the validation set, best checkpoint", "On the validation set, last validation",
    ]  # fmt: skip


def test_settings_that_differ_are_marked() -> None:
    data = page.to_data([new_run("a", seed=1), new_run("b", seed=2)])
    assert [row["label"] for row in data["settings"] if row["differs"]] == ["run_dir", "seed"]
    assert [row["label"] for row in data["settings"]] == list(writer.flatten(new_run("a").config))
    by_label = {row["label"]: row for row in data["settings"]}
    assert by_label["run_dir"]["default"] == "" and by_label["model.dropout"]["default"] == "0.1"
    not_default = {row["label"] for row in data["settings"] if set(row["cells"]) != {row["default"]}}
    assert not_default == {
        "run_dir", "seed", "data.source_language", "data.target_language", "data.train", "training.max_steps",
    }  # fmt: skip
    assert not any(row["differs"] for row in page.to_data([new_run("a")])["settings"])


HELD = r'(<title>|id="data">).*?(?=</(?:title|script)>)'
MARKS = st.sampled_from(["<", "</script>", "<!--", "&lt;", "\udcff", "\u2028", "{data}", "{title}"])
TEXT = st.lists(MARKS | st.characters(exclude_categories=["Cs"])).map("".join)


@given(TEXT, TEXT)
def test_any_text_stays_text(title: str, text: str) -> None:
    """Whatever sentences and names hold, the page around them is what it was, and the data comes out whole."""
    whole, plain = html_page("nmt.pages.report", title, {"text": text}), html_page("nmt.pages.report", "", {})
    assert data_in(whole) == {"text": text}
    assert re.sub(HELD, r"\1", whole, flags=re.DOTALL) == re.sub(HELD, r"\1", plain, flags=re.DOTALL)
    assert "\udcff" not in whole  # a folder's name that is not UTF-8, which no file could hold


def test_it_needs_nothing_from_elsewhere() -> None:
    elements = Elements(page.page([new_run("a"), new_run("b")]))
    elements.check_nothing_from_elsewhere("form")
    assert not re.search(r"@import|url\(|import\(|innerHTML|insertAdjacentHTML|eval\(|fetch\(|XMLHttp", STYLE + SCRIPT)


def test_what_the_script_names_is_there() -> None:
    elements = Elements(page.page([new_run("a")]))
    named = re.findall(r'\bat\("([a-z-]+)"\)', SCRIPT)
    assert len(named) > 20 and {*named, *elements.values("aria-labelledby")} <= elements.ids
    held = page.to_data([new_run("a")])
    assert set(re.findall(r"\bdata\.([a-z]+)", SCRIPT)) | {"runs"} == held.keys()
