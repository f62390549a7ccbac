"""Which rules there are, which pairs they drop, and that good pairs of eight languages are kept."""

from nmt.config.schema import CleaningConfig
from nmt.data.cleaning.rules.judge import judge, not_checked, rules_of

SURE = ("Die Kinder spielen im Garten hinter dem Haus.", "The children are playing in the garden behind the house.")


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


def test_lines_in_a_script_that_the_identifier_does_not_know_are_kept_and_said() -> None:
    pairs = [("Бу бир китабдыр, сән ону охуйурсан, вә о да охуйур.", SURE[1]), SURE]
    rules = rules_of(CleaningConfig(), ("az", "en"))
    assert judge(pairs, rules).kept.tolist() == [True, False]
    assert list(not_checked(rules, ("az", "en"))) == [
        "data.clean.language, lines in Arab and Cyrl: az cannot be identified in it: not checked"
    ]
    assert list(not_checked(rules_of(CleaningConfig(language=None), ("az", "en")), ("az", "en"))) == []
