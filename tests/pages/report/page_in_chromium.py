"""The page of `nmt report` in headless Chromium, opened from disk: `scripts/test_page.sh`."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.chromium import WIDTHS, Browser, accessibility_faults, contrast, overlapping_labels
from helpers.report_runs import SENTENCES, new_run
from helpers.services import until

from nmt.config import writer
from nmt.data.cleaning.summary import CorpusCounts, DataSummary, SideChanges, SideCounts
from nmt.pages.report.page import page
from nmt.pages.report.run import Evaluation, Run

LEGEND, CHART, TIP = "#legend button", "figure", "#tip .line"
SCORES = [("BLEU", 35.5, 1.25, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"), ("TER", 48.0, None, "t")]


def two_runs() -> list[Run]:
    """One finished, one stopped earlier that lacks a metric and has no sample of a sentence."""
    finished, stopped = new_run("finished", seed=1), new_run("<i>stopped</i>", last_step=1000, seed=2)
    counts = (CorpusCounts(read=29_000, source=SideCounts(345_020), target=SideCounts(322_383)),)
    unchanged = SideChanges(0, 0, (), 0, ())
    summary = DataSummary(("en", "de"), ("train.en + train.de",), counts, (unchanged, unchanged), ((),))
    finished = replace(finished, data=summary)
    values = {name: column for name, column in stopped.training.values.items() if name != "padding"}
    training, notes = replace(stopped.training, values=values), ["metrics.jsonl: line 3 is damaged: not shown"]
    scored = [Evaluation("evaluation-test", SCORES, "model")]
    samples = dict(list(stopped.samples.items())[:2])
    return [finished, replace(stopped, training=training, samples=samples, notes=notes, evaluations=scored)]


def show(window: Browser, folder: Path, runs: list[Run], width: int = 1200, dark: bool = False) -> None:
    """Write the report and open it."""
    file = folder / "report.html"
    file.write_text(page(runs), encoding="utf-8")
    window.open(file.as_uri(), "#settings tr", width, dark)


def mouse(window: Browser, chart: int, kind: str, share: float, button: str = "none") -> None:
    """Move, press or release the mouse over a chart, so far along its width."""
    box = f"const r = document.querySelectorAll('.chart')[{chart}].getBoundingClientRect();"
    window.js(f"document.querySelectorAll('.chart')[{chart}].scrollIntoView({{block: 'center'}})")
    x, y = window.js(f"{box} return [r.left + {share} * r.width, r.top + 60]")
    window.devtools("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": button, "clickCount": 1})


def titles(window: Browser) -> list[str]:
    return window.texts("figcaption")


def lines(window: Browser, chart: int) -> int:
    count: int = window.js(f"return document.querySelectorAll('.chart')[{chart}].querySelectorAll('.curve').length")
    return count


def shown(window: Browser, selector: str) -> int:
    script = f"return Array.from(document.querySelectorAll({json.dumps(selector)})).filter(e => e.offsetParent).length"
    count: int = window.js(script)
    return count


def test_two_runs_compared(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, two_runs())
    assert browser.js("return document.title") == "finished, <i>stopped</i> – nmt report"
    assert browser.texts(LEGEND) == ["finished", "<i>stopped</i>"]
    assert browser.texts("#notes li") == ["metrics.jsonl: line 3 is damaged: not shown"]
    assert titles(browser)[:2] == [
        "Loss−log P per subword; line: training, marks: validation",
        "BLEUon the validation set",
    ]
    assert [lines(browser, chart) for chart in range(7)] == [4, 2, 2, 2, 2, 2, 1]
    assert browser.texts("#settings tbody th") == ["run_dir", "seed"]
    assert browser.texts("#summary tbody tr:first-child td") == [
        "finished: training.max_steps: 2400 reached",
        "stopped: SIGTERM",
    ]
    assert browser.texts("#scores tbody th")[-2:] == ["BLEU", "TER"]
    assert browser.texts("#corpora .numbers:first-child tbody td")[:2] == ["29,000", "0"]
    assert "the prepared data was not found" in browser.texts("#corpora")[0]
    assert len(browser.texts("#sessions tbody tr")) == 3
    assert browser.js("return document.querySelectorAll('main i, main b b, main img').length") == 0
    browser.js("document.getElementById('which').value = 'all'")
    browser.js("document.getElementById('which').dispatchEvent(new Event('change'))")
    assert browser.texts("#settings tbody th") == list(writer.flatten(two_runs()[0].config))


def test_each_validation_set_has_charts(browser: Browser, tmp_path: Path) -> None:
    run, other = two_runs()
    values = dict(run.validation.values)
    for name in ("bleu", "validation_loss"):
        values |= {
            f"{name}, news": values[name],
            f"{name}, a, b": values[name],
            f"{name}_since_start, news": values[name],
        }
    several = replace(run, validation=replace(run.validation, values=values | {"comet, news": values["bleu"]}))
    show(browser, tmp_path, [several, other])
    known, each = titles(browser), "on this validation set"
    assert known[1:6] == [f"Loss, news{each}", f"Loss, a, b{each}", "BLEUon the validation set"] + [
        f"BLEU, {name}{each}" for name in ("news", "a, b")
    ]
    assert known[-1] == "comet, newsvalidation" and len(known) == len(set(known))
    assert [lines(browser, chart) for chart in range(4)] == [4, 1, 1, 2]


def test_pointing_shows_values(browser: Browser, tmp_path: Path) -> None:
    runs = two_runs()
    show(browser, tmp_path, runs)
    mouse(browser, 0, "mouseMoved", 0.6)
    assert shown(browser, "#tip") == 1
    step = int(browser.texts("#tip .head")[0].removeprefix("step ").replace(",", ""))
    assert step in runs[0].training.step and step > 1000  # where the second run has no point
    finished, stopped, validated, _ = browser.texts(TIP)
    nll = runs[0].training.values["nll"][runs[0].training.step.index(step)]
    assert nll is not None and finished == f"finishedtraining{nll:.5g}"
    assert stopped.startswith("<i>stopped</i>training at 1,000")
    assert validated.startswith("finishedvalidation")
    everywhere = "return document.querySelectorAll('.cross').length"
    assert browser.js(everywhere) == len(titles(browser))
    mouse(browser, 0, "mouseMoved", -0.02)
    assert (shown(browser, "#tip"), browser.js(everywhere)) == (0, 0)


def test_the_legend_toggles_runs_everywhere(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, two_runs())
    before = shown(browser, "#summary th[scope=col]"), shown(browser, "#sessions tbody tr"), lines(browser, 0)
    assert before == (2, 3, 4)
    browser.click(f"{LEGEND}:nth-child(1)")
    after = shown(browser, "#summary th[scope=col]"), shown(browser, "#sessions tbody tr"), lines(browser, 0)
    assert after == (1, 1, 2)
    assert browser.js(f"return document.querySelector('{LEGEND}').ariaPressed") == "false"
    assert max(map(step_of, browser.texts("figure:first-child text"))) <= 1000
    browser.click(f"{LEGEND}:nth-child(2)")
    assert (lines(browser, 0), shown(browser, "#samples .columns > div")) == (0, 0)
    browser.click(f"{LEGEND}:nth-child(1)")
    browser.click(f"{LEGEND}:nth-child(2)")
    assert (shown(browser, "#summary th[scope=col]"), lines(browser, 0)) == (2, 4)


def step_of(label: str) -> float:
    try:
        return float(label.replace(",", ""))
    except ValueError:
        return 0


def test_stages_are_marked_on_the_curves(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, [new_run("plain"), new_run("staged", seed=2, staged=True)])
    browser.js("document.querySelector('#charts').scrollIntoView()")
    browser.shot("report-stages")
    assert browser.texts("#stages tbody td") == [
        *("1", "0", "crawled 75.0%, clean 25.0%", "for 850 steps"),
        *("2", "850", "temperature 5", "for 3,000 steps"),
        *("3", "–", "clean 100.0%", "to the end"),
    ]
    assert browser.texts("#mix tbody td") == ["crawled", "0.0%", "0.40", "–", "clean", "100.0%", "2.25", "1.750"]
    for axis in ("step", "tokens", "hours"):
        browser.js(f"document.querySelector('input[value={axis}]').click()")
        marks = browser.js("return Array.from(document.querySelectorAll('.stage')).map(each => each.textContent)")
        assert marks == ["stage 2"] * len(titles(browser))
        line, first, last = browser.js(
            "const chart = document.querySelector('.chart'), x = e => e.getBoundingClientRect();"
            "const curve = x(chart.querySelectorAll('.curve')[1]);"
            "return [x(chart.querySelector('.stage line')).left, curve.left, curve.right]"
        )
        assert (line - first) / (last - first) == pytest.approx((850 - 100) / 2300, abs=0.02)
    show(browser, tmp_path, [new_run("plain")])
    assert not shown(browser, "#stages-part") and not shown(browser, "#mix-part")


def test_axes_and_parts(browser: Browser, tmp_path: Path) -> None:
    """4,000 target subwords and a second a step: 2,400 steps are 9.6 million, and two thirds of an hour."""
    show(browser, tmp_path, two_runs())
    for axis, label, end in (
        ("tokens", "target subwords", "8M"),
        ("hours", "hours of training", "0.6"),
        ("step", "steps", "2,000"),
    ):
        browser.click(f"input[value={axis}]")
        texts = browser.texts("figure:first-child text")
        assert label in texts and end in texts
    assert browser.js("return document.getElementById('whole').disabled")
    mouse(browser, 0, "mousePressed", 0.5, "left")
    mouse(browser, 0, "mouseMoved", 0.6, "left")
    mouse(browser, 0, "mouseMoved", 0.8, "left")
    mouse(browser, 0, "mouseReleased", 0.8, "left")
    until(lambda: not browser.js("return document.getElementById('whole').disabled"))
    steps = [step for text in browser.texts("figure:first-child text") if (step := step_of(text)) > 20]
    assert min(steps) > 1000 and max(steps) < 2000
    browser.click("#whole")
    assert "0" in browser.texts("figure:first-child text")


def test_curves_of_training_can_be_smoothed(browser: Browser, tmp_path: Path) -> None:
    """Point by point: the mean of those before, each weighing half as much as the next. Validation stays as it is."""
    run = new_run("one")
    show(browser, tmp_path, [run])
    before = browser.js("return document.querySelector('.chart').querySelectorAll('.curve')[1].getAttribute('d')")
    browser.js("const e = document.getElementById('smoothing'); e.value = 0.5; e.dispatchEvent(new Event('input'))")
    assert len(browser.texts("figure:first-child .measured")) == 1 and lines(browser, 0) == 2
    assert (
        browser.js("return document.querySelector('.chart').querySelectorAll('.curve')[1].getAttribute('d')") == before
    )
    mouse(browser, 0, "mouseMoved", 0.6)
    step = int(browser.texts("#tip .head")[0].removeprefix("step ").replace(",", ""))
    until_then = run.training.values["nll"][: run.training.step.index(step) + 1]
    weights = [0.5 ** (len(until_then) - 1 - i) for i in range(len(until_then))]
    mean = sum(w * (y or 0) for w, y in zip(weights, until_then, strict=True)) / sum(weights)
    assert browser.texts(TIP)[0] == f"onetraining smoothed{mean:.5g}"


def test_samples_in_all_scripts(browser: Browser, tmp_path: Path) -> None:
    """Text as it is, in its own direction; translations that stay the same are one line."""
    show(browser, tmp_path, two_runs())
    assert browser.texts(".sample .reference") == [reference for _, reference, _ in SENTENCES]
    first = browser.texts(".sample:first-child .columns > div:first-child li")
    assert first == ["500Ein", "1,000 – 1,500Ein Hund", "2,000Ein Hund läuft."]
    directions = browser.js(
        "return Array.from(document.querySelectorAll('.sample dd, .sample li bdi'), e => getComputedStyle(e).direction)"
    )
    texts = browser.texts(".sample dd, .sample li bdi")
    expected = ["rtl" if "\u0590" <= text[0] <= "\u06ff" else "ltr" for text in texts]
    assert directions == expected and {"rtl", "ltr"} == set(expected)
    assert len(browser.texts(".sample:last-child .columns > div")) == 1  # the other run has none of this sentence


@pytest.mark.parametrize(("width", "dark"), [("desktop", False), ("phone", True)])
def test_all_widths_and_grounds(browser: Browser, tmp_path: Path, width: str, dark: bool) -> None:
    runs = [*two_runs(), *(new_run(f"run-{i}" * i, last_step=300 * i) for i in range(1, 7))]
    for name, some in (("two", runs[:2]), ("eight", runs)):
        show(browser, tmp_path, some, WIDTHS[width], dark)
        assert browser.js("return document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
        assert accessibility_faults(browser) == []
        for selector in (".note", "tbody th", "td", "figcaption small", "legend", "#notes h2", ".right", ".differs td"):
            assert contrast(browser, selector) >= 4.5, (selector, dark)
        for place in ("summary-title", "curves-title", "samples-title", "settings-title"):
            browser.js(f"document.getElementById('{place}').scrollIntoView()")
            browser.shot(f"report-{name}-{width}-{'dark' if dark else 'light'}-{place.removesuffix('-title')}")
        assert overlapping_labels(browser) == 0


def test_a_run_that_has_logged_nothing(browser: Browser, tmp_path: Path) -> None:
    run = new_run("begun")
    nothing = replace(run.training, step=[], tokens=[], hours=[], values={})
    empty: dict[str, Any] = {"totals": {}, "samples": {}, "sessions": [], "best": {}}
    show(browser, tmp_path, [replace(run, training=nothing, validation=nothing, **empty)])
    assert browser.texts("#curves-note") == ["No values have been logged yet."]
    assert browser.texts("#summary tbody td") == ["not started", "0 of 2,400"]
    show(browser, tmp_path, [run, replace(run, name="other", training=nothing, validation=nothing, **empty)])
    assert lines(browser, 0) == 2


def test_nothing_is_asked_of_others_and_nothing_complains(browser: Browser) -> None:
    """After all the tests above."""
    time.sleep(0.2)
    urls = browser.requested()
    opened = [url for url in urls if url.startswith("file:")]
    assert opened and all(url.endswith("/report.html") for url in opened)
    assert [url for url in urls if not url.startswith(("file:", "data:", "chrome"))] == []
    assert browser.log("browser") == []
