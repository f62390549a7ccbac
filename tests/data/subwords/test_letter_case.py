"""Capitals, title case and small letters: by the rules of each language, and only where there is case."""

import pytest

from nmt.data.draws import Draws
from nmt.data.subwords.copied_items import random_item
from nmt.data.subwords.letter_case import Case, change_case, has_case, lowercase, sentence_case, titlecase, uppercase


@pytest.mark.parametrize(
    ("language", "text", "upper", "title", "lower"),
    [
        ("en", "a dog, (the) NATO", "A DOG, (THE) NATO", "A Dog, (The) NATO", "a dog, (the) nato"),
        ("de", "die Straße „außen“", "DIE STRASSE „AUSSEN“", "Die Straße „Außen“", "die straße „außen“"),
        ("tr", "istanbul ıssız İzmir I", "İSTANBUL ISSIZ İZMİR I", "İstanbul Issız İzmir I", "istanbul ıssız izmir ı"),
        ("el", "ΟΔΟΣ οδός", "ΟΔΟΣ ΟΔΌΣ", "ΟΔΟΣ Οδός", "οδος οδός"),
        ("hr", "ǆep", "ǄEP", "ǅep", "ǆep"),
    ],
)
def test_examples(language: str, text: str, upper: str, title: str, lower: str) -> None:
    assert uppercase(text, language) == upper == change_case(text, "uppercase", language)
    assert titlecase(text, language) == title == change_case(text, "titlecase", language)
    assert lowercase(text, language) == lower == change_case(text, "lowercase", language)


@pytest.mark.parametrize(
    ("text", "cased"),
    [
        ("Hello.", True), ("γεια", True), ("iPhone 12。", True), ("We met in a small bar in 東京.", True),
    ],
)  # fmt: skip
def test_scripts_with_case(text: str, cased: bool) -> None:
    assert has_case(text) == cased
    assert cased or all(change_case(text, case, "x") == text for case in ("uppercase", "titlecase", "lowercase"))


@pytest.mark.parametrize("before", ["“", "see "])
@pytest.mark.parametrize("kind", ["url", "email", "placeholder"])
def test_no_case_changes_such_an_item_wherever_it_stands(kind: str, before: str) -> None:
    cases: tuple[Case, ...] = ("uppercase", "titlecase", "lowercase")
    for start in range(50):
        item = random_item(kind, Draws(start))
        found = [change_case(f"{before}{item} two dogs", case, "en") for case in cases]
        assert all(item in one for one in (*found, sentence_case(f"{before}{item} TWO dogs", "en"))), item


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("https://example.com/Path IS NEW", "https://example.com/Path is new"),
        ("“{Name}” RUNS", "“{Name}” runs"),
        ("3 DOGS RUN", "3 Dogs run"),
        ("", ""),
    ],
)
def test_sentences(text: str, sentence: str) -> None:
    assert sentence_case(text, "en") == sentence


def test_long_lines_take_no_quadratic_time() -> None:
    """A pattern that starts anew at each character would take minutes."""
    text = "http://" * 15_000
    titlecase(text, "en")
    sentence_case(text, "en")
