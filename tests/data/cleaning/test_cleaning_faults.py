"""Recall and false alarms of the rules, on the demo corpus."""

import sys
from collections import Counter

import pytest
from helpers import cleaning_faults

RECALL = {
    "other_language": 0.95,
    "swapped_sides": 0.95,
    "boilerplate": 0.95,
    "wrong_encoding": 0.95,
    "near_duplicate": 0.9,
    "other_number": 0.95,
    "symbols": 0.95,
    "repetition": 0.95,
    "html": 1.0,
    "copied": 0.9,
}


@pytest.mark.thorough
def test_recall_and_false_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["cleaning_faults.py", "--pairs", "3300"])
    results = []
    monkeypatch.setattr(cleaning_faults, "tables", lambda result: results.append(result) or "")
    assert cleaning_faults.main() == 0
    (result,) = results
    counts = Counter(zip(result.kinds, [rule is not None for rule in result.rules], strict=True))
    assert counts["none", True] == 0
    assert counts["misaligned", True] <= 2  # no rule but the model's score can find them
    assert RECALL.keys() | {"misaligned"} == set(cleaning_faults.KINDS)
    for kind, share in RECALL.items():
        assert counts[kind, True] >= share * (counts[kind, True] + counts[kind, False]), kind


def test_scores_of_a_model_find_misaligned_pairs() -> None:
    pairs = cleaning_faults.without_near_duplicates(
        list(zip(*[cleaning_faults.sentences()[name] for name in ("en", "de")], strict=True))
    )
    planted = [(kind, pair) for kind, pair in cleaning_faults.plant(pairs * 2, ("en", "de"), 1)][:64]
    scores = [-9.0 if kind == "misaligned" else -1.0 for kind, _ in planted]
    result = cleaning_faults.find(planted, ("en", "de"), cleaning_faults.CleaningConfig(score=-5.0), scores)
    found = [rule for kind, rule in zip(result.kinds, result.rules, strict=True) if kind == "misaligned"]
    assert "score" in found
    assert None not in found
