#!/usr/bin/env python3
"""Draws all pictures of the documentation again, in docs/pictures.

    scripts/quickstart.sh                                     # the run that the pictures show: runs/demo
    PYTHONPATH=tests python scripts/draw_pictures.py          # all of them, in a minute or two
    PYTHONPATH=tests python scripts/draw_pictures.py report.png

Each picture is a part of a page that nmt writes, in headless Chromium (Debian: apt-get install chromium
chromium-driver). All sentences are of the demo corpus or of the project's tests. Curves of other runs come from
docs/results. If pngquant is installed, the files become a third as large.
"""

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from helpers.chromium import Browser, started
from helpers.services import until

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
RESULTS = ROOT / "docs" / "results"
MODEL = "averaged.safetensors"  # in the run folder; scripts/quickstart.sh writes it

TO_INSPECT = "Yesterday evening, Anna called the famous doctor."
TO_TRANSLATE = """\
Yesterday evening, the doctor called my old teacher.

Will she depart tomorrow?
At half past seven, Thomas must get up.
Peter waits in the garden while the child sleeps."""
CRAWLED = """\
run_dir: runs/crawled
data:
  source_language: en
  target_language: de
  train: [{source: crawled.en, target: crawled.de}]
  clean: {}
vocabulary: {size: 2000}
"""
# BLEU of the models of configs/grids/lengths.yaml by the number of words of the source.
LENGTHS = ("0–9", "10–19", "20–29", "30–39", "40–49", "50–59", "60+")
BLEU_BY_LENGTH = {
    "without attention": (7.1, 5.5, 1.9, 1.2, 0.4, 0.2, 0.1),
    "with attention": (95.2, 95.8, 96.6, 96.5, 95.5, 95.3, 94.8),
    "Transformer": (98.5, 99.5, 99.7, 99.6, 99.4, 98.9, 98.3),
}


class Studio:
    """What a drawing needs: a browser, a folder to work in with a copy of the run, and where pictures go."""

    def __init__(self, browser: Browser, folder: Path, output: Path):
        self.browser, self.folder, self.output = browser, folder, output

    def nmt(self, *arguments: object) -> str:
        """What the command prints. It runs in the working folder, so that pages show short paths."""
        command = [sys.executable, "-m", "nmt", *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True).stdout

    def show(self, url: str, ready: str, width: int = 1000, dark: bool = False) -> None:
        """Open a page of nmt, or a file of the working folder, without scroll bars."""
        self.browser.open(url if "://" in url else (self.folder / url).as_uri(), ready, width, dark)
        self.browser.devtools("Emulation.setScrollbarsHidden", {"hidden": True})

    def shoot(self, name: str, selector: str, scale: float = 1.5, margin: int = 12) -> None:
        """Write a picture of the smallest rectangle that holds all shown elements of the selector, and a margin."""
        left, top, right, bottom = self.browser.js(
            f"const boxes = Array.from(document.querySelectorAll({json.dumps(selector)}))"
            "  .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect());"
            "return [Math.min(...boxes.map(b => b.left)), Math.min(...boxes.map(b => b.top)) + scrollY,"
            "  Math.max(...boxes.map(b => b.right)), Math.max(...boxes.map(b => b.bottom)) + scrollY]"
        )
        clip = {
            "x": max(left - margin, 0), "y": max(top - margin, 0), "scale": scale,
            "width": right - left + 2 * margin, "height": bottom - top + 2 * margin,
        }  # fmt: skip
        request = {"cmd": "Page.captureScreenshot", "params": {"clip": clip, "captureBeyondViewport": True}}
        answer = self.browser.call("/goog/cdp/execute", request)
        self.write(name, _smaller(base64.b64decode(answer["data"])))

    def write(self, name: str, content: bytes) -> None:
        self.output.mkdir(parents=True, exist_ok=True)
        (self.output / name).write_bytes(content)
        print(f"{self.output / name}: {len(content):,} bytes", flush=True)


def _smaller(png: bytes) -> bytes:
    """The picture with a palette, where pngquant is installed."""
    if not shutil.which("pngquant"):
        return png
    return subprocess.run(
        ["pngquant", "--strip", "--speed", "1", "64", "-"], input=png, stdout=subprocess.PIPE, check=True
    ).stdout


def draw_service(studio: Studio) -> None:
    """The page of `nmt serve`, wide and narrow, in light and dark; and a short picture of it for the README."""
    with _service(studio) as url:
        for width in (1280, 768, 320):
            for dark in (False, True):
                _translate(studio, url, width, dark, details=width == 1280)
                shown = "h1, form, #details" if width == 1280 else "h1, form"
                studio.shoot(f"serve-{width}-{'dark' if dark else 'light'}.png", shown, scale=1.25)
        _translate(studio, url, 1000, dark=False, details=True)
        studio.browser.js("for (const e of document.querySelectorAll('#best ~ *')) e.hidden = true")
        studio.shoot("translate.png", "h1, form, #details")


