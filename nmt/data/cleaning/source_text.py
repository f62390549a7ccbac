"""A description of the sources that a model was trained on. It is part of the model file and decides how long lines are
split."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nmt.config import schema

# The share of sources that are at most as long as the length that counts as known to the model. Longer ones may be
# errors, such as lines in which several sentences were joined by mistake.
NEARLY_ALL = 0.999
# The share of sources that must have several sentences, so that a model learns to translate them to the end. (With a
# tenth it lost 2 BLEU at medium lengths.) And the share of these that are at most as long as the known length.
LEAST_SEVERAL, MOST_SEVERAL = 0.25, 0.9
# The share of sources that begin with a word, if the word marks the beginning of a sentence. And the share of its
# capitalized occurrences that may be inside a source.
LEAST_FIRST, MOST_INSIDE = 0.005, 0.02
_MOST_FIRST_WORDS = 100


@dataclass(frozen=True)
class SourceText:
    """Properties of training sources. Lengths are in subwords, without tags and EOS."""

    longest: int  # nearly all sources are at most this long
    several: int  # most sources with several sentences are at most this long; 0 if there are few of these
    # By language code: the words that sources begin with (see the function `first_words`).
    first_words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def from_counts(
        cls, lengths: Mapping[int, int], several: Mapping[int, int], samples: Mapping[str, Iterable[str]]
    ) -> "SourceText":
        """lengths: the number of sources by length. several: the same for sources with several sentences. samples: some
        sources of each language."""
        enough = sum(several.values()) >= LEAST_SEVERAL * sum(lengths.values())
        words = {language: first_words(sample) for language, sample in samples.items()}
        return cls(quantile(lengths), quantile(several, MOST_SEVERAL) if enough else 0, words)

    @classmethod
    def from_json(cls, value: object) -> "SourceText | None":
        """Read what `to_json` returned. Returns None for anything else."""
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


def as_set(config: schema.Config, trained: SourceText | None) -> SourceText | None:
    """The properties by which lines are split: those of the training text, with the length of
    decoding.max_source_tokens if it is set."""
    longest = config.decoding.max_source_tokens
    return trained if trained is None or longest is None else SourceText(longest, longest, trained.first_words)


def quantile(counts: Mapping[int, int], share: float = NEARLY_ALL) -> int:
    """The smallest value that at least this share of the values do not exceed. counts: how often each value occurs."""
    remaining = share * sum(counts.values())
    for value, count in sorted(counts.items()):
        remaining -= count
        if remaining <= 0:
            return value
    return 0


def first_words(sources: Iterable[str]) -> tuple[str, ...]:
    """The capitalized words that many sources begin with and that seldom occur inside a source, such as `The`. Where
    one does, a sentence may begin without a full stop before it. The most frequent word is first."""
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
