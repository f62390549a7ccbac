"""The rules that a config uses, and the pairs that they drop."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.config.language_codes import known_language, scripts
from nmt.data.cleaning.rules.characters import TextLines
from nmt.data.cleaning.rules.language_identifier import identifier
from nmt.data.cleaning.rules.scores import RULES, Score, Scores
from nmt.data.cleaning.score_survey import Bounds, Values
from nmt.data.sources.corpus import Pair
from nmt.errors import NmtError

MEANINGS = {  # of the rules, in the order in which they are applied
    **{name: meaning for name, (meaning, _) in RULES.items()},
    "score": "scored low by the model",  # by the scores of the corpus
    "near_duplicates": "near-duplicates",  # these depend on other pairs: see `folded_hashes` and `same_side`
    "same_source": "more pairs with the same source",
    "same_target": "more pairs with the same target",
}


class Rule(NamedTuple):
    name: str  # a key of MEANINGS, or of a bound of a score its name in reports
    threshold: float  # pairs with a score above it are dropped
    score: Callable[[TextLines, TextLines], Scores] | None  # None: scores of the corpus, on any scale
    sign: int = 1  # -1: the setting is a lower bound; threshold and scores here are negated
    given: str = ""  # the name of these scores of the corpus


@dataclass(frozen=True)
class Judgement:
    """The result of the rules for a chunk of pairs."""

    rules: tuple[Rule, ...]
    scores: npt.NDArray[np.float32]  # [rules, pairs]
    dropped_by: npt.NDArray[np.int64]  # [pairs]: the index of the first rule that drops it; -1: kept

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        return self.dropped_by < 0


def rules_of(settings: schema.CleaningConfig, languages: tuple[str, str], bounds: Bounds = ()) -> tuple[Rule, ...]:
    """The rules that are applied, then those on scores. languages: the codes of source and target.

    Raises NmtError if a rule needs a language and its code is unknown."""
    settings = settings.applied
    if settings.language is not None or settings.script is not None:
        for side, code in zip(("source", "target"), languages, strict=True):
            try:
                known_language(code)
            except NmtError as error:
                raise NmtError(
                    f"the {side} language ({side}_language, or the languages of a corpus): {error}, or set "
                    "data.clean.language and data.clean.script to null"
                ) from None

    def with_languages(score: Score) -> Callable[[TextLines, TextLines], Scores]:
        return lambda sources, targets: score(sources, targets, languages)

    rules = []
    for name, (_, score) in RULES.items():
        threshold: float | None = getattr(settings, name)
        if threshold is not None:
            rules.append(Rule(name, threshold, with_languages(score)))
    return (*rules, *(Rule(rule, sign * limit, None, sign, name) for _, rule, name, limit, sign in bounds))


def not_checked(rules: tuple[Rule, ...], languages: tuple[str, str]) -> Iterator[str]:
    """Yield a message for each of these languages that a rule cannot check."""
    names = {rule.name for rule in rules}
    for code in languages:
        if "language" in names and not identifier().knows(code):
            yield f"data.clean.language: {code} is not among the languages that are identified reliably: not checked"
        elif "language" in names and (unread := identifier().unread_scripts(code)):
            unread_names = " and ".join(sorted(unread))
            yield f"data.clean.language, lines in {unread_names}: {code} cannot be identified in it: not checked"
        if "script" in names and not scripts(code):
            yield f"data.clean.script: the script of {code} is not known: it is not checked"


def judge(pairs: Sequence[Pair], rules: tuple[Rule, ...], given: Mapping[str, Values] = {}) -> Judgement:
    """Score pairs by each rule and decide which are dropped. The result for a pair does not depend on other pairs.

    given: the scores of the corpus by name, each [pairs], for the rules on them. A pair whose score is NaN is kept.
    """
    sources, targets = (TextLines.from_texts([pair[side] for pair in pairs]) for side in (0, 1))
    table = np.zeros((len(rules), len(pairs)), np.float32)
    for row, rule in zip(table, rules, strict=True):
        row[:] = rule.sign * given[rule.given] if rule.score is None else rule.score(sources, targets)
    beyond = table > np.array([rule.threshold for rule in rules], np.float32)[:, None]
    return Judgement(rules, table, np.where(beyond.any(axis=0), beyond.argmax(axis=0) if rules else 0, -1))
