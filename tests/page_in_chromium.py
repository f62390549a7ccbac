"""The page of `nmt serve` in headless Chromium: `scripts/test_page.sh`.

Apart from the other tests, as it needs Debian's packages chromium and chromium-driver. What it drives the browser
with is the WebDriver protocol, which is JSON over HTTP.
"""

import base64
import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from services import Gated, service, until

from nmt.decoding.translator import Translation

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-device-scale-factor=1",
]  # fmt: skip
SHOTS = os.environ.get("SCREENSHOTS")  # a folder to put screenshots in, to look at
WIDTHS = {"desktop": 1200, "phone": 390}

TEXTS = {
    "A dog runs through the old red barn .": "Ein Hund rennt durch die alte rote Scheune .",
    "שלום לכולם היום": "مرحبا بالجميع اليوم",
    "今天 天气 很 好": "今日 は とても いい 天気 です",
}


class Scripted(Gated):
    """Says what the page is to show, with a straight alignment."""

    def hypotheses(self, lines: Any, n_best: int = 1, alignment: bool = False) -> list[list[Translation]]:
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


class Browser:
    """One window of Chromium, by way of chromedriver."""

    def __init__(self, driver: str, profile: Path):
        self.url = f"{driver}/session"
        options = {"args": [*FLAGS, f"--user-data-dir={profile}"]}
        logging = {"browser": "ALL", "performance": "ALL"}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logging}
        session = self.call("", {"capabilities": {"alwaysMatch": wanted}})
        self.url += f"/{session['sessionId']}"

    def call(self, path: str, fields: dict[str, Any] | None = None, method: str = "POST") -> Any:
        body = json.dumps(fields or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, url: str, width: int = 1200, height: int = 1000, dark: bool = False) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.call("/url", {"url": url})
        until(lambda: self.js("return document.querySelectorAll('#count option').length"))

    def devtools(self, command: str, parameters: dict[str, Any]) -> None:
        self.call("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def js(self, script: str) -> Any:
        return self.call("/execute/sync", {"script": script, "args": []})

    def type(self, text: str) -> None:
        """Into the text's field, and Control and Enter."""
        (element,) = self.call("/element", {"using": "css selector", "value": "#source"}).values()
        self.call(f"/element/{element}/clear")
        self.call(f"/element/{element}/value", {"text": text})
        self.call(f"/element/{element}/value", {"text": "\ue009\ue007\ue000"})  # WebDriver's Control, Enter, release

    def click(self, selector: str) -> None:
        (element,) = self.call("/element", {"using": "css selector", "value": selector}).values()
        self.call(f"/element/{element}/click")

    def texts(self, selector: str) -> list[str]:
        script = f"return Array.from(document.querySelectorAll({json.dumps(selector)}), e => e.textContent)"
        found: list[str] = self.js(script)
        return found

    def log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("/se/log", {"type": kind})
        return found

    def shot(self, name: str) -> None:
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            Path(SHOTS, f"{name}.png").write_bytes(base64.b64decode(self.call("/screenshot", method="GET")))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL)

    def is_up() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            return False
        return True

    until(is_up)
    window = Browser(f"http://127.0.0.1:{port}", tmp_path_factory.mktemp("profile"))
    yield window
    window.call("", method="DELETE")
    driver.terminate()
    driver.wait()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with service(Scripted()) as (served, _):
        yield f"http://127.0.0.1:{served.port}/"


TRANSLATION, BEST, ROWS = "#translation button", "#best tbody button", "#heat tbody tr"


def test_typing_clicking_and_looking(browser: Browser, url: str) -> None:
    browser.open(url)
    assert browser.js("return document.title") == "English to German"
    assert browser.js("return document.activeElement.id") == "source"
    browser.type("one two\n\nthree")
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
    browser.open(url)
    for text, message in (("fails", "the translator failed"), ("a\n" * 300 + "b", "301 lines, more than 256")):
        browser.js(f"document.getElementById('source').value = {json.dumps(text)}")
        browser.click("#go")
        until(lambda message=message: message in browser.texts("#status")[0])
        assert browser.js("return document.getElementById('status').className") == "wrong"


def test_text_is_text(browser: Browser, url: str) -> None:
    """Whatever is typed: nothing of it becomes part of the page."""
    browser.open(url)
    browser.type("<b>x</b><img src=x>")
    until(lambda: browser.texts(TRANSLATION))
    assert browser.texts(TRANSLATION) == ["<B>X</B><IMG SRC=X>"]
    assert browser.js("return document.querySelectorAll('main b, main img').length") == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_all_scripts_at_all_widths(browser: Browser, url: str, width: str, dark: bool) -> None:
    browser.open(url, WIDTHS[width], 1000, dark)
    browser.type("\n".join(TEXTS))
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
        browser.open(url, dark=dark)
        browser.type("one two")
        until(lambda: browser.texts(BEST))
        unnamed = browser.js(
            "return Array.from(document.querySelectorAll('button, select, textarea'))"
            ".filter(e => !(e.labels?.[0] || e).textContent.trim()).length"
        )
        assert unnamed == 0
        for selector in ("#status", "#of-line", "#go", TRANSLATION, "#best td", ".note", "#heat th"):
            assert contrast(browser, selector) >= 4.5, (selector, dark)


def contrast(browser: Browser, selector: str) -> float:
    """Of an element's text with the nearest opaque ground behind it."""
    script = f"""
      let e = document.querySelector({json.dumps(selector)}); const ink = getComputedStyle(e).color;
      while (!/^rgb\\(/.test(getComputedStyle(e).backgroundColor)) e = e.parentElement;
      return [ink, getComputedStyle(e).backgroundColor]"""
    light = []
    for colour in browser.js(script):
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        light.append(sum(w * part for w, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) + 0.05)
    return max(light) / min(light)


def test_nothing_is_asked_of_others_and_nothing_complains(browser: Browser, url: str) -> None:
    """After all the tests above."""
    time.sleep(0.2)
    asked = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    urls = [of["params"]["request"]["url"] for of in asked if of["method"] == "Network.requestWillBeSent"]
    # The first window of the browser asks for chrome: pages of its own.
    over_network = [asked for asked in urls if asked.startswith(("http", "ws"))]
    assert over_network and all(asked.startswith(url) for asked in over_network)
    complaints = [entry["message"] for entry in browser.log("browser")]
    assert [text for text in complaints if "status of 413" not in text and "status of 500" not in text] == []
