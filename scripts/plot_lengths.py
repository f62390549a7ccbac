#!/usr/bin/env python3
"""Draw BLEU by sentence length, as in Figure 2 of Bahdanau et al. 2015, into an SVG file.

    nmt evaluate MODEL MODEL ... --source S --reference R --details --json > scores.json
    python scripts/plot_lengths.py scores.json lengths.svg [--names none,attention,Transformer]

A point is the BLEU of the lines of one length; lengths are words of the source.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from nmt.files import atomic

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 56, 140, 16, 48
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")  # Tol's, told apart by colour-blind people
DASHES = ("", "7 4", "2 3", "9 3 2 3", "1 2", "12 4")


def svg(title: str, buckets: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    """The picture: a line for each system. buckets: those of a breakdown by length of `nmt evaluate --json`."""
    across = (WIDTH - LEFT - RIGHT) / len(buckets)
    xs = [LEFT + across * (i + 0.5) for i in range(len(buckets))]

    def y_of(bleu: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - bleu / 100)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><title>{escape(title)}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    ]
    for bleu in range(0, 101, 20):
        y = y_of(bleu)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{bleu}</text>')
    for x, bucket in zip(xs, buckets, strict=True):
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{_label(bucket)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">words of the source</text>')
    parts.append(f'<text x="16" y="{HEIGHT / 2}" transform="rotate(-90 16 {HEIGHT / 2})">BLEU</text>')
    for number, name in enumerate(names):
        style = f'stroke="{COLOURS[number]}" stroke-width="2" stroke-dasharray="{DASHES[number]}" fill="none"'
        ys = [y_of(bucket["bleu"][number]) for bucket in buckets]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
        parts.append(f'<polyline points="{points}" {style}/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[number]}"/>' for x, y in zip(xs, ys, strict=True)
        ]
        x, y = WIDTH - RIGHT + 12, TOP + 12 + 22 * number
        parts.append(f'<line x1="{x}" x2="{x + 26}" y1="{y}" y2="{y}" {style}/>')
        parts.append(f'<text x="{x + 32}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _label(bucket: dict[str, Any]) -> str:
    first, last = bucket["words"]["first"], bucket["words"]["last"]
    return f"{first}+" if last is None else f"{first}–{last}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw BLEU by sentence length into an SVG file.")
    parser.add_argument("scores", type=Path, metavar="SCORES.json", help="from nmt evaluate --details --json")
    parser.add_argument("output", type=Path, metavar="OUTPUT.svg")
    parser.add_argument("--names", help="names of the systems, in order; default: their files")
    given = parser.parse_args()
    try:
        found = json.loads(given.scores.read_text(encoding="utf-8"))
        buckets = found["lengths"][0]["buckets"]
        systems = list(dict.fromkeys(score["system"] for score in found["scores"]))
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        sys.exit(f"{parser.prog}: error: {given.scores}: not the output of nmt evaluate --details --json")
    names = given.names.split(",") if given.names else systems
    if len(names) != len(systems) or len(systems) > len(COLOURS):
        sys.exit(f"{parser.prog}: error: {len(systems)} systems: give as many --names, and at most {len(COLOURS)}")
    with atomic.replacing(given.output) as unfinished:
        unfinished.write_text(svg(f"BLEU by the length of {found['lengths'][0]['text']}", buckets, names), "utf-8")


if __name__ == "__main__":
    main()
