"""How long the sources are that a model is trained on: longer text is translated in parts."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nmt.config import schema

# Of the sources, how many have the length that is known to the model, or less: the others may be accidents, such as
# lines with several sentences that were joined by mistake.
NEARLY_ALL = 0.999
# Of the sources, how many must have several sentences, so that a model learns to translate them to their ends.
LEAST_SEVERAL = 0.01


@dataclass(frozen=True)
class SourceLengths:
    """Lengths in subwords, without tags and EOS.

    longest: that of nearly all sources, or less; several: that of nearly all sources of several sentences; 0 if there
    are few of these.
    """

    longest: int
    several: int

    @classmethod
    def of(cls, lengths: Mapping[int, int], several: Mapping[int, int]) -> "SourceLengths":
        """lengths: the number of sources by length; several: of those with several sentences."""
        enough = sum(several.values()) >= LEAST_SEVERAL * sum(lengths.values())
        return cls(quantile(lengths), quantile(several) if enough else 0)

    @classmethod
    def from_json(cls, value: object) -> "SourceLengths | None":
        """What `to_json` gave; None for anything else, as in model files of an earlier version."""
        if not isinstance(value, dict):
            return None
        longest, several = value.get("longest"), value.get("several")
        if not (isinstance(longest, int) and isinstance(several, int) and several >= 0 and longest > 0):
            return None
        return cls(longest, several)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def as_set(config: schema.Config, known: SourceLengths | None) -> SourceLengths | None:
    """The lengths over which lines are split: those that are known of the training text, unless
    decoding.max_source_tokens sets one."""
    longest = config.decoding.max_source_tokens
    return known if known is None or longest is None else SourceLengths(longest, longest)


def quantile(counts: Mapping[int, int], share: float = NEARLY_ALL) -> int:
    """The least number that is not exceeded by a share of the numbers; counts: how often each occurs."""
    left = share * sum(counts.values())
    for number, count in sorted(Counter(counts).items()):
        left -= count
        if left <= 0:
            return number
    return 0
