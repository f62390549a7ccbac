"""Capitals, title case and small letters: by the rules of each language, and only where there is case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.draws import Draws
from nmt.data.subwords.copied_items import random_item
from nmt.data.subwords.letter_case import Case, change_case, has_case, lowercase, sentence_case, titlecase, uppercase

LINES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)


@pytest.mark.parametrize(
    ("language", "text", "upper", "title", "lower"),
    [
        ("en", "a dog, (the) NATO", "A DOG, (THE) NATO", "A Dog, (The) NATO", "a dog, (the) nato"),
        ("de", "die Straße „außen“", "DIE STRASSE „AUSSEN“", "Die Straße „Außen“", "die straße „außen“"),
        ("tr", "istanbul ıssız İzmir I", "İSTANBUL ISSIZ İZMİR I", "İstanbul Issız İzmir I", "istanbul ıssız izmir ı"),
        ("az-Latn", "bir iki", "BİR İKİ", "Bir İki", "bir iki"),
        ("tra", "ilk", "ILK", "Ilk", "ilk"),
        ("el", "ΟΔΟΣ οδός", "ΟΔΟΣ ΟΔΌΣ", "ΟΔΟΣ Οδός", "οδος οδός"),
        ("fr", "l'été à 3h", "L'ÉTÉ À 3H", "L'été À 3h", "l'été à 3h"),
        ("hr", "ǆep", "ǄEP", "ǅep", "ǆep"),
    ],
)
def test_examples(language: str, text: str, upper: str, title: str, lower: str) -> None:
    assert uppercase(text, language) == upper == change_case(text, "uppercase", language)
    assert titlecase(text, language) == title == change_case(text, "titlecase", language)
    assert lowercase(text, language) == lower == change_case(text, "lowercase", language)


@given(LINES)
def test_titles_change_nothing_but_first_letters(text: str) -> None:
    found = titlecase(text, "en")
    assert titlecase(found, "en") == found
    assert found.casefold() == text.casefold() or "ı" in text  # whose capital is that of `i`
    assert found.count(" ") == text.count(" ")


@pytest.mark.parametrize(
    ("text", "cased"),
    [
        ("Hello.", True), ("Привет", True), ("γεια", True), ("我喜欢我的iPhone。", False), ("iPhone 12。", True),
        ("नमस्ते", False), ("", False), ("in 東京", False), ("We met in a small bar in 東京.", True),
    ],
)  # fmt: skip
def test_scripts_with_case(text: str, cased: bool) -> None:
    assert has_case(text) == cased
    assert cased or all(change_case(text, case, "x") == text for case in ("uppercase", "titlecase", "lowercase"))


@pytest.mark.parametrize("before", ["", "“", "(<b>", "see ", '<x id="A b">'])
@pytest.mark.parametrize("kind", ["url", "email", "placeholder"])
def test_no_case_changes_such_an_item_wherever_it_stands(kind: str, before: str) -> None:
    cases: tuple[Case, ...] = ("uppercase", "titlecase", "lowercase")
    for start in range(50):
        item = random_item(kind, Draws(start))
        found = [change_case(f"{before}{item} two dogs", case, "en") for case in cases]
        assert all(item in one for one in (*found, sentence_case(f"{before}{item} TWO dogs", "en"))), item


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("<b>two</b> dogs", "<b>Two</b> Dogs"),
        ("<b>d</b>og", "<b>D</b>og"),
        ('<x id="a b">dog</x>', '<x id="a b">Dog</x>'),
    ],
)
def test_titles_of_text_with_markup(text: str, title: str) -> None:
    assert change_case(text, "titlecase", "en") == title


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("https://example.com/Path IS NEW", "https://example.com/Path is new"),
        ("%S FILES", "%S files"),
        ("“{Name}” RUNS", "“{Name}” runs"),
        ("«<i><b>TWO</b> DOGS</i>»", "«<i><b>Two</b> dogs</i>»"),
        ("3 DOGS RUN", "3 Dogs run"),
        ("", ""),
    ],
)
def test_sentences(text: str, sentence: str) -> None:
    assert sentence_case(text, "en") == sentence


def test_turkish_sentences() -> None:
    assert sentence_case("<b>İKİ IŞIK</b>", "tr") == sentence_case("<b>İKİ IŞIK</b>", "tur_Latn") == "<b>İki ışık</b>"


@pytest.mark.parametrize("part", ["http://", "<a", "<a> "])
def test_long_lines_take_no_quadratic_time(part: str) -> None:
    """A pattern that starts anew at each character would take minutes."""
    text = part * (100_000 // len(part))
    titlecase(text, "en")
    sentence_case(text, "en")
