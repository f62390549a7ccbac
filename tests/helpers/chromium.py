"""Headless Chromium, driven by the WebDriver protocol, which is JSON over HTTP.

Tests that use it are apart from the others, as it needs Debian's packages chromium and chromium-driver.
"""

import base64
import json
import os
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helpers.services import until

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-device-scale-factor=1",
]  # fmt: skip
SHOTS = os.environ.get("SCREENSHOTS")  # a folder to put screenshots in, to look at
WIDTHS = {"desktop": 1200, "phone": 390}


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

    def open(self, url: str, ready: str, width: int = 1200, dark: bool = False) -> None:
        """Show a page, until it has what the selector `ready` finds."""
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.call("/url", {"url": url})
        until(lambda: self.texts(ready))

    def devtools(self, command: str, parameters: dict[str, Any]) -> None:
        self.call("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def js(self, script: str) -> Any:
        return self.call("/execute/sync", {"script": script, "args": []})

    def js_later(self, script: str) -> Any:
        """What the promise that a script returns comes to."""
        script = f"const done = arguments[0]; (async () => {{ {script} }})().then(done, error => done(String(error)))"
        return self.call("/execute/async", {"script": script, "args": []})

    def type(self, selector: str, text: str) -> None:
        """Into a field, in place of what it has; or the path of a file, where files are chosen."""
        self.call(f"{self.element(selector)}/clear")
        self.call(f"{self.element(selector)}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Keys in the element with the focus, held down together."""
        down, up = ([{"type": kind, "value": key} for key in keys] for kind in ("keyDown", "keyUp"))
        self.call("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": down + up[::-1]}]})

    def click(self, selector: str) -> None:
        self.call(f"{self.element(selector)}/click")

    def element(self, selector: str) -> str:
        (element,) = self.call("/element", {"using": "css selector", "value": selector}).values()
        return f"/element/{element}"

    def texts(self, selector: str) -> list[str]:
        script = f"return Array.from(document.querySelectorAll({json.dumps(selector)}), e => e.textContent)"
        found: list[str] = self.js(script)
        return found

    def log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("/se/log", {"type": kind})
        return found

    def requested(self) -> list[str]:
        """The addresses that have been asked for since the last time that this was called."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [of["params"]["request"]["url"] for of in events if of["method"] == "Network.requestWillBeSent"]

    def shot(self, name: str) -> None:
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            Path(SHOTS, f"{name}.png").write_bytes(base64.b64decode(self.call("/screenshot", method="GET")))


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    """A window, with a new folder for what Chromium keeps."""
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
    window = Browser(f"http://127.0.0.1:{port}", profile)
    yield window
    window.call("", method="DELETE")
    driver.terminate()
    driver.wait()


def accessibility_faults(browser: Browser) -> list[str]:
    """What axe-core finds, moderate or worse: the rule, and the elements. AXE names its file."""
    browser.js(Path(os.environ["AXE"]).read_text(encoding="utf-8"))
    found: list[str] = browser.js_later(
        """const names = {"label-content-name-mismatch": {enabled: true}};  // off by default
        const {violations} = await axe.run(document, {rules: names});
        return violations.filter(({impact}) => impact !== "minor")
          .map(({id, nodes}) => `${id}: ${nodes.map(({target}) => target.join(" ")).join(", ")}`)"""
    )
    return found


def assert_usable_and_alone(browser: Browser) -> None:
    """The open file fits the window's width, hinders nobody, asks nothing of others and has no errors."""
    assert browser.js("return document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    assert (faults := accessibility_faults(browser)) == [], faults
    # The first window of the browser asks for chrome: pages of its own, with data: in them.
    assert [url for url in browser.requested() if not url.startswith(("file:", "chrome", "data:"))] == []
    assert (said := browser.log("browser")) == [], said


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


def overlapping_labels(browser: Browser) -> int:
    """How many labels of the charts on the page overlap another of the same chart."""
    return int(
        browser.js(
            """return Array.from(document.querySelectorAll('.chart')).flatMap(chart => {
              const boxes = Array.from(chart.querySelectorAll('text'), e => e.getBoundingClientRect());
              const apart = (a, b) =>
                a.right <= b.left || b.right <= a.left || a.bottom - 2 <= b.top || b.bottom - 2 <= a.top;
              return boxes.filter((a, i) => boxes.some((b, j) => i < j && !apart(a, b)));
            }).length"""
        )
    )
