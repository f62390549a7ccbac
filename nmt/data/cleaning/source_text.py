"""What a model file tells about the sources that the model was trained on: by this, long lines are split."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nmt.config import schema

# Of the sources, how many have the length that is known to the model, or less: the others may be accidents, such as
# lines with several sentences that were joined by mistake.
NEARLY_ALL = 0.999
# Of the sources, how many must have several sentences, so that a model learns to translate them to their ends: with a
# tenth it lost 2 BLEU in the middle of their lengths. And how many of these have the length that is known, or less.
LEAST_SEVERAL, MOST_SEVERAL = 0.25, 0.9
# Of the sources, how many begin with a word that tells where a sentence begins; and of its occurrences with a capital,
# how many may be inside of a source.
LEAST_FIRST, MOST_INSIDE = 0.005, 0.02
_MOST_FIRST_WORDS = 100


@dataclass(frozen=True)
class SourceText:
    """Lengths are in subwords, without tags and EOS.

    longest: that of nearly all sources, or less; several: that of most sources of several sentences; 0 if there are few
    of these. first_words: of each language, by its code, the words that sources begin with (`first_words`).
    """

    longest: int
    several: int
    first_words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, lengths: Mapping[int, int], several: Mapping[int, int], samples: Mapping[str, Iterable[str]]
    ) -> "SourceText":
        """lengths: the number of sources by length; several: of those with several sentences; samples: some sources of
        each language."""
        enough = sum(several.values()) >= LEAST_SEVERAL * sum(lengths.values())
        words = {language: first_words(sample) for language, sample in samples.items()}
        return cls(quantile(lengths), quantile(several, MOST_SEVERAL) if enough else 0, words)

    @classmethod
    def from_json(cls, value: object) -> "SourceText | None":
        """What `to_json` gave; None for anything else."""
        if not isinstance(value, dict):
            return None
        longest, several, words = value.get("longest"), value.get("several"), value.get("first_words")
        if not (isinstance(longest, int) and isinstance(several, int) and several >= 0 and longest > 0):
            return None
        if not (isinstance(words, dict) and all(isinstance(some, list) for some in words.values())):
            return None
        return cls(longest, several, {str(language): tuple(map(str, some)) for language, some in words.items()})

    def to_json(self) -> dict[str, Any]:
        words = {language: list(some) for language, some in self.first_words.items()}
        return {"longest": self.longest, "several": self.several, "first_words": words}


def as_set(config: schema.Config, known: SourceText | None) -> SourceText | None:
    """What lines are split by: what is known of the training text, but with the length that
    decoding.max_source_tokens sets, if it does."""
    longest = config.decoding.max_source_tokens
    return known if known is None or longest is None else SourceText(longest, longest, known.first_words)


def quantile(counts: Mapping[int, int], share: float = NEARLY_ALL) -> int:
    """The least number that is not exceeded by a share of the numbers; counts: how often each occurs."""
    left = share * sum(counts.values())
    for number, count in sorted(counts.items()):
        left -= count
        if left <= 0:
            return number
    return 0


def first_words(sources: Iterable[str]) -> tuple[str, ...]:
    """The words with a capital that many sources begin with, and that seldom stand inside of one, such as `The`: where
    one does, a sentence may begin without a full stop before it. The most frequent first."""
    first, inside, count = Counter[str](), Counter[str](), 0
    for source in sources:
        words = source.split()
        first.update(words[:1])
        inside.update(word for word in words[1:] if word[0].isupper())
        count += 1
    frequent = (
        word
        for word, times in first.most_common()
        if word[0].isupper() and times >= max(2, LEAST_FIRST * count) and inside[word] <= MOST_INSIDE * times
    )
    return tuple(frequent)[:_MOST_FIRST_WORDS]
