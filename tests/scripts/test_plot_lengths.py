"""The picture of BLEU by length: a line for each system, at the heights of its scores."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "plot_lengths.py"
SCORES = {
    "scores": [{"system": name, "name": metric} for name in ("a.safetensors", "b.safetensors") for metric in "xy"],
    "lengths": [
        {
            "text": "test.en",
            "buckets": [
                {"words": {"first": 0, "last": 9}, "lines": 3, "bleu": [90.0, 50.0]},
                {"words": {"first": 10, "last": None}, "lines": 4, "bleu": [60.0, 20.0]},
            ],
        }
    ],
}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)


def test_the_picture(tmp_path: Path) -> None:
    (tmp_path / "scores.json").write_text(json.dumps(SCORES))
    done = run(tmp_path / "scores.json", tmp_path / "lengths.svg", "--names", "with <attention>,without")
    assert (done.returncode, done.stderr) == (0, "")
    picture = ElementTree.parse(tmp_path / "lengths.svg").getroot()
    of = {tag: list(picture.iter(f"{{http://www.w3.org/2000/svg}}{tag}")) for tag in ("polyline", "text", "line")}
    texts = [text.text for text in of["text"]]
    assert {"0–9", "10+", "with <attention>", "without", "words of the source", "BLEU"} <= set(texts)
    grid = {int(text.text or ""): float(text.get("y") or 0) - 4 for text in of["text"] if (text.text or "").isdigit()}
    for polyline, scores in zip(of["polyline"], ((90, 60), (50, 20)), strict=True):
        points = [tuple(map(float, point.split(","))) for point in (polyline.get("points") or "").split()]
        assert points[0][0] < points[1][0]
        for (_, y), score in zip(points, scores, strict=True):
            assert (y - grid[0]) / (grid[100] - grid[0]) * 100 == pytest.approx(score, abs=0.1)


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    for content, names, message in (
        ("[]", "a,b", "not the output of nmt evaluate --details --json"),
        (json.dumps(SCORES), "a", "2 systems: give as many --names"),
    ):
        path.write_text(content)
        done = run(path, tmp_path / "lengths.svg", "--names", names)
        assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "lengths.svg").exists()
