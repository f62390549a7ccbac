"""The page of `nmt prepare --report` in headless Chromium, opened from disk: `scripts/test_page.sh`."""

import time
from pathlib import Path

import pytest
from helpers.chromium import WIDTHS, Browser, accessibility_faults, contrast, overlapping_labels
from helpers.noisy_corpora import FIRST, GOOD, HELD_OUT, HOSTILE, config_of, write

from nmt.config import schema
from nmt.config.schema import Config
from nmt.data.prepare import prepare
from nmt.pages.prepare.page import page


def show(window: Browser, folder: Path, config: Config, width: int = 1200, dark: bool = False) -> None:
    """Write the page and open it."""
    file = folder / "data.html"
    file.write_text(page(config, prepare(config)), encoding="utf-8")
    window.open(file.as_uri(), "#settings td", width, dark)


@pytest.fixture
def one(tmp_path: Path) -> Config:
    """One corpus with pairs that are dropped for many reasons."""
    clean = schema.CleaningConfig(language=None)
    return config_of(tmp_path, write(tmp_path, "first", FIRST), clean=clean, max_length=60, drop_duplicates=True)


@pytest.fixture
def five(tmp_path: Path) -> Config:
    """Five corpora of different lengths, with hostile text and text from right to left."""
    texts = [(f"{source} {HOSTILE}", f"{target} שלום") for source, target in GOOD]
    corpora = []
    for number in range(5):
        pairs = [(f"{s} {i} " * (1 + i % (number + 2)), f"{t} {i}") for s, t in texts for i in range(40)]
        corpora.append(write(tmp_path, f"a-corpus-with-a-long-name-{number}", pairs))
    return config_of(tmp_path, *corpora, size=320)


def open_all(window: Browser) -> None:
    window.js("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    time.sleep(0.2)  # for the observer of sizes, which draws the charts


def test_what_it_says_of_one_corpus(browser: Browser, tmp_path: Path, one: Config) -> None:
    show(browser, tmp_path, one)
    assert browser.js("return document.title") == f"{one.run_dir} – nmt prepare"
    assert len(browser.texts("#problems li")) == 1 and "are training pairs too" in browser.texts("#problems li")[0]
    assert browser.texts("#summary tbody td")[0] == str(len(FIRST))
    assert browser.texts(".corpus > summary small") == ["6 of 12 pairs kept, 50.00 % dropped"]
    cells = "Array.from(row.children, each => each.textContent).filter(text => text)"
    rows = browser.js(f"return Array.from(document.querySelectorAll('.drop'), row => {cells})")
    assert ["duplicates", "1", "8.33 %", "data.drop_duplicates: true"] in rows
    assert ["copies", "off", "data.drop_copies: false"] in rows
    assert "Of 4 validation pairs, 2 (50.00 %) are training pairs too" in browser.texts("#overlaps p")[0]
    assert browser.texts("#overlaps .trained li:first-child bdi") == [*HELD_OUT[2], GOOD[2][1]]


def test_a_reason_unfolds_to_examples(browser: Browser, tmp_path: Path, one: Config) -> None:
    show(browser, tmp_path, one)
    seen = "return Array.from(document.querySelectorAll('.drops .pairs bdi')).filter(e => e.checkVisibility()).length"
    assert browser.js(seen) == 0
    browser.click(".drops details:first-child summary")
    assert browser.js(seen) == 2
    assert browser.texts(".drops details:first-child bdi") == ["", "ohne Quelle"]


def test_control_characters_are_shown_and_nothing_runs(browser: Browser, tmp_path: Path, five: Config) -> None:
    show(browser, tmp_path, five)
    open_all(browser)
    texts = browser.texts(".corpus .plain bdi")
    assert any("</script><b>a</b> ␇[U+009B] [U+202E]b <!-- ☃" in text for text in texts)
    for code in ("00AD", "061C", "200B", "200E", "200F", "202A", "2060", "2069", "FEFF"):
        assert browser.js(f"return visible('a\\u{code}b')") == f"a[U+{code}]b"
    assert browser.js("return document.querySelectorAll('main b').length") == 0
    assert browser.js("return getComputedStyle(document.querySelector('.plain bdi')).unicodeBidi") == "isolate"
    assert "☃" in "".join(browser.texts("#vocabularies .pieces li"))


def test_charts_are_drawn_where_a_corpus_is_unfolded(browser: Browser, tmp_path: Path, five: Config) -> None:
    show(browser, tmp_path, five)
    assert browser.js("return Array.from(document.querySelectorAll('.corpus'), e => e.open)") == [True] + [False] * 4
    open_all(browser)
    sizes = "[chart.clientWidth, chart.querySelector('.frame').getBBox()]"
    widths = browser.js(f"return Array.from(document.querySelectorAll('.chart'), chart => {sizes})")
    assert len(widths) == 10 and all(0.7 * wide < box["width"] < wide for wide, box in widths)
    titles = browser.texts(".corpus:last-child rect.catch title")
    assert titles and all(" subwords: en " in title or "about " in title for title in titles)


@pytest.mark.parametrize(("width", "dark"), [("desktop", False), ("phone", True)])
def test_all_widths_and_grounds(
    browser: Browser, tmp_path: Path, one: Config, five: Config, width: str, dark: bool
) -> None:
    for name, config in (("one", one), ("five", five)):
        show(browser, tmp_path, config, WIDTHS[width], dark)
        open_all(browser)
        assert browser.js("return document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
        assert accessibility_faults(browser) == []
        for selector in (".note", ".data tbody th", "td", "figcaption small", ".pairs bdi", ".pieces small", "h2"):
            assert contrast(browser, selector) >= 4.5, (selector, dark)
        for place in ("summary-title", "corpora", "vocabulary-title"):
            browser.js(f"document.getElementById('{place}').scrollIntoView()")
            browser.shot(f"prepare-{name}-{width}-{'dark' if dark else 'light'}-{place.removesuffix('-title')}")
        assert overlapping_labels(browser) == 0


def test_nothing_is_asked_of_others_and_nothing_complains(browser: Browser) -> None:
    """After all the tests above."""
    time.sleep(0.2)
    urls = browser.requested()
    opened = [url for url in urls if url.startswith("file:")]
    assert opened and all(url.endswith("/data.html") for url in opened)
    assert [url for url in urls if not url.startswith(("file:", "data:", "chrome"))] == []
    assert browser.log("browser") == []
