"""Near-duplicates have equal hashes; other pairs have not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.cleaning.rules import near_duplicates
from nmt.data.cleaning.rules.near_duplicates import folded_hashes, folded_texts

PAIR = ("The year 2019 was good.", "Das Jahr 2019 war schön.")


@pytest.mark.parametrize(
    "other",
    [
        (PAIR[0].upper(), PAIR[1]),
        ("The year 2020 was good!", "Das Jahr 2020 war schön!"),
        ("The year was good", "Das Jahr war scho\u0308n"),
        ("Ｔｈｅ year was good", "Das Jahr war schon"),
    ],
)
def test_near_duplicates(other: tuple[str, str]) -> None:
    one, two = folded_hashes([PAIR, other])
    assert one == two == folded_hashes([other])[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PAIR, PAIR[::-1]),
        (("a 1", "Seite 1"), ("a 2", "Seite 2")),
        (("half", "time out"), ("half time", "out")),
        (("नमस्ते जी", "hello there"), ("नमसत जी", "hello there")),
    ],
)
def test_other_pairs(one: tuple[str, str], other: tuple[str, str]) -> None:
    first, second = folded_hashes([one, other])
    assert first != second


@pytest.mark.parametrize(
    "same",
    [
        ["Will he go at 5?", "will HE  go at 5", " Will he – go at 5!", "Will\u00a0he go at\u00ad 5"],
        ["Straße", "STRASSE"], ["한국의 도시", "\u1112\u1161\u11ab국의 도시"], ["１２ ٣", "12 3"],
    ],
)  # fmt: skip
def test_texts_that_differ_in_case_accents_spaces_and_punctuation(same: list[str]) -> None:
    assert len(set(folded_texts(same))) == 1
    assert len(set(folded_texts(["At 5", "At 6", "Bt 5", "?", "!", "😀", "की", "कि"]))) == 8


@given(st.text(st.characters(codec="ascii")))
def test_what_is_fast_for_ascii_gives_the_same(text: str) -> None:
    [key] = near_duplicates._folded([text], digits=True)
    assert folded_texts([text]) == [key.decode("utf-32-le") or "".join(text.split())]
