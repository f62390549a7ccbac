"""Sets of pairs that have no sentence in common, whatever the corpus repeats."""

import importlib.util
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import NmtError

SCRIPT = Path(__file__).parents[2] / "scripts" / "hold_out.py"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hold_out", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hold_out = load_script()
ALONE = [(f"source {n}", f"target {n}") for n in range(40)]
REPEATED = [("Go!", "Geh!"), ("go", "Geht!"), ("Leave.", "GEHT"), ("Go!", "Los!"), ("Run, go.", "Los")]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True)


def test_what_shares_a_sentence_is_a_group() -> None:
    """Through other pairs too, and whatever the letter case and the punctuation; the sides are not mixed."""
    other = ("Geh", "Go")
    assert hold_out.groups_of([*REPEATED, other]) == [REPEATED, [other]]


words = st.sampled_from(["a", "b", "A.", " a", "c!", "d", "e f", "e, F"])


@given(st.lists(st.tuples(words, words), max_size=12), st.integers(1, 3), st.integers(0, 9))
def test_no_sentence_is_in_two_sets(pairs: list[tuple[str, str]], held_out: int, seed: int) -> None:
    pairs = pairs + ALONE[:8]
    sets = hold_out.split(pairs, held_out, None, seed)
    assert [len(sets[name]) for name in ("val", "test")] == [held_out] * 2
    assert set().union(*sets.values()) <= set(pairs) and len(set(sets["train"])) == len(sets["train"])
    for side in (0, 1):
        seen = [{"".join(filter(str.isalnum, pair[side])).lower() for pair in of} for of in sets.values()]
        assert sum(map(len, seen)) == len(set().union(*seen))
    assert hold_out.split(random.Random(seed).sample(pairs, len(pairs)), held_out, None, seed) == sets


def test_the_rest_is_cut_to_the_most() -> None:
    whole, cut = (hold_out.split(ALONE, 3, most, 1)["train"] for most in (None, 5))
    assert len(whole) == 34 and cut == whole[:5] and whole != sorted(whole)


def test_too_few_groups_are_refused() -> None:
    with pytest.raises(NmtError, match=r"--pairs 1: two sets of them need more than 2 groups .* there are 2"):
        hold_out.split([*REPEATED, ("x", "y")], 1, None, 1)


def test_the_command(tmp_path: Path) -> None:
    lines = [f"{source}\t{target}\tby somebody\n" for source, target in ALONE]
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    command = (tmp_path / "pairs.tsv", tmp_path / "new" / "sets", "en", "de", "--pairs", 4, "--most", 9)
    done = run(*command)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"hold_out.py: wrote 4 val, 4 test, 9 train pairs to {tmp_path}/new/sets\n"
    files = {path.name: path.read_text() for path in (tmp_path / "new" / "sets").iterdir()}
    assert files.keys() == {f"{name}.{side}" for name in ("val", "test", "train") for side in ("en", "de")}
    for name in ("val", "test", "train"):
        assert files[f"{name}.en"].replace("source", "target") == files[f"{name}.de"] != ""
    done = run(*command)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "val.en exists: delete it" in done.stderr
    assert files == {path.name: path.read_text() for path in (tmp_path / "new" / "sets").iterdir()}


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("a\tb\nc\n", ("en", "de"), "pairs.tsv, line 2: one column, and a pair needs two"),
        ("a\tb\n", ("en", "en"), "en twice"),
        ("a\tb\n", ("en", "de", "--pairs", 0), "must be at least 1"),
        (None, ("en", "de"), "pairs.tsv: no such file"),
    ],
)
def test_mistakes_are_one_line(text: str | None, arguments: tuple[object, ...], message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "pairs.tsv").write_text(text)
    done = run(tmp_path / "pairs.tsv", tmp_path / "out", *arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr
    assert not (tmp_path / "out").exists()
