"""The page of `nmt serve` in headless Chromium: `scripts/test_page.sh`."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.chromium import WIDTHS, Browser, contrast
from helpers.services import Gated, service, until

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.config.schema import VocabularyConfig
from nmt.data import vocabulary
from nmt.data.vocabulary import Vocabulary
from nmt.decoding.language_choice import LanguageChoice
from nmt.decoding.translator import Translation

TEXTS = {
    "A dog runs through the old red barn .": "Ein Hund rennt durch die alte rote Scheune .",
    "שלום לכולם היום": "مرحبا بالجميع اليوم",
    "今天 天气 很 好": "今日 は とても いい 天気 です",
}


class Scripted(Gated):
    """Says what the page is to show, with a straight alignment."""

    def hypotheses(self, lines: Any, n_best: int = 1, alignment: bool = False, **asked: Any) -> list[list[Translation]]:
        assert alignment
        if "fails" in lines:
            raise ValueError
        return [[self.say(line, rank) for rank in range(n_best)] if line else [self.say("", 0)] for line in lines]

    def say(self, line: str, rank: int) -> Translation:
        text = TEXTS.get(line, line.upper()) + " !" * rank
        if not line:
            return Translation("", 0.0, 0.0, [], [])
        rows, columns = [*text.split(), "</s>"], [*line.split(), "</s>"]
        shares = [[0.1 / len(columns) + 0.9 * (min(y, len(columns) - 1) == x) for x in range(len(columns))]
                  for y in range(len(rows))]  # fmt: skip
        score = -0.25 - rank
        return Translation(text, score, 2 * score, [f"▁{w}" for w in rows[:-1]] + rows[-1:], [0.0] * len(rows),
                       [f"▁{w}" for w in columns[:-1]] + columns[-1:], shares)  # fmt: skip


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with service(Scripted()) as (served, _):
        yield f"http://127.0.0.1:{served.port}/"


READY, TEXT = "#count option", "#source"
TRANSLATION, BEST, ROWS = "#translation button", "#best tbody button", "#heat tbody tr"


def test_typing_clicking_and_looking(browser: Browser, url: str) -> None:
    browser.open(url, READY)
    assert browser.js("return document.title") == "English to German"
    assert browser.js("return document.activeElement.id") == "source"
    browser.type(TEXT, "one two\n\nthree")
    until(lambda: browser.texts(TRANSLATION))
    assert browser.texts(TRANSLATION) == ["ONE TWO", "\u00a0", "THREE"]
    assert browser.texts("#best tbody tr") == ["-0.250ONE TWO", "-1.250ONE TWO !", "-2.250ONE TWO ! !"]
    assert browser.texts("#heat thead th") == ["▁one", "▁two", "</s>"]
    assert browser.texts("#heat tbody th") == ["▁ONE", "▁TWO", "</s>"]
    assert browser.texts(f"{ROWS}:first-child td") == ["93 %", "3 %", "3 %"]
    first_row = f"document.querySelectorAll('{ROWS}:first-child td')"
    colours = browser.js(f"return Array.from({first_row}, e => getComputedStyle(e).backgroundColor)")
    assert colours[0] != colours[1] == colours[2]
    browser.click("#best tbody tr:nth-child(2) button")
    assert browser.texts("#heat tbody th") == ["▁ONE", "▁TWO", "▁!", "</s>"]
    browser.click("#translation li:nth-child(3) button")
    assert browser.texts("#of-line") == ["three"]
    browser.click("#translation li:nth-child(2) button")
    assert browser.js("return document.getElementById('details').hidden && document.getElementById('attention').hidden")


def test_errors_are_shown(browser: Browser, url: str) -> None:
    browser.open(url, READY)
    for text, message in (("fails", "the translator failed"), ("a\n" * 300 + "b", "301 lines, more than 256")):
        browser.js(f"document.getElementById('source').value = {json.dumps(text)}")
        browser.click("#go")
        until(lambda message=message: message in browser.texts("#status")[0])
        assert browser.js("return document.getElementById('status').className") == "wrong"


@pytest.mark.parametrize(("width", "dark"), [("desktop", False), ("phone", True)])
def test_all_scripts_at_all_widths(browser: Browser, url: str, width: str, dark: bool) -> None:
    browser.open(url, READY, WIDTHS[width], dark)
    browser.type(TEXT, "\n".join(TEXTS))
    until(lambda: browser.texts(TRANSLATION))
    assert browser.texts(TRANSLATION) == list(TEXTS.values())
    directions = browser.js(
        f"return Array.from(document.querySelectorAll('{TRANSLATION}'), e => getComputedStyle(e).direction)"
    )
    assert directions == ["ltr", "rtl", "ltr"]
    for i in range(3):
        browser.click(f"#translation li:nth-child({i + 1}) button")
        assert browser.js("return document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
        browser.js("scrollTo(0, 0)")
        browser.shot(f"{width}-{'dark' if dark else 'light'}-{i}")
        browser.js("scrollTo(0, 10000)")
        browser.shot(f"{width}-{'dark' if dark else 'light'}-{i}-below")


def test_it_can_be_used_and_read_by_all(browser: Browser, url: str) -> None:
    """Every control has a name and is reached by the keyboard; text stands out from its ground (WCAG AA)."""
    for dark in (False, True):
        browser.open(url, READY, dark=dark)
        browser.type(TEXT, "one two")
        until(lambda: browser.texts(BEST))
        unnamed = browser.js(
            "return Array.from(document.querySelectorAll('button, select, textarea'))"
            ".filter(e => !(e.labels?.[0] || e).textContent.trim()).length"
        )
        assert unnamed == 0
        for selector in ("#status", "#of-line", "#go", TRANSLATION, "#best td", ".note", "#heat th"):
            assert contrast(browser, selector) >= 4.5, (selector, dark)


def test_nothing_is_asked_of_others_and_nothing_complains(browser: Browser, url: str) -> None:
    """After all the tests above."""
    time.sleep(0.2)
    # The first window of the browser asks for chrome: pages of its own.
    over_network = [asked for asked in browser.requested() if asked.startswith(("http", "ws"))]
    assert over_network and all(asked.startswith(url) for asked in over_network)
    complaints = [entry["message"] for entry in browser.log("browser")]
    assert [text for text in complaints if "status of 413" not in text and "status of 500" not in text] == []


def test_a_model_of_several_pairs_offers_them(browser: Browser) -> None:
    asked: list[tuple[str, str]] = []

    class Several(Scripted):
        def hypotheses(self, lines: Any, *given: Any, to: str, from_: str, **more: Any) -> list[list[Translation]]:
            asked.append((from_, to))
            return super().hypotheses(lines, *given, **more)

    translator = Several()
    pairs = LanguagePairs((LanguagePair("en", "de"), LanguagePair("de", "en"), LanguagePair("en", "fr")))
    tagged = vocabulary.learn(TEXTS, VocabularyConfig(size=300), ["<2de>", "<2en>", "<2fr>"])
    translator.languages = LanguageChoice(pairs, Vocabulary(tagged, tagged))
    with service(translator) as (served, _):
        browser.open(f"http://127.0.0.1:{served.port}/", READY)
        assert browser.texts("#pair option") == ["English to German", "English to French", "German to English"]
        browser.js(
            "document.getElementById('pair').selectedIndex = 1;"
            "document.getElementById('pair').dispatchEvent(new Event('change'))"
        )
        assert browser.js("return [document.title, document.getElementById('translation').lang]") == [
            "English to French",
            "fr",
        ]
        browser.type(TEXT, "one two")
        until(lambda: browser.texts(TRANSLATION))
        browser.shot("several-pairs")
        browser.js("location.href = 'about:blank'")
    assert asked == [("en", "fr")]
