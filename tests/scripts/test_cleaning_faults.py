"""Recall and false alarms of the rules, on the demo corpus."""

import sys
from collections import Counter
from types import ModuleType

import pytest
from helpers.scripts import load


@pytest.fixture(scope="module")
def script() -> ModuleType:
    load("make_demo_corpus")
    return load("cleaning_faults")


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
    "copied": 0.95,
}


def test_recall_and_false_alarms(script: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["cleaning_faults.py", "--pairs", "3300"])
    results = []
    monkeypatch.setattr(script, "tables", lambda result: results.append(result) or "")
    assert script.main() == 0
    (result,) = results
    counts = Counter(zip(result.kinds, [rule is not None for rule in result.rules], strict=True))
    assert counts["none", True] == 0
    assert counts["misaligned", True] <= 2  # no rule but the model's score can find them
    assert RECALL.keys() | {"misaligned"} == set(script.KINDS)
    for kind, share in RECALL.items():
        assert counts[kind, True] >= share * (counts[kind, True] + counts[kind, False]), kind


def test_scores_of_a_model_find_misaligned_pairs(script: ModuleType) -> None:
    pairs = script.without_near_duplicates(list(zip(*[script.sentences()[name] for name in ("en", "de")], strict=True)))
    planted = [(kind, pair) for kind, pair in script.plant(pairs * 2, ("en", "de"), 1)][:64]
    scores = [-9.0 if kind == "misaligned" else -1.0 for kind, _ in planted]
    result = script.find(planted, ("en", "de"), script.CleaningConfig(score=-5.0), scores)
    found = [rule for kind, rule in zip(result.kinds, result.rules, strict=True) if kind == "misaligned"]
    assert "score" in found
    assert None not in found
