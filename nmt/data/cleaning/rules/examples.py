"""Examples of pairs that were dropped and nearly dropped, and counts of dropped pairs."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import repeat
from typing import Any

import numpy as np

from nmt.data.cleaning.rules.judge import MEANINGS, Judgement
from nmt.data.sources.corpus import Pair

LONGEST = 500  # characters of a side that an example shows
MOST = 10  # examples of each kind that are kept of a rule and a corpus


@dataclass(frozen=True, order=True)
class Example:
    """A pair. Examples are sorted by rank, and the first ones are shown."""

    rank: tuple[float, int]  # the score for those nearly dropped, highest first; then a hash of the pair
    source: str
    target: str
    score: float | None  # in the sense of the rule's setting; None if the rule has no scores


@dataclass
class RuleExamples:
    dropped: int = 0  # pairs
    dropped_examples: list[Example] = field(default_factory=list)  # the ones with the smallest hashes: a random choice
    nearly_dropped: list[Example] = field(default_factory=list)  # kept pairs with scores nearest to the threshold


class DropExamples:
    """The examples of each rule: at most `most` of each kind, so memory is bounded. Reasons that are not rules of
    data.clean, such as `empty`, have examples too.

    The examples do not depend on the division of pairs into chunks and processes. Each process collects its own
    examples, and `merge` joins them.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.rules: dict[str, RuleExamples] = {}  # by the rule's name

    def add(self, pairs: Sequence[Pair], judgement: Judgement) -> None:
        """Add the pairs of a chunk."""
        for i, rule in enumerate(judgement.rules):
            scores = judgement.scores[i]
            dropped = np.flatnonzero(judgement.dropped_by == i)
            shown = (rule.sign * scores[dropped]).tolist()
            self.add_dropped(rule.name, [pairs[j] for j in dropped.tolist()], shown)
            examples, near = self.rules[rule.name], self._nearly_dropped(pairs, judgement, i)
            examples.nearly_dropped = self._first(examples.nearly_dropped, near)

    def _nearly_dropped(self, pairs: Sequence[Pair], judgement: Judgement, index: int) -> list[Example]:
        """The kept pairs with the highest scores by a rule: `most` different pairs, and all that are tied with the last
        one. A pair with a score of 0 or less is good, so it is not near to the threshold. Given scores have any scale.
        index: of the rule."""
        rule, scores = judgement.rules[index], judgement.scores[index]
        near = np.flatnonzero(judgement.kept & (scores > (-np.inf if rule.given else 0)))
        nearest: dict[Pair, Example] = {}
        lowest = 0.0
        for i in near[np.argsort(-scores[near])].tolist():
            score = float(scores[i])
            if len(nearest) >= self.most and score < lowest:
                break
            lowest = score
            nearest.setdefault(pairs[i], _example(pairs[i], rule.sign * score, rank=-score))
        return list(nearest.values())

    def add_dropped(self, rule: str, pairs: Sequence[Pair], scores: Sequence[float | None] | None = None) -> None:
        """Add pairs that were dropped by a rule. scores: one for each pair, if the rule has scores."""
        examples = self.rules.setdefault(rule, RuleExamples())
        examples.dropped += len(pairs)
        new = (_example(*example) for example in zip(pairs, scores or repeat(None, len(pairs)), strict=True))
        examples.dropped_examples = self._first(examples.dropped_examples, new)

    def merge(self, other: "DropExamples") -> None:
        """Add the examples of another process or of another part."""
        for name, added in other.rules.items():
            examples = self.rules.setdefault(name, RuleExamples())
            examples.dropped += added.dropped
            examples.dropped_examples = self._first(examples.dropped_examples, added.dropped_examples)
            examples.nearly_dropped = self._first(examples.nearly_dropped, added.nearly_dropped)

    def _first(self, old: list[Example], new: Iterable[Example]) -> list[Example]:
        """The first examples of both lists by rank. Equal pairs are one example."""
        return sorted({example.rank: example for example in (*old, *new)}.values())[: self.most]

    def to_json(self) -> dict[str, Any]:
        """The content in a form for `json.dumps`."""
        names = [name for name in MEANINGS if name in self.rules]
        names += sorted(self.rules.keys() - MEANINGS.keys())
        return {"most": self.most, "rules": {name: asdict(self.rules[name]) for name in names}}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "DropExamples":
        """Read what `to_json` returned. Raises KeyError or TypeError for other data."""
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
    """The first `longest` characters of a side of a pair, followed by `…` if there are more."""
    return side if len(side) <= longest else side[:longest] + "…"


def _from_json(row: Mapping[str, Any]) -> Example:
    first, second = row["rank"]
    return Example(**{**row, "rank": (first, second)})
