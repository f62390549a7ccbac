"""COMET by a command with the options and the output of comet-score of unbabel-comet 2.2."""

import sys
from pathlib import Path

import pytest
import torch

from nmt.errors import NmtError
from nmt.evaluation import comet
from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.text_form import NORMALIZED

SOURCE = AlignedText("in", ["one\rtwo", "three", ""])
REFERENCE = AlignedText("ref", ["eins\rzwei", "drei", ""])
SYSTEMS = [AlignedText("good", ["eins\rzwei", "drei", ""], NORMALIZED), AlignedText("bad", ["eins\r", "vier", ""])]

# A line's score: 1 if it is the reference. The options, the reading of lines and the JSON are as in comet/cli/score.py.
COMET_SCORE = """
import argparse, json, sys
parser = argparse.ArgumentParser()
for short, name in (("-s", "--sources"), ("-r", "--references"), ("-m", "--model"), ("-j", "--to_json")):
    parser.add_argument(short, name, required=True)
parser.add_argument("-t", "--translations", nargs="+")
parser.add_argument("--gpus", type=int, default=1)
parser.add_argument("--quiet", action="store_true")
parser.add_argument("--only_system", action="store_true")
given = parser.parse_args()
assert given.gpus == 0
if given.model == "nowhere":
    print("Fetching", file=sys.stderr)
    raise KeyError("Model 'nowhere' not supported by COMET.")

def lines(path):
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file.readlines()]

data = {}
for path in given.translations:
    rows = zip(lines(given.sources), lines(path), lines(given.references))
    data[path] = [{"src": s, "mt": t, "ref": r, "COMET": float(t == r)} for s, t, r in rows]
    if given.model == "short":
        data[path].pop()
    for row in data[path] if given.model == "nan" else ():
        row["COMET"] = float("nan")
    print(f"{path}\\tscore: 0.5")
with open(given.to_json, "w", encoding="utf-8") as file:
    json.dump([] if given.model == "list" else data, file, ensure_ascii=False, indent=4)
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    path = tmp_path / "comet score.py"
    path.write_text(COMET_SCORE, encoding="utf-8")
    return comet.split_command(f"{sys.executable} '{path}'")


def test_scores_of_systems(command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    good, bad = comet.score("m", command, SOURCE, SYSTEMS, REFERENCE, "cpu")
    assert [(one.system, one.name, one.value) for one in (good, bad)] == [
        ("good", "COMET", 1.0),
        ("bad", "COMET", pytest.approx(1 / 3)),
    ]
    assert good.signature == "model:m" and good.interval is good.difference is None
    assert good.compared == NORMALIZED.compared and bad.compared == "as they are"
    assert capfd.readouterr().out == ""  # standard output is for the scores of nmt


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nowhere", "^--comet nowhere: .*status 1: KeyError: .Model 'nowhere' not supported by COMET"),
        ("short", r"^--comet-command .*: it scored 4 lines of 6$"),
        ("nan", "^--comet nan: some scores are not numbers: try --device cpu"),
    ],
)
def test_a_command_that_fails_is_reported_in_one_line(command: list[str], model: str, message: str) -> None:
    with pytest.raises(NmtError, match=message) as error:
        comet.score(model, command, SOURCE, SYSTEMS, REFERENCE, "cpu")
    assert "\n" not in str(error.value)


def test_the_program_sees_the_chosen_gpu_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert comet._environment(torch.device("cuda", 1))["CUDA_VISIBLE_DEVICES"] == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    assert comet._environment(torch.device("cuda", 1))["CUDA_VISIBLE_DEVICES"] == "5"


def test_a_command_that_does_not_exist() -> None:
    with pytest.raises(NmtError, match=r"^--comet: there is no program .*pip install unbabel-comet"):
        comet.split_command("no-such-program -x")
