"""Which rules there are, which pairs they drop, and that good pairs of eight languages are kept."""

from itertools import permutations

import numpy as np
import pytest

from nmt.config import reader
from nmt.config.schema import CleaningConfig
from nmt.data.cleaning.rules.judge import MEANINGS, judge, not_checked, rules_of
from nmt.errors import NmtError

from .test_language_identifier import NAMES, SENTENCES

SURE = ("Die Kinder spielen im Garten hinter dem Haus.", "The children are playing in the garden behind the house.")


def names(settings: CleaningConfig) -> list[str]:
    return [rule.name for rule in rules_of(settings, ("de", "en"))]


def test_null_switches_a_rule_off() -> None:
    settings = reader.parse(CleaningConfig, "{language: null, digits: null, score: -4}", "test")
    everything = [name for name in MEANINGS if name != "near_duplicates"]
    assert names(settings) == [name for name in everything if name not in ("language", "digits")]
    assert names(CleaningConfig()) == [name for name in everything if name != "score"]
    with pytest.raises(NmtError, match="script: expected number or null, at least 0, at most 1; found 2"):
        reader.parse(CleaningConfig, "{script: 2}", "test")


def test_a_pair_counts_for_the_first_rule_that_drops_it() -> None:
    rules = rules_of(CleaningConfig(), ("de", "en"))
    pairs = [SURE, SURE[::-1], ("<b>FÃ¼r</b>", "For"), ("<b>Ja</b>", "Yes"), ("", "")]
    judgement = judge(pairs, rules)
    assert [rules[rule].name if rule >= 0 else None for rule in judgement.dropped_by] == [
        None, "language", "encoding", "markup", None,
    ]  # fmt: skip
    assert judgement.kept.tolist() == [True, False, False, False, True]
    assert judge([], rules).kept.shape == (0,)
    assert judge(pairs, ()).kept.all()


@pytest.mark.parametrize("languages", list(permutations(NAMES, 2)), ids="-".join)
def test_good_pairs_are_kept(languages: tuple[str, str]) -> None:
    columns = [NAMES.index(name) for name in languages]
    pairs = [(row[columns[0]], row[columns[1]]) for row in SENTENCES]
    judgement = judge(pairs, rules_of(CleaningConfig(), languages))
    assert judgement.kept.all(), [pairs[place] for place in np.flatnonzero(~judgement.kept)]


def test_lines_in_a_script_that_the_identifier_does_not_know_are_kept_and_said() -> None:
    pairs = [("Бу бир китабдыр, сән ону охуйурсан, вә о да охуйур.", SURE[1]), SURE]
    rules = rules_of(CleaningConfig(), ("az", "en"))
    assert judge(pairs, rules).kept.tolist() == [True, False]
    assert list(not_checked(rules, ("az", "en"))) == [
        "data.clean.language, lines in Arab and Cyrl: az cannot be identified in it: not checked"
    ]
    assert list(not_checked(rules_of(CleaningConfig(language=None), ("az", "en")), ("az", "en"))) == []
