"""Breakdowns: every line and word in one bucket, the scores of a bucket those of its lines alone."""

from collections import Counter

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.breakdowns import by_frequency, by_length

LONG = AlignedText("ref.de", ["ja"] * 3 + [" ".join(["eins zwei drei vier fünf"] * n) + "." for n in (1, 2, 3, 5, 14)])
OUT = AlignedText("out.de", [line.replace("vier", "sechs", 1) for line in LONG.lines])

SENTENCES = st.lists(st.sampled_from(["a", "b", "c", "rare", "."]), max_size=6).map(" ".join)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=6)


def test_lengths() -> None:
    found = by_length(LONG, "de", [OUT, LONG], [LONG], "de")
    assert (found.text, found.tokenizer) == ("ref.de", "13a")
    assert [(str(one.words), one.lines) for one in found.buckets] == [
        ("0-9", 4), ("10-19", 2), ("20-29", 1), ("60+", 1),
    ]  # fmt: skip
    lines = [LONG.lines[4:6], OUT.lines[4:6]]
    assert found.buckets[1].bleu == [sacrebleu.corpus_bleu(lines[1], [lines[0]]).score, pytest.approx(100)]
    assert sum(one.lines for one in found.buckets) == len(LONG.lines)
    assert found.buckets[1].chrf == [sacrebleu.corpus_chrf(lines[1], [lines[0]]).score, pytest.approx(100)]


@settings(max_examples=40)
@given(PAIRS, st.lists(SENTENCES, max_size=40))
def test_frequencies_are_those_of_compare_mt(pairs: list[tuple[str, str]], counted: list[str]) -> None:
    """Its way: each word of an output takes the next like word of the reference that is not taken yet."""
    reference, output = (AlignedText(name, [pair[i] for pair in pairs]) for i, name in enumerate("ro"))
    frequency = Counter(" ".join(counted).split())
    expected = {}
    for right, said in pairs:
        left = right.split()
        for word in left:
            expected.setdefault(frequency[word], [0, 0, 0])[0] += 1
        for word in said.split():
            tally = expected.setdefault(frequency[word], [0, 0, 0])
            tally[1] += 1
            if word in left:
                left.remove(word)
                tally[2] += 1
    found = by_frequency("train", iter(counted), [output], reference, "de")
    for bucket in found.buckets:
        (system,) = bucket.systems
        first, last = bucket.frequency.first, bucket.frequency.last
        inside = [value for key, value in expected.items() if first <= key and (last is None or key <= last)]
        words, translated, matched = map(sum, zip(*inside, strict=True))
        assert (bucket.reference_words, system.translated, system.matched) == (words, translated, matched)
        assert system.precision == (matched / translated if translated else None)
        assert system.recall == (matched / words if words else None)
        if matched:
            assert (
                system.precision
                and system.recall
                and system.f1
                == pytest.approx(2 * system.precision * system.recall / (system.precision + system.recall))
            )
    assert sum(one.reference_words for one in found.buckets) == sum(value[0] for value in expected.values())
