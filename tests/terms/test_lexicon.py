"""A lexicon from parallel text: words that occur together, each with one partner."""

import random

import pytest

from nmt.terms import lexicon
from nmt.terms.lexicon import are_forms, learn_lexicon, word_spans

WORDS = {f"noun{i}x".translate(str.maketrans("0123456789", "abcdefghij")): f"Wort{chr(97 + i)}" for i in range(20)}


def pairs(count: int = 400) -> list[tuple[str, str]]:
    random_ = random.Random(2)
    rows = [random_.sample(list(WORDS), random_.randint(1, 3)) for _ in range(count)]
    return [
        (f"The {', the '.join(row)}!", f"Die {' die '.join(WORDS[word] for word in reversed(row))} «2».")
        for row in rows
    ]


def test_partners_are_found_and_frequent_words_left_out() -> None:
    words = learn_lexicon(pairs)
    assert words == WORDS
    assert list(words) == list(learn_lexicon(pairs))


def test_few_counts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicon, "_MOST_COUNTS", 150)  # of 400 pairs of words
    found = learn_lexicon(pairs)
    assert len(found) >= 15 and found.items() <= WORDS.items()


def test_words_between_spaces() -> None:
    text = " «Äpfel», 42 医者は don't हिन्दी. x2"
    assert [text[slice(*span)] for span in word_spans(text)] == ["Äpfel", "don't", "हिन्दी", "x2"]


@pytest.mark.parametrize(
    ("term", "other", "same"),
    [
        ("Arzt", "Ärzten", True), ("talo", "talon", True), ("Mikro", "Mikrofon", False), ("Tisch", "Tischchen", False),
        ("Leute", "Leutchen", False), ("roter Wagen", "roten Wagens", True),
        ("Haus", "Hauptstadt", False), ("der", "den", False), ("Arzt", "Arzt Baum", False),
        ("Arzt", "Arztpraxis", False),
    ],
)  # fmt: skip
def test_forms_of_a_word(term: str, other: str, same: bool) -> None:
    assert are_forms(term, other) == are_forms(other, term) == same
