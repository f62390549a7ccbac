"""The identifier gives what its library gives, for many lines at once."""

from pathlib import Path

import numpy as np
import pytest
from py3langid.langid import LanguageIdentifier as Library

from nmt.data.cleaning.rules.language_identifier import FEW, LONGEST, identifier

ROWS = (Path(__file__).parents[3] / "helpers" / "cleaning_sentences.tsv").read_text(encoding="utf-8").split("\n")
NAMES, *SENTENCES = [row.split("\t") for row in ROWS if row]
LINES = [text for row in SENTENCES for text in row]
ODD = ["", " ", "12 34", "!", "GUTEN MORGEN, LIEBE LEUTE", "e\u0301te\u0301", "\ud800", "x" * 1000]


def test_scores_are_those_of_the_library() -> None:
    library = Library.from_model_file("data/model.npz.xz")
    scores, lengths = identifier().scores([*LINES, *ODD[:-1]])
    for line, ours, length in zip([*LINES, *ODD[:-1]], scores, lengths, strict=True):
        assert length == len(library._encode(line)) <= LONGEST
        theirs = library._raw_score(library._encode(line))
        if theirs.min() > -1e30:  # else the library found nothing in the line, and we have the priors
            np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_a_lines_scores_do_not_depend_on_the_other_lines() -> None:
    """Few lines are scored by NumPy, many by PyTorch."""
    lines = [*ODD, *LINES]
    together, lengths = identifier().scores(lines)
    assert len(lines) > FEW
    for line, expected, length in zip(lines, together, lengths, strict=True):
        (alone,), (length_alone,) = identifier().scores([line])
        assert length_alone == length
        np.testing.assert_allclose(alone, expected, rtol=1e-5)
    assert (identifier().scores(lines[:9])[0][8] == identifier().scores(lines[8:9])[0]).all()
    assert identifier().scores([])[0].shape == (0, len(identifier().languages))


@pytest.mark.parametrize("name", NAMES)
def test_languages_are_found(name: str) -> None:
    texts = [row[NAMES.index(name)] for row in SENTENCES]
    scores, lengths = identifier().scores(texts)
    assert identifier().doubt(scores, lengths, name).max() < 1
    assert identifier().names(scores).count(name) >= 30
    for other in set(NAMES) - {name}:
        doubt = identifier().doubt(scores, lengths, other)
        assert np.mean(doubt > 1) > 0.8
        assert np.mean(doubt > 0) > 0.9


def test_languages_that_are_much_alike_count_as_one() -> None:
    assert identifier().knows("nb")
    assert identifier().knows("hr")
    assert not identifier().knows("tlh")  # Klingon
    sotho = identifier().scores(["Ke rata ho bala libuka hobane li nthuta lintho tse ngata."])
    assert identifier().doubt(*sotho, "nso").max() < 0
    croatian = identifier().scores(["Djeca trče po livadi iza kuće i smiju se."])
    assert identifier().doubt(*croatian, "sr").max() < 0


@pytest.mark.parametrize(
    ("code", "known", "unread"),
    [
        ("de", True, set()),
        ("az", True, {"Cyrl", "Arab"}),
        ("az-Cyrl", False, {"Cyrl"}),
        ("tlh", False, set()),
    ],
)
def test_which_languages_are_known_in_which_scripts(code: str, known: bool, unread: set[str]) -> None:
    assert identifier().knows(code) == known
    assert identifier().unread_scripts(code) == unread
