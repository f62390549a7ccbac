"""The page of `nmt serve` in headless Chromium: `scripts/test_page.sh`."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.chromium import Browser, accessibility_faults, contrast
from helpers.services import CALIBRATION, Gated, service, until

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.config.schema import VocabularyConfig
from nmt.data.subwords import vocabulary
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.decoding.language_choice import LanguageChoice
from nmt.decoding.translator import Translation
from nmt.serve.requests import RequestLimits

TEXTS = {  # invented; translated into another script, from left to right or from right to left
    "The old clock in the kitchen has stopped again.": "Die alte Uhr in der Küche ist wieder stehen geblieben.",
    "توقفت الساعة القديمة في المطبخ مرة أخرى.": "השעון הישן במטבח נעצר שוב.",
    "השעון הישן במטבח נעצר שוב.": "توقفت الساعة القديمة في المطبخ مرة أخرى.",
    "厨房里的旧钟又停了。": "रसोई की पुरानी घड़ी फिर रुक गई है।",
    "रसोई की पुरानी घड़ी फिर रुक गई है।": "厨房里的旧钟又停了。",
}
LONG = (
    "When the first boats came back to the harbour that evening, the children ran down to the water to see "
    "what their parents had brought home this time."
)
CODE = "Donaudampfschifffahrtsgesellschaft/" * 4  # a word wider than a phone


class Scripted(Gated):
    """Gives the page something to show, with a straight alignment."""

    def hypotheses(self, lines: Any, n_best: int = 1, alignment: bool = False, **asked: Any) -> list[list[Translation]]:
        self.calls.append((list(lines), n_best))
        if "fails" in lines:
            raise ValueError
        return [[self.say(line, rank) for rank in range(n_best)] if line else [self.say("", 0)] for line in lines]

    def say(self, line: str, rank: int) -> Translation:
        if not line:
            return Translation("", 0.0, 0.0, [], [])
        if " | " in line:  # as a long line, in two parts
            one, two = (self.say(part, rank) for part in line.split(" | "))
            joined = {
                name: getattr(one, name) + getattr(two, name)
                for name in ("pieces", "token_scores", "source_pieces", "alignment")
            }
            return replace(one, text=f"{one.text} | {two.text}", **joined)
        text = TEXTS.get(line, line.upper()) + " !" * rank
        rows, columns = [*text.split(), "</s>"], [*line.split(), "</s>"]
        shares = [[0.1 / len(columns) + 0.9 * (min(y, len(columns) - 1) == x) for x in range(len(columns))]
                  for y in range(len(rows))]  # fmt: skip
        score = -0.25 - rank
        return Translation(text, score, 2 * score, [f"▁{w}" for w in rows[:-1]] + rows[-1:], [-0.5] * len(rows),
                           [f"▁{w}" for w in columns[:-1]] + columns[-1:], shares)  # fmt: skip


@pytest.fixture(scope="module")
def translator() -> Scripted:
    return Scripted()


@pytest.fixture(scope="module")
def url(translator: Scripted) -> Iterator[str]:
    with service(translator, RequestLimits(lines=40, characters=2000)) as (served, _):
        yield f"http://127.0.0.1:{served.port}/"


READY, TEXT, LINES = "#to option", "#source", "#translation p"
ENTER, TAB = "\ue007", "\ue004"


def texts(browser: Browser, selector: str) -> list[str]:
    """Of the elements that are shown."""
    script = f"Array.from(document.querySelectorAll({json.dumps(selector)})).filter(e => e.checkVisibility())"
    found: list[str] = browser.js(f"return {script}.map(e => e.textContent)")
    return found


def translated(browser: Browser, text: str) -> list[str]:
    """Type, wait, and read the lines of the translation."""
    browser.type(TEXT, text)
    expected = [TEXTS.get(line, line.upper()) for line in text.split("\n")]
    until(lambda: browser.texts(LINES) == expected)
    return expected


def test_a_text_is_translated_while_it_is_typed(browser: Browser, url: str) -> None:
    browser.open(url, READY)
    assert browser.js("return [document.title, document.activeElement.id]") == ["English to German", "source"]
    translated(browser, "one two\n\nthree")
    assert texts(browser, "#status")[0].startswith("Translated in ")
    assert texts(browser, "#count") == ["12 / 2,000 characters"]
    # Text as all text: selected by the keys for it, and copied, with its blank line.
    browser.js("getSelection().selectAllChildren(document.getElementById('translation'))")
    assert browser.js("return String(getSelection()).replace(/\\n+/, '|')") == "ONE TWO|THREE"
    browser.devtools("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    browser.click("#copy")
    until(lambda: texts(browser, "#copied") == ["Copied"])
    assert browser.js_later("return navigator.clipboard.readText()") == "ONE TWO\n\nTHREE"
    browser.click("#clear")
    assert (browser.texts(LINES), texts(browser, "#details")) == ([], [])
    assert browser.js("return document.activeElement.id") == "source"


def test_only_the_newest_text_is_answered(browser: Browser, url: str) -> None:
    """The answer to an earlier text is dropped, also where it comes last, and its request is aborted."""
    browser.open(url, READY)
    browser.js(
        "const real = fetch; window.asked = []; window.fetch = async (path, {signal, ...options}) => {"
        "  const [text] = JSON.parse(options.body).text; asked.push({text, signal});"
        "  await new Promise(resolve => setTimeout(resolve, text === 'first' ? 1500 : 0));"
        "  return real(path, options);"  # without the signal: as where the answer is already on its way
        "}"
    )
    for letter in "first":
        browser.press(letter)
    until(lambda: browser.js("return asked.length"))
    browser.type(TEXT, "second")
    until(lambda: browser.texts(LINES) == ["SECOND"])
    time.sleep(1.6)
    assert browser.texts(LINES) == ["SECOND"]
    requests = browser.js("return asked.map(({text, signal}) => [text, signal.aborted])")
    assert requests == [["first", True], ["second", False]], "one for each pause in typing"


def test_details_of_a_line(browser: Browser, url: str) -> None:
    browser.open(url, READY)
    translated(browser, "one two\n\nthree")
    browser.click(f"{LINES}:nth-child(3)")
    until(lambda: texts(browser, "#best tbody tr"))
    assert texts(browser, "#best tbody tr") == ["-0.25THREE", "-1.25THREE !", "-2.25THREE ! !"]
    assert browser.texts("#line option") == ["1: ONE TWO", "2: ", "3: THREE"]
    browser.js(
        "document.getElementById('line').value = 0; document.getElementById('line').dispatchEvent(new Event('change'))"
    )
    until(lambda: texts(browser, "#subwords thead th") == ["▁one", "▁two", "</s>"])
    assert texts(browser, "#subwords tbody th") == ["▁ONE", "▁TWO", "</s>"]
    first = "#subwords tbody tr:first-child"
    assert texts(browser, f"{first} td") == ["61 %", "93 %", "3 %", "3 %"]
    colours = browser.js(
        f"return Array.from(document.querySelectorAll('{first} .cell'), e => getComputedStyle(e).backgroundColor)"
    )
    assert colours[0] != colours[1] == colours[2]
    browser.click("#best tbody tr:nth-child(2) input")
    assert texts(browser, "#subwords tbody th") == ["▁ONE", "▁TWO", "▁!", "</s>"]
    translated(browser, "four | five")  # they follow the text
    until(lambda: texts(browser, "#subwords thead th") == ["▁four", "</s>", "▁five", "</s>"])
    assert texts(browser, "#subwords tbody tr:nth-child(3) .cell") == ["0 %", "0 %", "95 %", "5 %"]
    browser.click("summary")
    until(lambda: texts(browser, "#best tbody tr") == [])


def test_terms_are_marked(browser: Browser, url: str) -> None:
    """As text alone, in whole words where there are words, and in each direction."""
    terms = [
        ("<b>doc", "Arzt", "placed"), ("ship (2)", "<i>a$&b", "placed"), ("lamp", "灯", "own"),
        ("clock", "שעון", "placed"), ("train", "Zug", "failed"),
    ]  # fmt: skip
    lines = ["Arztkittel: arzt, Zug, <i>A$&b ARZT", "台灯", "השעון שעון"]
    used = [{"source": source, "target": target, "how": how, "found_as": source} for source, target, how in terms]
    translations = [[{"text": line, "terms": used}] for line in lines]
    browser.open(url, READY)
    answer(browser, 200, json.dumps({"translations": translations, "warning": "1 of 5 glossary terms …"}))
    browser.type(TEXT, "one\ntwo\nthree")
    until(lambda: browser.texts(LINES) == lines)
    assert browser.texts("mark") == ["arzt", "<i>A$&b", "ARZT", "灯", "שעון", "שעון"]
    assert (
        browser.js("return document.querySelector('mark').title")
        == "\u2068<b>doc\u2069 → \u2068Arzt\u2069: replaces the model’s own word"
    )
    assert browser.js("return document.querySelectorAll('#translation :not(p, mark)').length") == 0
    directions = browser.js(
        f"return Array.from(document.querySelectorAll('{LINES}'), e => getComputedStyle(e).direction)"
    )
    assert directions == ["ltr", "ltr", "rtl"]
    underline = browser.js("return getComputedStyle(document.querySelector('mark')).textDecorationStyle")
    assert underline == "dotted" and accessibility_faults(browser) == []
    assert contrast(browser, "mark") >= 4.5
    browser.shot("serve-terms")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (320, True)])
def test_lines_with_a_low_confidence_are_marked(browser: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    """With a shape and the number, which are no part of the text: not of its direction, nor of what is copied."""

    class Rated(Scripted):
        def say(self, line: str, rank: int) -> Translation:
            confidence = {"good": CALIBRATION.low, "": None}.get(line, 29.0 - 9 * rank)
            return replace(super().say(line, rank), confidence=confidence)

    translator = Rated()
    translator.calibration = CALIBRATION
    lines = ["good", "", "one two", list(TEXTS)[1], LONG, CODE]
    with service(translator) as (served, _):
        browser.open(f"http://127.0.0.1:{served.port}/", READY, width, dark)
        browser.type(TEXT, "\n".join(lines))
        until(lambda: "".join(texts(browser, "#status")).endswith(". 4 of 6 lines: low confidence (▼)"))
        marks = f"{LINES} .low"
        assert browser.texts(f"{LINES}:has(.low)") == [
            f"▼ Low confidence: 29{TEXTS.get(line, line.upper())}" for line in lines[2:]
        ]
        ends = browser.js(
            f"return Array.from(document.querySelectorAll('{marks}'), mark => {{"
            "  const line = mark.parentElement, [a, b] = [mark, line].map(e => e.getBoundingClientRect());"
            "  return [getComputedStyle(line).direction, a.left - b.left < b.right - a.right] })"
        )
        assert ends == [["ltr", False], ["rtl", True], ["ltr", False], ["ltr", False]]
        assert browser.js("return document.documentElement.scrollWidth <= innerWidth")
        assert contrast(browser, marks) >= 4.5
        plain = "\n".join(TEXTS.get(line, line.upper()) for line in lines)
        browser.js("getSelection().selectAllChildren(document.getElementById('translation'))")
        assert "29" not in browser.js("return String(getSelection())")
        browser.devtools("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
        for given in ("", "navigator.clipboard.writeText = async () => { throw new Error() };"):
            browser.js(given)
            browser.click("#copy")
            until(lambda: texts(browser, "#copied") == ["Copied"])
            copied = browser.js_later("return navigator.clipboard.readText()").replace("\r\n", "\n")
            assert copied == plain if not given else copied.split() == plain.split()
            browser.js("document.getElementById('copied').textContent = ''")
        browser.js("getSelection().removeAllRanges()")
        browser.click(f"{LINES}:nth-child(3)")
        until(lambda: texts(browser, "#best tbody tr"))
        assert texts(browser, "#best thead th") == ["Score", "Confidence", "Translation"]
        assert texts(browser, "#best tbody tr") == ["-0.2529.0ONE TWO", "-1.2520.0ONE TWO !", "-2.2511.0ONE TWO ! !"]
        assert accessibility_faults(browser) == []
        browser.shot(f"serve-confidence-{width}-{'dark' if dark else 'light'}")
        (tmp_path / "a.txt").write_text("one\ngood")
        browser.devtools("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path / "saved")})
        browser.call(f"{browser.element('#file')}/value", {"text": str(tmp_path / "a.txt")})
        until(lambda: texts(browser, "#result"))
        browser.click("#result")
        until((tmp_path / "saved" / "a.de.txt").exists)
        assert (tmp_path / "saved" / "a.de.txt").read_text() == "ONE\nGOOD"
        browser.js("location.href = 'about:blank'")


def answer(browser: Browser, status: int, body: str, wait: int = 0) -> None:
    """Let the next requests be answered so, in place of the service."""
    headers = {"Retry-After": str(wait)} if wait else {}
    given = f"{json.dumps(body)}, {json.dumps({'status': status, 'headers': headers})}"
    browser.js(f"window.fetch = async () => new Response({given})")


def test_errors_say_what_to_do_and_take_the_old_translation_away(browser: Browser, url: str) -> None:
    def after(text: str) -> str:
        value = f"field.value = {json.dumps(text)}; field.dispatchEvent(new Event('input'))"
        browser.js(f"const field = document.querySelector('{TEXT}'); {value}")  # typing 2,000 letters would take long
        until(lambda: browser.js("return document.querySelector('#status').className") == "wrong")
        assert (browser.texts(LINES), texts(browser, "#details")) == ([], [])
        assert texts(browser, "#again") == ["Try again"]
        return texts(browser, "#status")[0]

    for text, message in (
        ("fails", "the translator failed: see the log of the service."),
        ("x " * 1001, "2,002 characters, more than 2,000 at once: shorten the text"),
        ("a\n" * 40, "41 lines, more than 40 at once: shorten the text"),
    ):
        browser.open(url, READY)
        translated(browser, "before")
        assert after(text).startswith(message)
    for status, body, message in (
        (429, '{"error": "busy"}', "The server is busy. Try again in 3 seconds."),
        (503, "<html>", "The server is not available at the moment. Try again in a minute."),
    ):
        browser.open(url, READY)
        translated(browser, "before")
        answer(browser, status, body, 3)
        assert after("one") == message
    browser.open(url, READY)
    browser.js("window.fetch = async () => { throw new TypeError() }")
    assert after("two").startswith("The server does not answer. Check that it is running")


def test_a_file_comes_back_as_a_file(browser: Browser, url: str, tmp_path: Path, translator: Scripted) -> None:
    browser.open(url, READY)
    translator.calls.clear()
    lines = [f"line {number}" if number % 7 else "" for number in range(100)]
    lines[50] = "a long line of 1,990 characters ".ljust(1990, "-")
    (tmp_path / "notes.v2.txt").write_bytes("\r\n".join(lines).encode())
    browser.devtools("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path / "saved")})
    browser.call(f"{browser.element('#file')}/value", {"text": str(tmp_path / "notes.v2.txt")})
    until(lambda: texts(browser, "#result"))
    assert [len(asked) for asked, _ in translator.calls] == [40, 10, 2, 40, 8]
    assert (texts(browser, "#result"), texts(browser, "#cancel")) == (["Save notes.v2.de.txt"], [])
    browser.click("#result")
    saved = tmp_path / "saved" / "notes.v2.de.txt"
    until(saved.exists)
    assert saved.read_bytes().decode().split("\r\n") == [line.upper() for line in lines]
    # Dropped; and not text.
    drop = (
        "const moved = new DataTransfer(); moved.items.add(new File([%s], 'a'));"
        "document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: moved, bubbles: true, cancelable: true}))"
    )
    browser.js(drop % "'einzeln'")
    until(lambda: texts(browser, "#result") == ["Save a.de"])
    browser.js(drop % "new Uint8Array([255, 0, 1])")
    until(lambda: "not text in UTF-8" in texts(browser, "#file-status")[0])
    assert texts(browser, "#result") == []


def test_a_document_comes_back_as_a_document(browser: Browser, url: str, tmp_path: Path) -> None:
    browser.open(url, READY, 320)
    name = f"{'Bedienungsanleitung' * 5}.json"  # wider than a phone
    (tmp_path / name).write_text('{"greeting": "one two", "count": 3}')
    browser.devtools("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path / "saved")})
    browser.call(f"{browser.element('#file')}/value", {"text": str(tmp_path / name)})
    until(lambda: texts(browser, "#result") == [f"Save {name.replace('.json', '.de.json')}"])
    assert accessibility_faults(browser) == []
    assert browser.js("return document.documentElement.scrollWidth <= innerWidth")
    browser.click("#result")
    saved = tmp_path / "saved" / name.replace(".json", ".de.json")
    until(saved.exists)
    assert json.loads(saved.read_text()) == {"greeting": "ONE TWO", "count": 3}
    (tmp_path / "wrong.json").write_text("[")
    browser.open(url, READY)
    browser.call(f"{browser.element('#file')}/value", {"text": str(tmp_path / "wrong.json")})
    until(lambda: "".join(texts(browser, "#file-status")).startswith("wrong.json: not JSON: "))
    assert texts(browser, "#result") == []


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (768, True), (320, False), (320, True)])
def test_all_scripts_at_all_widths(browser: Browser, url: str, width: int, dark: bool) -> None:
    browser.open(url, READY, width, dark)
    lines = translated(browser, "\n".join([*TEXTS, LONG, CODE]))
    directions = browser.js(
        f"return Array.from(document.querySelectorAll('{LINES}'), e => getComputedStyle(e).direction)"
    )
    assert directions == ["ltr", "rtl", "rtl", "ltr", "ltr", "ltr", "ltr"]
    for number in range(len(lines)):
        browser.js(f"document.querySelector('{LINES}:nth-child({number + 1})').click()")
        until(lambda number=number: lines[number] in "".join(texts(browser, "#best tbody tr:first-child")))
        wide = browser.js(
            "return Array.from(document.querySelectorAll('body *')).filter(e => !e.closest('.scroll')"
            " && e.getBoundingClientRect().right > innerWidth).map(e => e.outerHTML.slice(0, 80))"
        )
        assert wide == [] and browser.js("return document.documentElement.scrollWidth <= innerWidth")
    assert accessibility_faults(browser) == []
    for selector in ("#status", "#count", LINES, "#best td", ".faint", "#subwords th", "#languages label", "#copy"):
        assert contrast(browser, selector) >= 4.5, selector
    browser.js("scrollTo(0, 0)")
    browser.shot(f"serve-{width}-{'dark' if dark else 'light'}")


def test_all_of_it_with_the_keyboard(browser: Browser, url: str) -> None:
    """Tab reaches each control that is shown, in the order in which they are read, and the details open by a key."""
    browser.open(url, READY)
    translated(browser, "one\ntwo")
    reached = []
    for _ in range(4):
        browser.press(TAB)
        reached.append(browser.js("return document.activeElement.id || document.activeElement.localName"))
    assert reached == ["clear", "file", "copy", "summary"]
    browser.press(ENTER)
    until(lambda: texts(browser, "#best tbody tr"))
    assert accessibility_faults(browser) == []


def test_nothing_is_asked_of_others_and_nothing_complains(browser: Browser, url: str) -> None:
    """After all the tests above."""
    time.sleep(0.2)
    # The first window of the browser asks for chrome: pages of its own.
    over_network = [asked for asked in browser.requested() if asked.startswith(("http", "ws"))]
    assert over_network and all(asked.startswith("http://127.0.0.1:") for asked in over_network)
    complaints = [entry["message"] for entry in browser.log("browser")]
    expected = ("status of 500", "/translate_file - Failed to load resource: the server resp")
    assert [text for text in complaints if not any(each in text for each in expected)] == []


def test_a_model_of_several_pairs_offers_them(browser: Browser) -> None:
    asked: list[tuple[str, str]] = []

    class Several(Scripted):
        def hypotheses(self, lines: Any, *given: Any, to: str, from_: str, **more: Any) -> list[list[Translation]]:
            asked.append((from_, to))
            return super().hypotheses(lines, *given, **more)

    def choose(select: str, code: str) -> None:
        browser.js(
            f"const e = document.getElementById('{select}'); e.value = '{code}'; e.dispatchEvent(new Event('change'))"
        )

    translator = Several()
    pairs = LanguagePairs((LanguagePair("en", "de"), LanguagePair("de", "en"), LanguagePair("en", "ar")))
    tagged = vocabulary.learn(TEXTS, VocabularyConfig(size=400), ["<2de>", "<2en>", "<2ar>"])
    translator.languages = LanguageChoice(pairs, Vocabulary(tagged, tagged))
    with service(translator) as (served, _):
        browser.open(f"http://127.0.0.1:{served.port}/", READY)
        assert (browser.texts("#from option"), browser.texts("#to option")) == (
            ["English", "German"],
            ["Arabic", "German"],
        )
        choose("to", "ar")
        assert browser.js("return [document.title, document.getElementById('translation').lang]") == [
            "English to Arabic",
            "ar",
        ]
        assert texts(browser, "#swap") == []  # there is no pair from Arabic
        translated(browser, "one two")
        choose("to", "de")
        until(lambda: asked[-1] == ("en", "de"))
        until(lambda: not browser.js("return document.getElementById('translation').ariaBusy === 'true'"))
        browser.shot("serve-several-pairs")
        browser.click("#swap")
        until(lambda: asked[-1] == ("de", "en"))
        assert browser.js(
            "return [document.getElementById('source').value, document.getElementById('source').lang]"
        ) == ["ONE TWO", "de"]
        assert browser.texts("#to option") == ["English"]
        browser.js("location.href = 'about:blank'")
    assert asked[0] == ("en", "ar")
