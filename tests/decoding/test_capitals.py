"""Lines in capitals are translated as the same lines in small letters, and their translations are in capitals."""

from dataclasses import replace
from functools import cache

import pytest
from helpers.translators import LINES, assert_close, new_translator

from nmt.decoding.capitals import as_sentences, is_in_capitals
from nmt.decoding.term_counts import TermCounts
from nmt.terms.glossary import Glossary


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("TWO DOGS RUN.", True),
        ("NO SMOKING", True),
        ("SEE https://example.com/a AND write@example.com, {name}: 3 DOGS", True),
        ("MEETING AT 5 pm IN THE OFFICE", True),
        ("Two dogs run.", False),
        ("UNESCO AND UNICEF met WHO STAFF", False),
        ("ABBREVIATION", False),
    ],
)
def test_which_lines_are_in_capitals(line: str, expected: bool) -> None:
    assert is_in_capitals(line) == expected


@pytest.mark.parametrize(
    ("line", "language", "expected"),
    [
        ("TWO DOGS RUN. “A CAT SITS.”", "en", "Two dogs run. “A cat sits.”"),
        (
            "https://example.com/Path IS NEW. {Name} LIKES IT!",
            "en",
            "https://example.com/Path is new. {Name} likes it!",
        ),
        ("iLK IŞIK", "tr", "İlk ışık"),
    ],
)
def test_as_sentences(line: str, language: str, expected: str) -> None:
    assert as_sentences(line, language) == expected


@cache
def sentence() -> str:
    """One whose translation has small letters."""
    lines = [line.capitalize() for line in LINES if is_in_capitals(line.upper())]
    translations = new_translator().translate(lines)
    return next(line for line, found in zip(lines, translations, strict=True) if found != found.upper())


def test_translations_are_those_of_small_letters() -> None:
    lines = [sentence(), sentence().upper(), sentence(), "ALPHA"]
    first, capitals, again, short = new_translator().hypotheses(lines, 2)
    assert first == again and first[0].text != first[0].text.upper()
    assert capitals == [replace(one, text=one.text.upper()) for one in first]
    assert_close(short, new_translator(capitals="keep").hypotheses(["ALPHA"], 2)[0])
    assert new_translator().translate(lines) == [each[0].text for each in (first, capitals, again, short)]


def test_a_glossary_finds_its_terms() -> None:
    """A line with a term that has capitals of its own stays as it is; the target of another term is in capitals."""
    line, word = sentence().upper(), sentence().split()[-1]
    translators = [new_translator(capitals="keep"), new_translator(), new_translator()]
    for translator, term in zip(translators, (word.upper(), word.upper(), word), strict=True):
        translator.use_glossary(Glossary([(term, "alpha")]), "glossary")
    keeping, acronym, plain = (translator.translate([line])[0] for translator in translators)
    assert keeping == acronym != acronym.upper() and plain == plain.upper()
    assert [sum((translator.counts.terms or TermCounts()).how.values()) for translator in translators] == [1, 1, 1]
