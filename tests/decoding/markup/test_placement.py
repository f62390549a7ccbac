"""Where elements go, by the attention of the translation's words."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nmt.decoding.markup.aligned_words import AlignedWords
from nmt.decoding.markup.elements import Element, Span
from nmt.decoding.markup.placement import place_elements
from nmt.decoding.translation import Translation
from nmt.terms.used_term import UsedTerm

# The source has the words a b c d …, the translation A B C D …; word i is at the characters 2i.
_SHARES = st.sampled_from([0.0, 0.05, 0.15, 0.3, 0.6, 1.0])


def words_of(weights: NDArray[np.float64]) -> AlignedWords:
    target, source = weights.shape
    line, text = (" ".join(chr(first + i) for i in range(size)) for first, size in ((97, source), (65, target)))
    spans = [[(2 * i, 2 * i + 1) for i in range(size)] for size in (source, target)]
    return AlignedWords(line, text, *spans, weights)


def around(first: int, stop: int, **more: object) -> Element:
    """An element around these words of the source."""
    return Element(2 * first, 2 * stop - 1, "<b>", "</b>", **more)  # type: ignore[arg-type]


def in_words(span: Span) -> Span:
    return span[0] // 2, (span[1] + 1) // 2


@example([[0.0, 0.0, 0.05, 1.0]], (2, 3))
@given(
    st.lists(st.lists(_SHARES, min_size=4, max_size=4), min_size=1, max_size=5),
    st.sampled_from([(0, 2), (1, 3), (2, 3)]),
)
def test_an_element_has_the_part_with_the_largest_sum(rows: list[list[float]], own: Span) -> None:
    """Of all parts of the translation, by trying each."""
    weights = np.array(rows)
    [found] = place_elements([around(*own)], words_of(weights), {})
    total = np.maximum(weights.sum(axis=1), 1e-9)
    scores = weights[:, own[0] : own[1]].sum(axis=1) / total - 0.5
    parts = itertools.combinations(range(len(rows) + 1), 2)
    best = max(scores[first:stop].sum() for first, stop in parts)
    first, stop = in_words(found)
    if best > -0.4:  # a word alone is enough with more than a tenth of its attention
        assert scores[first:stop].sum() == pytest.approx(best)
    else:
        assert found[0] == found[1]


@pytest.mark.parametrize(("goes_on", "expected"), [("from before", (0, 3)), ("behind", (1, 4)), ("", (1, 3))])
def test_what_goes_on_in_another_sentence_is_at_that_end(goes_on: str, expected: Span) -> None:
    weights = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 0.7]])
    assert in_words(place_elements([around(1, 2, goes_on=goes_on)], words_of(weights), {})[0]) == expected


def test_a_placed_term_is_aligned_to_its_source_term() -> None:
    """The attention of a term that the model did not choose says nothing: here the words are in another order."""
    term = UsedTerm("old", "vieux", "placed", "old")
    translation = Translation("grange vieux", 0.0, 0.0, [], [], terms=[term])
    words = AlignedWords.from_translation("old barn", translation, elements=1)
    assert words.weights[words.target.index((7, 12)), words.source.index((0, 3))] == 1
    spans = place_elements([Element(0, 3, "<b>", "</b>")], words, {})
    assert [translation.text[slice(*span)] for span in spans] == ["vieux"]
