"""The page of `nmt prepare --report` in headless Chromium, opened from disk: `scripts/test_page.sh`."""

from pathlib import Path

import pytest
from helpers.chromium import WIDTHS, Browser, assert_usable_and_alone, overlapping_labels
from helpers.noisy_corpora import FIRST, HOSTILE, config_of, write
from helpers.services import until

from nmt.config import schema
from nmt.data.prepare import prepare
from nmt.pages.prepare.page import page


@pytest.mark.parametrize(("width", "dark"), [("desktop", False), ("phone", True)])
def test_two_corpora(browser: Browser, tmp_path: Path, width: str, dark: bool) -> None:
    hostile = [(f"{source} {HOSTILE}", f"{target} שלום") for source, target in FIRST]
    corpora = [write(tmp_path, "first", FIRST), write(tmp_path, "hostile", hostile)]
    clean = schema.CleaningConfig(language=None)
    config = config_of(tmp_path, *corpora, clean=clean, max_length=60, drop_duplicates=True)
    (tmp_path / "data.html").write_text(page(config, prepare(config)), encoding="utf-8")
    browser.open((tmp_path / "data.html").as_uri(), "#settings td", WIDTHS[width], dark)
    assert browser.texts("#summary tbody td")[0] == str(len(FIRST))
    browser.js("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    until(lambda: browser.js("return document.querySelectorAll('.chart').length"))  # drawn where they are seen
    assert any("</script><b>a</b>" in text for text in browser.texts(".corpus bdi"))
    assert browser.js("return document.querySelectorAll('main b').length") == 0, "text is text"
    assert overlapping_labels(browser) == 0
    assert_usable_and_alone(browser)
