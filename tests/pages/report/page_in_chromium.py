"""The page of `nmt report` in headless Chromium, opened from disk: `scripts/test_page.sh`."""

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.chromium import WIDTHS, Browser, assert_usable_and_alone, overlapping_labels
from helpers.report_runs import SENTENCES, new_run

from nmt.pages.report.page import page


@pytest.mark.parametrize(("width", "dark"), [("desktop", False), ("phone", True)])
def test_two_runs_compared(browser: Browser, tmp_path: Path, width: str, dark: bool) -> None:
    stopped = replace(new_run("<i>stopped</i>", last_step=1000, seed=2), notes=["line 3 is damaged"])
    file = tmp_path / "report.html"
    file.write_text(page([new_run("finished", seed=1), stopped]), encoding="utf-8")
    browser.open(file.as_uri(), "#settings tr", WIDTHS[width], dark)
    assert browser.texts("#legend button") == ["finished", "<i>stopped</i>"]
    assert browser.texts("#notes li") == ["line 3 is damaged"]
    curves = "return document.querySelector('.chart').querySelectorAll('.curve').length"
    assert browser.js(curves) == 4  # training and validation of each
    assert browser.texts(".sample .reference") == [reference for _, reference, _ in SENTENCES]
    assert browser.js("return document.querySelectorAll('main i, main b b').length") == 0, "names are text"
    assert overlapping_labels(browser) == 0
    assert_usable_and_alone(browser)
    browser.click("#legend button:nth-child(1)")
    assert browser.js(curves) == 2
    browser.click("input[value=tokens]")
    assert "target subwords" in browser.texts("figure:first-child text")
