"""The page of `nmt inspect` in headless Chromium, opened from disk: `scripts/test_page.sh`."""

from pathlib import Path

import pytest
from helpers.chromium import WIDTHS, Browser, assert_usable_and_alone
from helpers.inspection_models import SENTENCES, inspector_of, new_checkpoint

from nmt.pages.inspect.inspect import attention_by_word
from nmt.pages.inspect.output_folder import page


@pytest.mark.parametrize(
    ("source", "target", "width", "dark"), [("en", "de", "desktop", False), ("ar", "ja", "phone", True)]
)
def test_picking_a_word(browser: Browser, tmp_path: Path, source: str, target: str, width: str, dark: bool) -> None:
    seen = inspector_of(new_checkpoint(source, target)).inspect(SENTENCES[source], SENTENCES[target])
    (tmp_path / "index.html").write_text(page(seen), encoding="utf-8")
    browser.open((tmp_path / "index.html").as_uri(), "#lines path", WIDTHS[width], dark)
    words = seen.source.words
    assert browser.texts("#from bdi") == browser.texts("#to bdi") == [word.text for word in words]
    for name, value in (("layer", "1"), ("head", "2")):
        select = f"document.getElementById('{name}')"
        browser.js(f"{select}.value = '{value}'; {select}.dispatchEvent(new Event('change'))")
    browser.click("#from button")
    shares = attention_by_word(seen.inside.attention["encoder"][1, 2], words, words)[0].tolist()
    shown = [float(text.removesuffix(" %")) for text in browser.texts("#to button small")]
    assert shown == pytest.approx([100 * share for share in shares], abs=0.51)
    direction = browser.js("return getComputedStyle(document.getElementById('source')).direction")
    assert direction == ("rtl" if source == "ar" else "ltr")
    assert browser.js("return document.querySelectorAll('#tree g[data-place]').length") == len(seen.nodes)
    assert_usable_and_alone(browser)
