"""Examples: the same however the pairs were split; few; kept as JSON."""

import json
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.rules.judge import Judgement, Rule

RULES = (Rule("digits", 0.5, None), Rule("language", 1.0, None))
SCORES = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 0.75, 0.875, 1.5])
Scored = tuple[str, float, float]


def collect(rows: list[Scored], most: int = 3) -> DropExamples:
    examples = DropExamples(most)
    scores = np.array([[row[1] for row in rows], [row[2] for row in rows]], np.float32).reshape(2, -1)
    beyond = scores > np.array([[0.5], [1.0]], np.float32)
    dropped_by = np.where(beyond.any(axis=0), beyond.argmax(axis=0), -1)
    examples.add([(row[0], f"{row[0]}!") for row in rows], Judgement(RULES, scores, dropped_by))
    return examples


@st.composite
def scored(draw: st.DrawFn) -> list[Scored]:
    """Pairs; equal ones have equal scores."""
    known = draw(st.dictionaries(st.text("abc", max_size=4), st.tuples(SCORES, SCORES), min_size=1))
    texts = draw(st.lists(st.sampled_from(sorted(known)), max_size=60))
    return [(text, *known[text]) for text in texts]


@settings(deadline=None)
@given(scored(), st.lists(st.integers(0, 60)), st.randoms())
def test_the_same_for_any_split_and_order(rows: list[Scored], cuts: list[int], dice: object) -> None:
    whole = collect(rows).to_json()
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = [rows[start:end] for start, end in pairwise(edges)]
    dice.shuffle(parts)  # type: ignore[attr-defined]
    merged, in_turn = DropExamples(3), DropExamples(3)
    for part in parts:
        merged.merge(DropExamples.from_json(json.loads(json.dumps(collect(part).to_json()))))
        in_turn_part = collect(part)
        in_turn.merge(in_turn_part)
    if rows:
        assert merged.to_json() == in_turn.to_json() == whole


@settings(deadline=None)
@given(scored())
def test_which_pairs_are_examples(rows: list[Scored]) -> None:
    examples = collect(rows)
    for number, rule in enumerate(RULES):
        kept = {row[0]: row[number + 1] for row in rows if row[1] <= 0.5 and row[2] <= 1.0}
        near = sorted((score for score in kept.values() if score > 0), reverse=True)
        mine = examples.rules[rule.name]
        assert [one.score for one in mine.nearly_dropped] == near[:3]
        assert all(one.source in kept for one in mine.nearly_dropped)
        earlier = [row[1] > 0.5 for row in rows] if number else [False] * len(rows)
        dropped = [
            row for row, taken in zip(rows, earlier, strict=True) if row[number + 1] > rule.threshold and not taken
        ]
        assert mine.dropped == len(dropped)
        assert len(mine.dropped_examples) == min(3, len({row[0] for row in dropped}))
        assert {one.source for one in mine.dropped_examples} <= {row[0] for row in dropped}