def _translate(studio: Studio, url: str, width: int, dark: bool, details: bool) -> None:
    """Type the text, and wait for its translation and, with details, for those of its first line."""
    studio.show(url, "#to option", width, dark)
    studio.browser.type("#source", TO_TRANSLATE)
    until(lambda: len(studio.browser.texts("#translation p")) == len(TO_TRANSLATE.split("\n")))
    until(lambda: "".join(studio.browser.texts("#status")).startswith("Translated in"))
    if details:
        studio.browser.click("#translation p:first-child")
        until(lambda: studio.browser.texts("#subwords tbody tr"))
    studio.browser.js("document.activeElement.blur(); scrollTo(0, 0)")


@contextmanager
def _service(studio: Studio) -> Iterator[str]:
    """The address of `nmt serve` with the model of the run."""
    command = [sys.executable, "-m", "nmt", "serve", "model.safetensors", "--port", "0"]
    process = subprocess.Popen(command, cwd=studio.folder, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        for line in process.stderr:
            if found := re.search(r"listening on (\S+)", line):
                yield found[1]
                break
        else:
            sys.exit("draw_pictures: nmt serve ended before it listened")
    finally:
        process.terminate()
        process.wait()


def draw_inspection(studio: Studio) -> None:
    """The page of `nmt inspect`: what the last word of the translation attends to; the alignment and the beam."""
    studio.nmt("inspect", "model.safetensors", TO_INSPECT, "--output", "inside")
    studio.show("inside/index.html", "#lines path")
    for select, value in (("kind", "cross"), ("layer", "1")):
        element = f"document.getElementById('{select}')"
        studio.browser.js(f"{element}.value = '{value}'; {element}.dispatchEvent(new Event('change'))")
    word = len(studio.browser.texts("#from li")) - 2  # before the end of the sentence
    studio.browser.click(f"#from li:nth-child({word}) button")
    studio.browser.js("document.activeElement.blur()")
    studio.shoot("inspect-page.png", "h1, [aria-label^=The], #attention .row, #viewer, #every")
    studio.shoot("inspect-beam.png", "#aligned, section[aria-labelledby=beam-title]", scale=1.25)


def draw_data(studio: Studio) -> None:
    """The page of `nmt prepare --report`, of the demo corpus with a fault in every third pair."""
    faults = [sys.executable, "-m", "helpers.cleaning_faults", "--pairs", "12000", "--write", str(studio.folder)]
    subprocess.run(faults, check=True)
    for name, language in (("source", "en"), ("target", "de")):
        (studio.folder / name).rename(studio.folder / f"crawled.{language}")
    (studio.folder / "crawled.yaml").write_text(CRAWLED)
    studio.nmt("prepare", "crawled.yaml", "--report", "data.html")
    studio.show("data.html", "#corpora summary")
    studio.browser.js(  # three examples of one rule
        """const rule = Array.from(document.querySelectorAll('#corpora details details'))
             .find(e => e.querySelector('summary').textContent.includes('wrong language'));
           rule.open = true;
           rule.querySelectorAll('li:nth-child(n+4)').forEach(example => example.remove())"""
    )
    studio.shoot("prepare-report.png", "#corpora", scale=1.25)


def draw_report(studio: Studio) -> None:
    """The page of `nmt report` for the run, as a whole."""
    scores = studio.nmt(
        "evaluate", "model.safetensors", "--format", "json", "--source", "test.en", "--reference", "test.de"
    )
    (studio.folder / "runs" / "demo" / "evaluation-test.json").write_text(scores)
    studio.nmt("report", "runs/demo")
    studio.show("report.html", "#settings tr")
    studio.shoot("report.png", "h1, section", scale=1.25)


def draw_curves(studio: Studio) -> None:
    """Learning curves of runs whose records are in docs/results: three seeds, and two ways of fine-tuning."""
    for name, runs, kept in (
        (
            "multi30k-curves.png",
            [RESULTS / "multi30k" / f"seed{seed}" for seed in (1, 2, 3)],
            ("Loss", "BLEU", "chrF", "Learning rate"),
        ),
        (
            "fine-tuning.png",
            [RESULTS / "fine-tuning" / run for run in ("demo-only", "mixed")],
            ("BLEU, captions", "BLEU, demo"),
        ),
    ):
        studio.nmt("report", *runs)
        studio.show("report.html", "#charts figure")
        studio.browser.js(
            f"""const kept = {json.dumps(kept)};
            for (const figure of document.querySelectorAll('#charts figure'))
              figure.hidden = !kept.some(title => figure.querySelector('figcaption').textContent.startsWith(title));
            const legend = document.getElementById('legend'), charts = document.getElementById('charts');
            legend.style = 'position: static; background: none; margin: 0; padding: 0 0 .5rem';
            charts.before(legend)"""
        )
        studio.shoot(name, "#legend, #charts", margin=8)


def draw_lengths(studio: Studio) -> None:
    """BLEU by the length of the source, as in Figure 2 of Bahdanau et al. 2015."""
    left, right, top, bottom = 56, 500, 16, 312
    xs = [left + (right - left) * (i + 0.5) / len(LENGTHS) for i in range(len(LENGTHS))]
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" font-family="sans-serif" font-size="12">'
        '<title>BLEU by the number of words of the source</title><rect width="640" height="360" fill="white"/>'
        f'<text x="{(left + right) / 2}" y="350" text-anchor="middle">words of the source</text>'
        '<text x="16" y="180" transform="rotate(-90 16 180)">BLEU</text>'
    ]
    for bleu in range(0, 101, 20):
        y = bottom - (bottom - top) * bleu / 100
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{bleu}</text>')
    parts += [
        f'<text x="{x:.1f}" y="330" text-anchor="middle">{text}</text>' for x, text in zip(xs, LENGTHS, strict=True)
    ]
    styles = (("#4477aa", ""), ("#ee6677", "7 4"), ("#228833", "2 3"))  # told apart by people who are colour-blind
    for i, ((name, scores), (colour, dashes)) in enumerate(zip(BLEU_BY_LENGTH.items(), styles, strict=True)):
        style = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}" fill="none"'
        points = [(x, bottom - (bottom - top) * bleu / 100) for x, bleu in zip(xs, scores, strict=True)]
        parts.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" {style}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        parts.append(f'<line x1="512" x2="538" y1="{28 + 22 * i}" y2="{28 + 22 * i}" {style}/>')
        parts.append(f'<text x="544" y="{32 + 22 * i}">{name}</text>')
    studio.write("lengths.svg", "\n".join([*parts, "</svg>\n"]).encode())


