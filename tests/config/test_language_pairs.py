"""Which languages are meant, and what is said where that is not clear."""

import logging

import pytest

from nmt.config.language_codes import matching
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.errors import NmtError


def pairs_of(text: str, tagged: str = "target") -> LanguagePairs:
    """`en-de de-en` as pairs."""
    return LanguagePairs.from_pairs((LanguagePair(*pair.split("-")) for pair in text.split()), tagged)  # type: ignore[arg-type]


MANY = "en-de de-en en-fr"


def test_tokens_tell_the_target_or_both() -> None:
    pair = LanguagePair("en", "fr")
    assert pairs_of(MANY).tags(pair) == ("<2fr>",) and pairs_of(MANY).tag_count() == 1
    assert pairs_of(MANY, "both").tags(pair) == ("<en>", "<2fr>") and pairs_of(MANY, "both").tag_count() == 2
    assert not pairs_of(MANY, "both").tags(pair, side=1) and not pairs_of("en-fr", "both").tags(pair)
    assert pairs_of("en-fr", "target_always").tags(pair) == ("<2fr>",)
    for pairs in (pairs_of(MANY, "sides"), pairs_of("en-fr", "sides")):
        assert [pairs.tags(pair, side) for side in (0, 1)] == [("<en>",), ("<fr>",)] and pairs.tag_count(side=1) == 1


@pytest.mark.parametrize(
    ("pairs", "to", "from_", "expected"),
    [
        (MANY, "fr", None, "en-fr"),
        (MANY, "FR", "EN", "en-fr"),
        (MANY, None, "de", "de-en"),  # the only pair from there
        ("en-pt_BR en-de", "pt-br", None, "en-pt_BR"),
        ("de-en fr-en", None, None, "-en"),  # the source is not needed
        ("de-en fr-en", None, "fr", "fr-en"),
    ],
)
def test_what_is_left_out_where_there_is_one_choice(pairs: str, to: str, from_: str, expected: str) -> None:
    assert str(pairs_of(pairs).choose(to, from_)) == expected


@pytest.mark.parametrize(
    ("known", "meant"),
    [
        ("de", "DE de-DE de_AT deu"),
        ("zh-Hans en", "zh zh-CN zh_SG zh-Hans-CN"),
        ("pt-BR", "pt pt-br por pt-Latn"),
        ("swh_Latn swe_Latn", "sw swh"),
    ],
)
def test_a_code_means_the_only_language_that_it_can_mean(known: str, meant: str) -> None:
    codes = known.split()
    assert [matching(code, codes) for code in meant.split()] == [codes[0]] * len(meant.split())


@pytest.mark.parametrize(
    ("known", "others"),
    [
        ("de", "nl d de1 nds deutsch"),
        ("zh-Hans", "zh-TW zh-Hant zh-HK yue"),
        ("zh-Hans zh-Hant", "zh zho"),
        ("pt-BR", "pt-PT pt_AO por-PT"),
        ("hr", "sr bs"),
    ],
)
def test_a_code_means_no_other_language_and_no_choice(known: str, others: str) -> None:
    assert [matching(code, known.split()) for code in others.split()] == [None] * len(others.split())


@pytest.mark.parametrize(
    ("pairs", "to", "from_", "message"),
    [
        (MANY, None, None, "no target language: give --to (in Python and HTTP: to): one of de, en, fr"),
        (MANY, "frr", None, "language 'frr': this model translates into de, en, fr; did you mean fr?"),
        (MANY, "en", "fr", "language 'fr': this model translates from en, de"),
    ],
)
def test_unknown_languages_and_choices_are_errors_that_list_the_known(
    pairs: str, to: str, from_: str, message: str
) -> None:
    with pytest.raises(NmtError) as refused:
        pairs_of(pairs).choose(to, from_)
    assert str(refused.value) == message


def test_with_tokens_of_both_sides_the_source_is_needed() -> None:
    with pytest.raises(NmtError, match=r"no source language: give --from .*: one of de, fr"):
        pairs_of("de-en fr-en", "both").choose("en")
    assert pairs_of("de-en fr-en", "both").choose("en", "fr") == ("fr", "en")


def test_a_pair_that_was_not_trained_gives_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    pairs = pairs_of("en-de de-en en-it")
    with caplog.at_level(logging.WARNING, logger="nmt"):
        assert pairs.choose("it", "en") == ("en", "it")
        assert caplog.messages == []
        assert pairs.choose("it", "de") == pairs.choose("it", "de") == ("de", "it")
    assert caplog.messages == ["de to it was not trained (zero-shot): the translations may be bad"]
