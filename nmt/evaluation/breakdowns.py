"""Where translations are good and where not: by length of the sentence, by how frequent a word is.

Both as compare-mt does it (Neubig et al., 2019, compare-mt: A Tool for Holistic Comparison of Language Generation
Systems), on words as BLEU's tokenizer for the language cuts them, as they are written.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from sacrebleu.metrics.chrf import CHRF

from nmt.evaluation.aligned_texts import Lines
from nmt.evaluation.metrics import bleu_metric

# Where compare-mt parts them.
_LENGTHS = (0, 10, 20, 30, 40, 50, 60)
_FREQUENCIES = (0, 1, 2, 3, 4, 5, 10, 100, 1000)


@dataclass(frozen=True)
class Range:
    """From `first` to `last`, both counted; `last` None: no end."""

    first: int
    last: int | None

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first:,}+"
        return f"{self.first:,}" if self.first == self.last else f"{self.first:,}-{self.last:,}"


@dataclass(frozen=True)
class LengthBucket:
    """Lines of about one length in words; bleu and chrf of each system on these lines alone."""

    words: Range
    lines: int
    bleu: list[float]
    chrf: list[float]


@dataclass(frozen=True)
class ByLength:
    """Buckets without lines are left out. `text` names the text whose lines' lengths are meant."""

    text: str
    tokenizer: str
    buckets: list[LengthBucket]


@dataclass(frozen=True)
class Matches:
    """How many words of a bucket a system's translation has, and how many of these are in the reference's same line."""

    system: str
    translated: int
    matched: int
    precision: float | None  # of those translated, None for none
    recall: float | None  # of those in the reference, None for none
    f1: float | None


@dataclass(frozen=True)
class FrequencyBucket:
    """Words that the counted text has so often; `reference_words` of them are in the reference."""

    frequency: Range
    reference_words: int
    systems: list[Matches]


@dataclass(frozen=True)
class ByFrequency:
    """Buckets without words are left out. `text` names the text in which the words were counted."""

    text: str
    tokenizer: str
    buckets: list[FrequencyBucket]


def by_length(
    text: Lines,
    language: str,
    systems: Sequence[Lines],
    references: Sequence[Lines],
    target_language: str,
    tokenizer: str | None = None,
) -> ByLength:
    """Scores of each system on the lines of about one length in a text of that language: the source, or a reference.

    tokenizer: sacreBLEU's name of one, rather than the languages'.
    """
    cut = bleu_metric(language, tokenizer=tokenizer).tokenizer
    bleu, chrf = bleu_metric(target_language, tokenizer=tokenizer, quiet=True), CHRF()
    groups: dict[Range, list[int]] = {}
    for place, line in enumerate(text.lines):
        groups.setdefault(_range(_LENGTHS, len(cut(line).split())), []).append(place)
    buckets = []
    for words, places in sorted(groups.items(), key=lambda item: item[0].first):
        texts = [[reference.lines[i] for i in places] for reference in references]
        hypotheses = [[system.lines[i] for i in places] for system in systems]
        buckets.append(
            LengthBucket(
                words,
                len(places),
                [bleu.corpus_score(lines, texts).score for lines in hypotheses],
                [chrf.corpus_score(lines, texts).score for lines in hypotheses],
            )
        )
    return ByLength(text.name, str(cut.signature()), buckets)


def by_frequency(
    counted: str,
    lines: Iterable[str],
    systems: Sequence[Lines],
    reference: Lines,
    target_language: str,
    tokenizer: str | None = None,
) -> ByFrequency:
    """How well each system translates words that are rare or frequent in the lines of `counted`.

    tokenizer: sacreBLEU's name of one, rather than the language's.
    """
    cut = bleu_metric(target_language, tokenizer=tokenizer).tokenizer
    expected, outputs = _words(reference, cut), [_words(system, cut) for system in systems]
    frequency = _frequencies(lines, cut, of=set().union(*chain(expected, *outputs)))
    in_reference = _by_range(expected, frequency)
    found = []
    for system, output in zip(systems, outputs, strict=True):
        both = [mine & right for mine, right in zip(output, expected, strict=True)]
        found.append((system.name, _by_range(output, frequency), _by_range(both, frequency)))
    ranges = set(in_reference).union(*(translated for _, translated, _ in found))
    buckets = [
        FrequencyBucket(
            one,
            in_reference[one],
            [_matches(name, in_reference[one], translated[one], matched[one]) for name, translated, matched in found],
        )
        for one in sorted(ranges, key=lambda one: one.first)
    ]
    return ByFrequency(counted, str(cut.signature()), buckets)


def _matches(system: str, expected: int, translated: int, matched: int) -> Matches:
    return Matches(
        system,
        translated,
        matched,
        matched / translated if translated else None,
        matched / expected if expected else None,
        2 * matched / (translated + expected) if translated + expected else None,
    )


def _words(text: Lines, tokenizer: Callable[[str], str]) -> list[Counter[str]]:
    return [Counter(tokenizer(line).split()) for line in text.lines]


def _frequencies(lines: Iterable[str], tokenizer: Callable[[str], str], of: set[str]) -> Counter[str]:
    """How often each of these words is in the lines. The others are not kept: the text may be large."""
    counts = Counter[str]()
    for line in lines:
        counts.update(word for word in tokenizer(line).split() if word in of)
    return counts


def _by_range(lines: Iterable[Counter[str]], frequency: Mapping[str, int]) -> Counter[Range]:
    """How many words there are of each range of frequencies."""
    total = Counter[Range]()
    for words in lines:
        for word, count in words.items():
            total[_range(_FREQUENCIES, frequency[word])] += count
    return total


def _range(starts: Sequence[int], value: int) -> Range:
    place = bisect_right(starts, value)
    return Range(starts[place - 1], starts[place] - 1 if place < len(starts) else None)
