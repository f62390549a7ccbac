"""The language pairs that a model translates, and the tokens that select a pair.

A model of several pairs reads a token such as `<2fr>` before each source, which selects French as the target (Johnson
et al. 2017, Google's Multilingual Neural Machine Translation System, section 3). `<en> <2fr>` also names the source
language (S-ENC-T-ENC of Wu et al. 2021, Language Tags Matter for Zero-Shot Neural Machine Translation). Or each side
begins with the token of its own language, the source with `<en>` and the target with `<fr>` (Fan et al. 2021, Beyond
English-Centric Multilingual Machine Translation, section 2.2), as in M2M-100, NLLB and mBART. A model of one pair needs
no token, and has none unless it is trained from a model that has tokens.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, assert_never

from nmt.config.language_codes import matching, normal
from nmt.config.suggestions import did_you_mean
from nmt.errors import NmtError

log = logging.getLogger("nmt")

LanguageTags = Literal["target", "target_always", "both", "sides"]
_ALWAYS = ("target_always", "sides")  # also for one pair


class LanguagePair(NamedTuple):
    """The codes of two languages. The source is empty if it is unknown and the model does not need it."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


@dataclass(frozen=True)
class LanguagePairs:
    """The language pairs of a model."""

    pairs: tuple[LanguagePair, ...]  # the trained pairs, each once
    tagged: LanguageTags = "target"  # the value of data.language_tags

    @classmethod
    def from_pairs(cls, pairs: Iterable[LanguagePair], tagged: LanguageTags) -> "LanguagePairs":
        """From pairs that may contain duplicates."""
        return cls(tuple(dict.fromkeys(pairs)), tagged)

    @property
    def several(self) -> bool:
        return len(self.pairs) > 1

    @property
    def sources(self) -> list[str]:
        """All source languages, each once."""
        return list(dict.fromkeys(pair.source for pair in self.pairs))

    @property
    def targets(self) -> list[str]:
        """All target languages, each once."""
        return list(dict.fromkeys(pair.target for pair in self.pairs))

    @property
    def sides(self) -> tuple[str, str]:
        """All source languages and all target languages, for reports."""
        return ", ".join(self.sources), ", ".join(self.targets)

    def has(self, pair: LanguagePair) -> bool:
        """Whether the pair was trained on. Case does not matter, and `_` is the same as `-`."""
        return tuple(map(normal, pair)) in {tuple(map(normal, trained)) for trained in self.pairs}

    @property
    def has_tags(self) -> bool:
        """Whether there are tokens that name languages."""
        return self.several or self.tagged in _ALWAYS

    @property
    def tags_for_one(self) -> LanguageTags | None:
        """The value of data.language_tags with which a run of one pair has the tokens that a model of these pairs
        expects. None if the model expects no tokens, or if there is no such value."""
        if not self.has_tags or self.tagged == "both":
            return None
        return "target_always" if self.tagged == "target" else self.tagged

    def tags(self, pair: LanguagePair, side: int = 0) -> tuple[str, ...]:
        """The tokens before a source (side 0) or a target (side 1) of this pair."""
        if not self.has_tags:
            return ()
        match self.tagged:
            case "sides":
                return (f"<{pair[side]}>",)
            case "target" | "target_always":
                return () if side else (f"<2{pair.target}>",)
            case "both":
                return () if side else (f"<{pair.source}>", f"<2{pair.target}>")
            case _:
                assert_never(self.tagged)

    def tag_count(self, side: int = 0) -> int:
        """How many tokens are before each source (side 0) or each target (side 1)."""
        return len(self.tags(self.pairs[0], side)) if self.pairs else 0

    def choose(self, to: str | None = None, from_: str | None = None) -> LanguagePair:
        """The pair of these languages. `to` and `from_` may be left out if only one choice remains. The spelling of
        codes may differ from the model's: see `nmt.config.language_codes.matching`.

        A pair of known languages that was not trained is allowed, with a warning, once. Raises NmtError, with the known
        languages, if a language is unknown or if there are several choices.
        """
        source = _known(from_, self.sources, "from", self.targets)
        target = _known(to, self.targets, "into", self.sources)
        if not target:
            target = _only([pair.target for pair in self.pairs if source in ("", pair.source)])
        if not target:
            raise NmtError(f"no target language: give --to (in Python and HTTP: to): one of {', '.join(self.targets)}")
        if not source:
            source = _only([pair.source for pair in self.pairs if pair.target == target])
        if not source and self.tagged in ("both", "sides"):
            raise NmtError(
                f"no source language: give --from (in Python: from_, in HTTP: from): one of {', '.join(self.sources)}"
            )
        pair = LanguagePair(source, target)
        if warning := self.warning(pair):
            _warn_once(warning, self.pairs)
        return pair

    def warning(self, pair: LanguagePair) -> str:
        """A warning for a pair that was not trained; empty for trained pairs, and if the source is unknown."""
        if not pair.source or pair in self.pairs:
            return ""
        return f"{pair.source} to {pair.target} was not trained (zero-shot): the translations may be bad"


def _known(code: str | None, languages: list[str], direction: str, other_side: list[str]) -> str:
    """The code in the model's spelling; empty for None. other_side: languages for which no correction is suggested."""
    if code is None:
        return ""
    if meaning := matching(code, languages):
        return meaning
    hint = "" if normal(code) in map(normal, other_side) else did_you_mean(code, languages)
    raise NmtError(f"language {code!r}: this model translates {direction} {', '.join(languages)}{hint and f'; {hint}'}")


def _only(languages: list[str]) -> str:
    """The language if all are the same; empty otherwise."""
    return languages[0] if len(set(languages)) == 1 else ""


@cache
def _warn_once(message: str, _: tuple[LanguagePair, ...]) -> None:
    """Warn once for each model, also in a service."""
    log.warning("%s", message)
