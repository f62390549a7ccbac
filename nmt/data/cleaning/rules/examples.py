"""What was dropped: counts, and examples of pairs that were dropped and that were nearly dropped."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.data.cleaning.rules.judge import MEANINGS, Judgement
from nmt.data.sources.corpus import Pair

LONGEST = 500  # characters of a side that an example shows
MOST = 10  # examples of each kind that are kept of a rule and a corpus


@dataclass(frozen=True, order=True)
class Example:
    """A pair, by its place among the examples: the first ones are shown."""

    rank: tuple[float, int]  # the score for those nearly dropped, highest first; then a hash of the pair
    source: str
    target: str
    score: float | None  # as the rule's setting is compared with it; None: the rule has none


@dataclass
class RuleExamples:
    dropped: int = 0  # pairs
    dropped_examples: list[Example] = field(default_factory=list)  # those with the smallest hash: a random choice
    nearly_dropped: list[Example] = field(default_factory=list)  # those kept whose score is nearest to the threshold


class DropExamples:
    """The examples of each rule: at most `most` of each kind, so memory is bounded. Reasons that are no rule of
    data.clean have examples in the same way, such as `empty`.

    They are the same for the same pairs, whatever chunks the pairs came in and whichever process looked at them: each
    process collects its own, and `merge` joins them.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.rules: dict[str, RuleExamples] = {}  # by the rule's name

    def add(self, pairs: Sequence[Pair], judgement: Judgement) -> None:
        """Add the pairs of a chunk."""
        for number, rule in enumerate(judgement.rules):
            scores = judgement.scores[number]
            dropped = np.flatnonzero(judgement.dropped_by == number)
            shown = (rule.sign * scores[dropped]).tolist()
            self.add_dropped(rule.name, [pairs[place] for place in dropped.tolist()], shown)
            mine, near = self.rules[rule.name], self._nearly_dropped(pairs, scores, judgement.kept, rule.sign)
            mine.nearly_dropped = self._first(mine.nearly_dropped, near)

    def _nearly_dropped(
        self, pairs: Sequence[Pair], scores: npt.NDArray[np.float32], kept: npt.NDArray[np.bool_], sign: int
    ) -> list[Example]:
        """The kept pairs with the highest scores: as many different ones as are shown, and all that are tied with the
        last one. A score of 0 or less speaks for the pair, so it is not near to the threshold."""
        near = np.flatnonzero(kept & (scores > 0))
        nearest: dict[Pair, Example] = {}
        lowest = 0.0
        for place in near[np.argsort(-scores[near])].tolist():
            score = float(scores[place])
            if len(nearest) >= self.most and score < lowest:
                break
            lowest = score
            nearest.setdefault(pairs[place], _example(pairs[place], sign * score, rank=-score))
        return list(nearest.values())

    def add_dropped(self, rule: str, pairs: Sequence[Pair], scores: Sequence[float | None] | None = None) -> None:
        """Add pairs that were dropped by a rule. scores: one for each pair, if the rule has scores."""
        mine = self.rules.setdefault(rule, RuleExamples())
        mine.dropped += len(pairs)
        examples = (_example(*example) for example in zip(pairs, scores or [None] * len(pairs), strict=True))
        mine.dropped_examples = self._first(mine.dropped_examples, examples)

    def merge(self, other: "DropExamples") -> None:
        """Add those of another process or of an earlier part."""
        for name, its in other.rules.items():
            mine = self.rules.setdefault(name, RuleExamples())
            mine.dropped += its.dropped
            mine.dropped_examples = self._first(mine.dropped_examples, its.dropped_examples)
            mine.nearly_dropped = self._first(mine.nearly_dropped, its.nearly_dropped)

    def _first(self, old: list[Example], new: Iterable[Example]) -> list[Example]:
        """The first of both by rank; equal pairs are one example."""
        return sorted({example.rank: example for example in (*old, *new)}.values())[: self.most]

    def to_json(self) -> dict[str, Any]:
        """The content as `json.dumps` takes it."""
        names = [name for name in MEANINGS if name in self.rules]
        names += sorted(self.rules.keys() - MEANINGS.keys())
        return {"most": self.most, "rules": {name: asdict(self.rules[name]) for name in names}}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "DropExamples":
        """What `to_json` gave. Raises KeyError or TypeError for other data."""
        examples = cls(content["most"])
        for name, rule in content["rules"].items():
            kinds = ([_from_json(row) for row in rule[kind]] for kind in ("dropped_examples", "nearly_dropped"))
            examples.rules[name] = RuleExamples(rule["dropped"], *kinds)
        return examples


def _example(pair: Pair, score: float | None, rank: float = 0.0) -> Example:
    digest = hashlib.blake2b("\n".join(pair).encode("utf-8", "surrogatepass"), digest_size=6).digest()
    source, target = map(shortened, pair)
    return Example((rank, int.from_bytes(digest, "big")), source, target, score)


def shortened(side: str, longest: int = LONGEST) -> str:
    """A side of a pair as examples show it: at most so many characters, and `…` for the others."""
    return side if len(side) <= longest else side[:longest] + "…"


def _from_json(row: Mapping[str, Any]) -> Example:
    first, second = row["rank"]
    return Example(**{**row, "rank": (first, second)})