class Drawing(NamedTuple):
    draw: Callable[[Studio], None]
    pictures: list[str]


SERVICE = [f"serve-{width}-{light}.png" for width in (1280, 768, 320) for light in ("light", "dark")]
DRAWINGS = (
    Drawing(draw_service, [*SERVICE, "translate.png"]),
    Drawing(draw_inspection, ["inspect-page.png", "inspect-beam.png"]),
    Drawing(draw_data, ["prepare-report.png"]),
    Drawing(draw_report, ["report.png"]),
    Drawing(draw_curves, ["multi30k-curves.png", "fine-tuning.png"]),
    Drawing(draw_lengths, ["lengths.svg"]),
)


def main() -> int:
    names = [name for drawing in DRAWINGS for name in drawing.pictures]
    parser = argparse.ArgumentParser(description="Draw the pictures of the documentation again.")
    parser.add_argument("pictures", nargs="*", metavar="PICTURE", help=f"default: all of {', '.join(names)}")
    parser.add_argument("--run", type=Path, default=ROOT / "runs" / "demo", help="run folder of scripts/quickstart.sh")
    parser.add_argument("--corpus", type=Path, default=ROOT / "data" / "demo", help="its corpus")
    parser.add_argument("--output", type=Path, default=PICTURES, help="folder for the pictures")
    given = parser.parse_args()
    if unknown := set(given.pictures) - set(names):
        parser.error(f"no such picture: {', '.join(sorted(unknown))}")
    if not (given.run / MODEL).is_file():
        parser.error(f"{given.run / MODEL} does not exist: run scripts/quickstart.sh first")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), str(ROOT / "tests")]
    )  # for the commands in the working folder
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "work")
        shutil.copytree(
            given.run, folder / "runs" / "demo", ignore=shutil.ignore_patterns("checkpoints", "*.safetensors")
        )
        shutil.copy(given.run / MODEL, folder / "model.safetensors")
        for name in ("test.en", "test.de"):
            shutil.copy(given.corpus / name, folder)
        with started(Path(temporary, "profile")) as browser:
            studio = Studio(browser, folder, given.output.resolve())
            for drawing in DRAWINGS:
                if not given.pictures or set(given.pictures) & set(drawing.pictures):
                    drawing.draw(studio)
    return 0


if __name__ == "__main__":
    sys.exit(main())
