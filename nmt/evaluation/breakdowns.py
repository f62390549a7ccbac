"""Scores by sentence length, and how well words are translated by how frequent they are.

Both as in compare-mt (Neubig et al., 2019, compare-mt: A Tool for Holistic Comparison of Language Generation
Systems). Words are the tokens of BLEU's tokenizer for the language, or of the named one; upper and lower case are kept.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.metrics import bleu_metric, chrf_metric

# Where compare-mt starts a new bucket.
_LENGTHS = (0, 10, 20, 30, 40, 50, 60)
_FREQUENCIES = (0, 1, 2, 3, 4, 5, 10, 100, 1000)

Bucket = TypeVar("Bucket")


@dataclass(frozen=True)
class Range:
    """From `first` to `last`, both included; `last` is None if there is no upper end."""

    first: int
    last: int | None

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first:,}+"
        return f"{self.first:,}" if self.first == self.last else f"{self.first:,}-{self.last:,}"


@dataclass(frozen=True)
class LengthBucket:
    """Lines whose number of words is in a range; bleu and chrf: each system's scores on these lines."""

    words: Range
    lines: int
    bleu: list[float]
    chrf: list[float]


@dataclass(frozen=True)
class Matches:
    """A system's number of words in a bucket, and how many of these are in the same line of the reference."""

    system: str
    translated: int
    matched: int
    precision: float | None  # matched / translated; None if translated is 0
    recall: float | None  # matched / words of the reference; None if there are none
    f1: float | None


@dataclass(frozen=True)
class FrequencyBucket:
    """Words whose frequency in the counted text is in a range; reference_words: their number in the reference."""

    frequency: Range
    reference_words: int
    systems: list[Matches]


@dataclass(frozen=True)
class Breakdown(Generic[Bucket]):
    """Empty buckets are left out. text: name of the text whose lines are measured, or in which words are counted."""

    text: str
    tokenizer: str
    buckets: list[Bucket]


def by_length(
    text: AlignedText,
    language: str,
    systems: Sequence[AlignedText],
    references: Sequence[AlignedText],
    target_language: str,
    tokenizer: str | None = None,
) -> Breakdown[LengthBucket]:
    """Scores of each system by the length of the lines in `text`, the source or a reference, which is in `language`."""
    cut = bleu_metric(language, tokenizer=tokenizer).tokenizer
    bleu, chrf = bleu_metric(target_language, tokenizer=tokenizer, quiet=True), chrf_metric()
    groups: dict[Range, list[int]] = {}
    for place, line in enumerate(text.lines):
        groups.setdefault(_range(_LENGTHS, len(cut(line).split())), []).append(place)
    buckets = []
    for words, places in sorted(groups.items(), key=lambda item: item[0].first):
        texts = [[reference.lines[i] for i in places] for reference in references]
        hypotheses = [[system.lines[i] for i in places] for system in systems]
        by_bleu = [bleu.corpus_score(lines, texts).score for lines in hypotheses]
        by_chrf = [chrf.corpus_score(lines, texts).score for lines in hypotheses]
        buckets.append(LengthBucket(words, len(places), by_bleu, by_chrf))
    return Breakdown(text.name, str(cut.signature()), buckets)


def by_frequency(
    counted: str,
    lines: Iterable[str],
    systems: Sequence[AlignedText],
    reference: AlignedText,
    target_language: str,
    tokenizer: str | None = None,
) -> Breakdown[FrequencyBucket]:
    """How well each system translates words, by how often they occur in `lines`, the text named `counted`, which is in
    the form of the reference, or brought into it."""
    cut = bleu_metric(target_language, tokenizer=tokenizer).tokenizer
    expected, outputs = _words(reference, cut), [_words(system, cut) for system in systems]
    known = set[str]().union(*chain(expected, *outputs))  # others are not counted, because the text may be large
    frequency = Counter(word for line in lines for word in cut(reference.form.apply(line)).split() if word in known)
    in_reference = _by_range(expected, frequency)
    counts = []
    for system, output in zip(systems, outputs, strict=True):
        matched = [translated & reference for translated, reference in zip(output, expected, strict=True)]
        counts.append((system.name, _by_range(output, frequency), _by_range(matched, frequency)))
    ranges = set(in_reference).union(*(translated for _, translated, _ in counts))
    buckets = [
        FrequencyBucket(
            times,
            in_reference[times],
            [_matches(name, in_reference[times], total[times], right[times]) for name, total, right in counts],
        )
        for times in sorted(ranges, key=lambda times: times.first)
    ]
    return Breakdown(counted, str(cut.signature()), buckets)


def _matches(system: str, expected: int, translated: int, matched: int) -> Matches:
    precision, recall = (matched / count if count else None for count in (translated, expected))
    f1 = 2 * matched / (translated + expected) if translated + expected else None
    return Matches(system, translated, matched, precision, recall, f1)


def _words(text: AlignedText, tokenizer: Callable[[str], str]) -> list[Counter[str]]:
    return [Counter(tokenizer(line).split()) for line in text.lines]


def _by_range(lines: Iterable[Counter[str]], frequency: Mapping[str, int]) -> Counter[Range]:
    """The number of words in each range of frequencies."""
    total = Counter[Range]()
    for words in lines:
        for word, count in words.items():
            total[_range(_FREQUENCIES, frequency[word])] += count
    return total


def _range(starts: Sequence[int], value: int) -> Range:
    place = bisect_right(starts, value)
    return Range(starts[place - 1], starts[place] - 1 if place < len(starts) else None)
