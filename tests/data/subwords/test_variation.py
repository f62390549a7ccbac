"""Variation: what happens to a pair follows from its number, both sides change together, nothing becomes empty."""

import os
import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.schema import AugmentConfig
from nmt.data.draws import Draws
from nmt.data.subwords.variation import (
    add_inline_tags,
    add_noise,
    change_case_of_pair,
    remove_end_punctuation,
    vary,
)

ALL = AugmentConfig(
    uppercase=0.2, titlecase=0.2, lowercase=0.2, remove_end_punctuation=0.5, typos=0.3, noise=0.2, inline_tags=0.3,
    copied_names=0.5,
)  # fmt: skip
ENDS = ".!?…。！？؟।"
WORDS = st.sampled_from(["Anna", "2016", "house", "straße", "ΟΔΟΣ", "我们", "i", "👍", "https://x.org/a", "{0}", *ENDS])
LINES = st.one_of(
    st.lists(WORDS, min_size=1, max_size=8).map(" ".join),
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1).filter(str.strip),
)
PAIRS = st.lists(st.tuples(LINES, LINES), min_size=1, max_size=12)


def varied(
    pairs: list[tuple[str, str]],
    settings: AugmentConfig = ALL,
    *,
    first: int = 0,
    epoch: int = 0,
    seed: int = 1,
    languages: tuple[str, str] = ("en", "de"),
) -> list[tuple[str, str]]:
    numbers = range(first, first + len(pairs))
    return vary(pairs, numbers, epoch=epoch, seed=seed, settings=settings, languages=languages)


@given(PAIRS, st.integers(0, 2**40), st.integers(0, 100), st.data())
def test_the_same_in_any_chunks(pairs: list[tuple[str, str]], seed: int, epoch: int, data: st.DataObject) -> None:
    whole = varied(pairs, seed=seed, epoch=epoch)
    cut = data.draw(st.integers(0, len(pairs)))
    parts = [varied(pairs[:cut], seed=seed, epoch=epoch), varied(pairs[cut:], first=cut, seed=seed, epoch=epoch)]
    assert whole == [pair for part in parts for pair in part]
    order = data.draw(st.permutations(range(len(pairs))))
    mixed = [pairs[i] for i in order]
    found = vary(mixed, order, seed=seed, epoch=epoch, settings=ALL, languages=("en", "de"))
    assert found == [whole[i] for i in order]


def test_the_same_in_another_process() -> None:
    """Python's hash seed differs in each. Another result than this would change trainings that are resumed."""
    script = (
        "from nmt.config.schema import AugmentConfig as A; from nmt.data.subwords.variation import vary; "
        "print(vary([('We saw Anna in 2016.', 'Wir sahen Anna 2016.')] * 5, range(5), epoch=3, seed=7, "
        "settings=A(uppercase=.5, typos=.5, noise=.3, inline_tags=.5, copied_names=.5), languages=('en', 'de')))"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True
        ).stdout
        for seed in ("0", "1")
    ]
    assert found[0] == found[1] and "https://www.vemupor.de" in found[0]


def test_pairs_are_joined_with_their_neighbours() -> None:
    """Two, three or four, in their order and on both sides alike; at the end those before it."""
    pairs = [(f"Line {i}.", f"第{i}行。") for i in range(10)]
    found = varied(pairs * 20, AugmentConfig(joined=1.0))
    counts = [source.count("Line") for source, _ in found]
    assert {2, 3, 4} == set(counts)
    for place, (one, count) in enumerate(zip(found, counts, strict=True)):
        first = min(place, len(pairs) * 20 - count)
        sources, targets = zip(*[pairs[i % 10] for i in range(first, first + count)], strict=True)
        assert one == (" ".join(sources), "".join(targets))
    assert varied(pairs[:1], AugmentConfig(joined=1.0)) == pairs[:1]


@pytest.mark.parametrize(
    ("pair", "sides", "expected"),
    [
        (("A dog.", "Ein Maß."), "both", ("A DOG.", "EIN MASS.")),
        (("A dog.", "Ein Hund."), "source", ("A DOG.", "Ein Hund.")),
        (("A dog.", "一只狗。"), "both", ("A DOG.", "一只狗。")),
    ],
)
def test_the_target_follows_the_source(pair: tuple[str, str], sides: str, expected: tuple[str, str]) -> None:
    assert change_case_of_pair(pair, "uppercase", sides, ("en", "de")) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog.", "A dog"), ("一只狗。", "一只狗"), ("Hola. ¿Vienes?", "Hola. ¿Vienes"), ("...", "..."),
        ("(A dog.)", "(A dog.)"),
    ],
)  # fmt: skip
def test_end_punctuation(text: str, expected: str) -> None:
    assert remove_end_punctuation(text) == expected


@given(st.tuples(LINES, LINES), st.integers(0, 2**64 - 1))
def test_tags_and_noise_are_the_same_on_both_sides(pair: tuple[str, str], start: int) -> None:
    tagged = add_inline_tags(pair, Draws(start))
    assert (
        _around(tagged[0], pair[0]) & _around(tagged[1], pair[1])
        or _tags(tagged[0], pair[0]) == _tags(tagged[1], pair[1]) != Counter()
    )
    noisy = add_noise(pair, Draws(start))
    assert noisy[0] == noisy[1] or _around(noisy[0], pair[0]) & _around(noisy[1], pair[1])


def _around(text: str, sentence: str) -> set[tuple[str, str]]:
    """What stands before and after the sentence in a text that has more; all ways to read it."""
    starts = [i for i in range(len(text)) if text.startswith(sentence, i) and len(text) > len(sentence)]
    return {(text[:i], text[i + len(sentence) :]) for i in starts}


def _tags(text: str, sentence: str) -> Counter[str]:
    """The tags that the text has and the sentence has not."""
    return Counter(re.findall("<[^<>]*>", text)) - Counter(re.findall("<[^<>]*>", sentence))


def test_forms_of_tags_and_noise() -> None:
    pair = ("We saw Anna today.", "Wir sahen Anna heute.")
    tagged = {add_inline_tags(pair, Draws(start)) for start in range(5000)}
    assert {("We saw <b>Anna</b> today.", "Wir sahen <b>Anna</b> heute."),
            ("<b>We saw Anna today.</b>", "<b>Wir sahen Anna heute.</b>"),
            ("{1} We saw Anna today.", "{1} Wir sahen Anna heute."),
            ("We saw Anna today. %s", "Wir sahen Anna heute. %s")} <= tagged  # fmt: skip
    noisy = [add_noise(pair, Draws(start)) for start in range(300)]
    alone = sum(source == target for source, target in noisy)
    before = sum(source.endswith(pair[0]) for source, _ in noisy)
    assert 70 < alone < 130 and 70 < before < 130 and all(target != pair[1] for _, target in noisy)
