"""The comparison counts the lines that are equal, and shows where the first other one differs."""

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.export_models import LINES, make_model

from nmt.config.schema import Corpus
from nmt.errors import NmtError
from nmt.interop import parity
from nmt.interop.parity import Parity
from nmt.interop.sample_text import lines_in_scripts


def test_equal_lines_are_counted_and_the_first_other_one_is_shown() -> None:
    same = Parity("Other", ["a", " b "], ["a ", "b"])
    assert not same.different and "2 of 2 lines" in str(same) and "\n" not in str(same)
    other = Parity("Other", ["a", "one two" + "x" * 200, "c"], ["a", "one" + "y" * 200, "d"])
    assert other.different == [1, 2] and "1 of 3 lines" in str(other)
    _, where, ours, theirs, advice = str(other).split("\n")
    assert advice.startswith("Most lines differ") and "Most" not in str(Parity("Other", ["a", "b"], ["a", "c"]))
    assert "line 2 differs at character 4" in where
    assert ours.endswith(" two" + "x" * 96) and theirs.endswith("y" * 100) and len(theirs) < 120
    assert Parity("Other", ["a"], [""]).different == [0] and "line 1 differs at character 1" in str(
        Parity("O", ["a"], [""])
    )


def test_what_is_compared(tmp_path: Path) -> None:
    """The lines that are given, else the validation text, else text of many languages."""
    made = make_model()
    assert parity.sample(made, ["", "one", " ", *["two"] * 60]) == ["one", *["two"] * 49]
    with pytest.raises(NmtError, match="--sample: none of its 2 lines has text"):
        parity.sample(made, ["", " "])
    assert len(parity.sample(made, None)) > 40
    (tmp_path / "a").write_text("one\ntwo\n")
    corpus = Corpus(source=str(tmp_path / "a"), target=str(tmp_path / "a"))
    config = replace(made.config, data=replace(made.config.data, validation=corpus))
    assert parity.sample(replace(made, config=config), None) == ["one", "two"]


def test_lines_of_a_script() -> None:
    assert "Доброе утро! Как дела?" in lines_in_scripts("ru") and "Доброе утро! Как дела?" not in lines_in_scripts("de")
    assert len(lines_in_scripts("en")) > 15 and len(lines_in_scripts("mul")) > 40


def test_nmt_translates_into_the_first_language() -> None:
    made = make_model("decoding.beam_size=3", "decoding.banned=[one]")
    texts = parity.translate(made, LINES)
    assert len(texts) == len(LINES) and any(texts)
