"""The settings in `data.clean`, and of the scores that corpora name; see nmt.config.sections."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import nan
from typing import Any, Literal, NamedTuple, get_args

from nmt.config.declaration import required, text_setting

# The rules of `data.clean` that are on by default.
RuleName = Literal[
    "language", "script", "digits", "symbols", "repetition", "copies", "addresses", "markup", "encoding",
    "near_duplicates",
]  # fmt: skip
RULE_NAMES: tuple[RuleName, ...] = get_args(RuleName)


@dataclass(frozen=True)
class ScoreColumn:
    """Scores in a column of the corpus's own table, an entry of `scores`: `{column: 3}` or `{column: kiwi}`."""

    column: int | str = required(
        "its number, from 1, or its heading; in .jsonl, .parquet and datasets its dotted path, such as `scores.kiwi`",
        affects="text",
    )


class Bound(NamedTuple):
    """A rule on a score."""

    setting: str  # in `data.clean`
    rule: str  # its name in reports: the name of the score, and what is dropped
    score: str
    limit: float
    sign: int  # -1: pairs with a lower score are dropped; 1: with a higher one


@dataclass(frozen=True)
class ScoreBounds:
    """An entry of `scores` in `data.clean`: which pairs are kept by a score that a corpus names, such as `{min: 0.7}`,
    `{max: 4}` or `{keep_best: 0.9, lower_is_better: true}`. Each bound applies by itself. Without a bound, as `{}`, the
    entry only names the score by which `same_source` and `same_target` choose."""

    min: float | None = text_setting(None, "pairs with a lower score are dropped")
    max: float | None = text_setting(None, "pairs with a higher score are dropped")
    keep_best: float | None = text_setting(
        None, "share of the pairs of each corpus that is kept: the pairs with the best scores", above=0, at_most=1
    )
    lower_is_better: bool | None = text_setting(None, "as for MetricX; null: true if `max` is given without `min`")

    @property
    def sign(self) -> int:
        """1 if a higher score is better, -1 if a lower one is."""
        given_alone = self.max is not None and self.min is None
        return -1 if (given_alone if self.lower_is_better is None else self.lower_is_better) else 1

    def bounds(self, name: str, worst: float) -> list[Bound]:
        """The rules on the score of this name. worst: the worst score that `keep_best` keeps."""
        setting, bounds = f"scores.{name}", list[Bound]()
        if self.min is not None:
            bounds.append(Bound(setting, f"{name} below {self.min:g}", name, self.min, -1))
        if self.max is not None:
            bounds.append(Bound(setting, f"{name} above {self.max:g}", name, self.max, 1))
        if self.keep_best is not None:
            bounds.append(Bound(setting, f"{name} not in the best {100 * self.keep_best:g}%", name, worst, -self.sign))
        return bounds


@dataclass(frozen=True)
class CleaningConfig:
    """`data.clean`: rules that drop training pairs that are not translations of each other, or are not sentences.

        clean: {}
        clean: {digits: null, symbols: 0.6}
        clean: {rules: none, scores: {kiwi: {min: 0.7}}, same_target: 1}

    A rule gives each pair a score, and drops it if the score is above the rule's setting; `null` switches a rule off.
    [The rules in detail](../docs/cleaning.md)."""

    language: float | None = text_setting(
        1.0, "how much more likely another language is; 0: equally likely; 1 and above: almost certain", at_least=0
    )
    script: float | None = text_setting(
        0.5, "share of letters in another script than the language's", at_least=0, at_most=1
    )
    digits: float | None = text_setting(0.5, "share of numbers that only one side has", at_least=0, at_most=1)
    symbols: float | None = text_setting(
        0.4, "share of characters that are not letters, digits or white space", at_least=0, at_most=1
    )
    repetition: float | None = text_setting(
        24.0, "length of the longest repetition in characters, such as `ha ha ha ha`", at_least=0
    )
    copies: float | None = text_setting(0.65, "share of words that are the same on both sides", at_least=0, at_most=1)
    addresses: float | None = text_setting(0.5, "share of characters in web and mail addresses", at_least=0, at_most=1)
    markup: float | None = text_setting(0.5, "HTML tags and entities, such as `&amp;`", at_least=0)
    encoding: float | None = text_setting(0.5, "wrongly decoded characters, such as `Ã¤`", at_least=0)
    near_duplicates: bool = text_setting(
        True, "deduplication: drop pairs that equal an earlier one except in case, accents, digits, punctuation, spaces"
    )
    score: float | None = text_setting(
        None,
        "drop pairs whose log-probability per subword, in `scores` of their corpus, is below this, such as -5",
        at_most=0,
    )
    scores: Mapping[str, ScoreBounds] | None = text_setting(
        None, "bounds of the scores that corpora name, such as `{kiwi: {min: 0.7}, mx: {max: 4}}`"
    )
    same_source: int | None = text_setting(
        None, "most pairs with the same source: the best by the first of `scores`, or else the first", at_least=1
    )
    same_target: int | None = text_setting(None, "the same for targets, applied after `same_source`", at_least=1)
    rules: Literal["all", "none"] | tuple[RuleName, ...] = text_setting(
        "all", "the rules of this section that are applied: all, none, or a list of names; `score` and the settings "
        "after it always apply if they are given",
    )  # fmt: skip

    def bounds(self, worst: Mapping[str, float]) -> list[Bound]:
        """The rules on scores. worst: for each score the worst one that `keep_best` keeps; without it, this is NaN."""
        bounds = [] if self.score is None else [Bound("score", "score", "score", self.score, -1)]
        for name, score_bounds in (self.scores or {}).items():
            bounds += score_bounds.bounds(name, worst.get(name, nan))
        return bounds

    @property
    def applied(self) -> "CleaningConfig":
        """The same without the rules that `rules` leaves out."""
        if self.rules == "all":
            return self
        off: dict[str, Any] = dict.fromkeys(set(RULE_NAMES) - set(() if self.rules == "none" else self.rules))
        return replace(self, rules="all", **off | ({"near_duplicates": False} if "near_duplicates" in off else {}))
