"""Sets of pairs that have no sentence in common, whatever the corpus repeats."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.scripts import SCRIPTS, load
from hypothesis import given
from hypothesis import strategies as st

SCRIPT = SCRIPTS / "hold_out.py"
hold_out = load("hold_out")
ALONE = [(f"source {n}", f"target {n}") for n in range(40)]
REPEATED = [("Go!", "Geh!"), ("go", "Geht!"), ("Leave.", "GEHT"), ("Go!", "Los!"), ("Run, go.", "Los")]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True)


def test_what_shares_a_sentence_is_a_group() -> None:
    """Through other pairs too; the sides are not mixed."""
    other = ("Geh", "Go")
    assert hold_out.groups_of([*REPEATED, other]) == [REPEATED, [other]]


@pytest.mark.parametrize(
    ("text", "other", "same"),
    [
        ("don't go", "Dont go!", True), ("e-mail", "email", True), ("你好，世界。", "你好世界", True),
        ("café", "cafe\u0301", True), ("ＡＢＣ", "abc", True), ("की", "कि", False), ("ไม่", "ไม้", False),
        ("!", "?", False), ("😀", "😎", False), ("3", "5", False), ("no", "on", False),
    ],
)  # fmt: skip
def test_letters_and_digits_make_a_sentence(text: str, other: str, same: bool) -> None:
    assert len(hold_out.groups_of([(text, "x"), (other, "y")])) == (1 if same else 2)


words = st.sampled_from(["a", "b", "A.", " a", "c!", "d", "e f", "e, F", "ef", "?", "!", "दि", "दी"])


@given(st.lists(st.tuples(words, words), max_size=12), st.integers(1, 3), st.integers(0, 9))
def test_no_sentence_is_in_two_sets(pairs: list[tuple[str, str]], held_out: int, seed: int) -> None:
    pairs = pairs + ALONE[:8]
    sets = hold_out.split(pairs, held_out, None, seed)
    assert [len(sets[name]) for name in ("val", "test")] == [held_out] * 2
    assert set().union(*sets.values()) <= set(pairs) and len(set(sets["train"])) == len(sets["train"])
    for side in (0, 1):
        seen = [{re.sub("[ .,]|(?<=.)!", "", pair[side].lower()) for pair in of} for of in sets.values()]
        assert sum(map(len, seen)) == len(set().union(*seen))
    assert hold_out.split(random.Random(seed).sample(pairs, len(pairs)), held_out, None, seed) == sets


def test_a_large_group_is_for_training() -> None:
    large = [("the same", f"anders {n}") for n in range(11)]
    for seed in range(5):
        assert sorted(hold_out.split([*large, *ALONE[:6]], 3, None, seed)["train"]) == sorted(large)


def test_the_rest_is_cut_to_the_most() -> None:
    whole, cut = (hold_out.split(ALONE, 3, most, 1)["train"] for most in (None, 5))
    assert len(whole) == 34 and cut == whole[:5] and whole != sorted(whole)


def test_the_command(tmp_path: Path) -> None:
    lines = [f"{number}\t{source}\t{target}\tby somebody\n" for number, (source, target) in enumerate(ALONE)]
    (tmp_path / "pairs.tsv").write_text("".join(lines) + lines[0] + "40\t \tempty\n")
    command = (tmp_path / "pairs.tsv", tmp_path / "new" / "sets", "en", "de", "--pairs", 4, "--most", 9)
    done = run(*command, "--columns", 2, 3)
    assert (done.returncode, done.stdout) == (0, "")
    expected = "42 pairs: 9 train, 4 val, 4 test, 23 left out, 1 given before, 1 with an empty side\n"
    assert done.stderr == expected
    files = {path.name: path.read_text() for path in (tmp_path / "new" / "sets").iterdir()}
    assert files.keys() == {f"{name}.{side}" for name in ("val", "test", "train") for side in ("en", "de")}
    for name in ("val", "test", "train"):
        assert files[f"{name}.en"].replace("source", "target") == files[f"{name}.de"] != ""
    done = run(*command, "--columns", 2, 3)
    assert done.returncode == 1
    assert done.stderr == f"error: {tmp_path}/new/sets: exists already: choose another FOLDER\n"
    assert files == {path.name: path.read_text() for path in (tmp_path / "new" / "sets").iterdir()}


@pytest.mark.parametrize(
    ("text", "arguments", "status", "message"),
    [
        ("a\tb\nc\n", ("en", "de"), 1, "pairs.tsv, line 2: no column 2: columns have tabs between them"),
        ("1\ta\t2\tb\n", ("en", "de"), 1, "pairs.tsv: column 1 holds only numbers"),
        ("a\tb\n", ("en", "de", "--columns", 1, 1), 2, "--columns 1 1: the source and the target are two columns"),
        ("a\tb\n", ("en", "de"), 1, "--pairs 1000: needs 2000 groups"),
    ],
)
def test_mistakes_are_one_line(
    text: str, arguments: tuple[object, ...], status: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "pairs.tsv").write_text(text)
    done = run(tmp_path / "pairs.tsv", tmp_path / "out", *arguments)
    assert done.returncode == status and message in done.stderr.split("\n")[-2]
    assert done.stderr.count("error: ") == 1 and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
