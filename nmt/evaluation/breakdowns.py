"""Scores by sentence length, and the accuracy of words by their frequency.

Both are as in compare-mt (Neubig et al., 2019, compare-mt: A Tool for Holistic Comparison of Language Generation
Systems). Words are the tokens of BLEU's tokenizer for the language, or of the named one; case is not changed.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.metrics import bleu_metric, chrf_metric

# The starts of compare-mt's buckets.
_LENGTHS = (0, 10, 20, 30, 40, 50, 60)
_FREQUENCIES = (0, 1, 2, 3, 4, 5, 10, 100, 1000)

Bucket = TypeVar("Bucket")


@dataclass(frozen=True)
class Range:
    """The range from `first` to `last`, both included. last: None if there is no upper end."""

    first: int
    last: int | None

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first:,}+"
        return f"{self.first:,}" if self.first == self.last else f"{self.first:,}-{self.last:,}"


@dataclass(frozen=True)
class LengthBucket:
    """The lines whose number of words is in a range. bleu, chrf: the score of each system on these lines."""

    words: Range
    lines: int
    bleu: list[float]
    chrf: list[float]


@dataclass(frozen=True)
class Matches:
    """A system's number of words in a bucket, and the number of those that are in the same line of the reference."""

    system: str
    translated: int
    matched: int
    precision: float | None  # matched / translated; None if translated is 0
    recall: float | None  # matched / words of the reference; None if there are none
    f1: float | None


@dataclass(frozen=True)
class FrequencyBucket:
    """The words whose frequency in the counted text is in a range. reference_words: their number in the reference."""

    frequency: Range
    reference_words: int
    systems: list[Matches]


@dataclass(frozen=True)
class Breakdown(Generic[Bucket]):
    """The buckets that are not empty. text: the name of the text whose lines are measured, or whose words are
    counted."""

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
    tokenize = bleu_metric(language, tokenizer=tokenizer).tokenizer
    bleu, chrf = bleu_metric(target_language, tokenizer=tokenizer, quiet=True), chrf_metric()
    groups: dict[Range, list[int]] = {}
    for i, line in enumerate(text.lines):
        groups.setdefault(_range(_LENGTHS, len(tokenize(line).split())), []).append(i)
    buckets = []
    for words, indices in sorted(groups.items(), key=lambda item: item[0].first):
        texts = [[reference.lines[i] for i in indices] for reference in references]
        hypotheses = [[system.lines[i] for i in indices] for system in systems]
        bleu_scores = [bleu.corpus_score(lines, texts).score for lines in hypotheses]
        chrf_scores = [chrf.corpus_score(lines, texts).score for lines in hypotheses]
        buckets.append(LengthBucket(words, len(indices), bleu_scores, chrf_scores))
    return Breakdown(text.name, str(tokenize.signature()), buckets)


def by_frequency(
    counted: str,
    lines: Iterable[str],
    systems: Sequence[AlignedText],
    reference: AlignedText,
    target_language: str,
    tokenizer: str | None = None,
) -> Breakdown[FrequencyBucket]:
    """How well each system translates words, by their frequency in `lines`. counted: the name of that text. Its lines
    are converted to the form of the reference."""
    tokenize = bleu_metric(target_language, tokenizer=tokenizer).tokenizer
    expected, outputs = _words(reference, tokenize), [_words(system, tokenize) for system in systems]
    relevant = set[str]().union(*chain(expected, *outputs))  # others are not counted, because the text may be large
    frequency = Counter[str]()
    for line in lines:
        words = tokenize(reference.form.apply(line)).split()
        frequency.update(word for word in words if word in relevant)
    in_reference = _by_range(expected, frequency)
    counts = []
    for system, output in zip(systems, outputs, strict=True):
        matched = [translated & reference for translated, reference in zip(output, expected, strict=True)]
        counts.append((system.name, _by_range(output, frequency), _by_range(matched, frequency)))
    ranges = set(in_reference).union(*(translated for _, translated, _ in counts))
    buckets = []
    for times in sorted(ranges, key=lambda times: times.first):
        expected_words = in_reference[times]
        matches = [_matches(name, expected_words, total[times], right[times]) for name, total, right in counts]
        buckets.append(FrequencyBucket(times, expected_words, matches))
    return Breakdown(counted, str(tokenize.signature()), buckets)


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
    i = bisect_right(starts, value)
    return Range(starts[i - 1], starts[i] - 1 if i < len(starts) else None)
