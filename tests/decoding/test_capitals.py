"""Lines in capitals are translated as the same lines in small letters, and their translations are in capitals."""

from dataclasses import replace
from functools import cache

import pytest
from helpers.translators import LINES, assert_close, new_translator

from nmt.decoding.capitals import as_sentences, in_capitals, is_in_capitals


@pytest.mark.parametrize(
    ("line", "language", "expected"),
    [
        ("TWO DOGS RUN.", "en", True),
        ("NO SMOKING", "en", True),
        ("SEE https://example.com/a AND write@example.com, {name}: 3 DOGS", "en", True),
        ("ДВЕ СОБАКИ БЕГУТ", "ru", True),
        ("İKİ KÖPEK KOŞUYOR", "tr", True),
        ("Two dogs run.", "en", False),
        ("TWO DOGS run", "en", False),
        ("EU, UN", "en", False),
        ("IBM PC", "en", False),
        ("ABBREVIATION", "en", False),
        ("", "en", False),
        ("12 345 678", "en", False),
        ("两只狗在跑 两只狗在跑", "zh", False),
        ("ორი ძაღლი გარბის", "ka", False),
    ],
)
def test_which_lines_are_in_capitals(line: str, language: str, expected: bool) -> None:
    assert is_in_capitals(line, language) == expected


@pytest.mark.parametrize(
    ("line", "language", "expected"),
    [
        ("TWO DOGS RUN. “A CAT SITS.”", "en", "Two dogs run. “A cat sits.”"),
        ("(¡HOLA, AMIGOS!)", "es", "(¡Hola, amigos!)"),
        ("SEE https://example.com/A NOW", "en", "See https://example.com/A now"),
        ("IŞIK İYİ", "tr", "Işık iyi"),
        ("iLK IŞIK", "tr", "İlk ışık"),
    ],
)
def test_as_sentences(line: str, language: str, expected: str) -> None:
    assert as_sentences(line, language) == expected


def test_capitals_of_the_language() -> None:
    assert in_capitals("Straße mit Hund", "de") == "STRASSE MIT HUND"
    assert in_capitals("ilk ışık", "tr") == "İLK IŞIK"


@cache
def sentence() -> str:
    """One whose translation has small letters."""
    lines = [line.capitalize() for line in LINES if is_in_capitals(line.upper(), "en")]
    translations = new_translator().translate(lines)
    return next(line for line, found in zip(lines, translations, strict=True) if found != found.upper())


def test_translations_are_those_of_small_letters() -> None:
    lines = [sentence(), sentence().upper(), sentence(), "ALPHA"]
    first, capitals, again, short = new_translator().hypotheses(lines, 2)
    assert first == again and first[0].text != first[0].text.upper()
    assert capitals == [replace(one, text=one.text.upper()) for one in first]
    assert_close(short, new_translator(capitals="keep").hypotheses(["ALPHA"], 2)[0])
    assert new_translator().translate(lines) == [each[0].text for each in (first, capitals, again, short)]


def test_a_prefix_says_how_the_translation_is_written() -> None:
    line, begun = sentence().upper(), sentence().split()[0]
    restoring, keeping = new_translator(), new_translator(capitals="keep")
    assert restoring.translate([line]) != keeping.translate([line])
    assert list(restoring.stream([line], prefixes=[begun])) == list(keeping.stream([line], prefixes=[begun]))
