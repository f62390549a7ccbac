"""The languages that an imported model translates: from its files, or from the user."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nmt.config.language_codes import known_language, likely_scripts, macrolanguage, matching
from nmt.config.language_pairs import LanguagePair, LanguageTags
from nmt.data.cleaning.rules.language_identifier import alike
from nmt.errors import NmtError

# How OPUS-MT names its models, such as opus-mt-en-de and opus-mt-tc-big-en-fi.
_NAME = re.compile(r"opus-mt(?:-tc)?(?:-(?:tiny|base|big|bible-big))?-([A-Za-z]+)-([A-Za-z]+)")


@dataclass(frozen=True)
class NamedLanguages:
    """The codes of languages in the files of a model; None if the files name none. where: the file or the name that has
    them, for messages. A code can stand for several languages, such as `mul` or `roa`."""

    source: str | None = None
    target: str | None = None
    where: str = ""

    @classmethod
    def find(cls, about: Mapping[str, Any], name: str) -> "NamedLanguages":
        """The languages in the tokenizer_config.json of a model of the hub, or else in the model's name."""
        source, target = about.get("source_lang"), about.get("target_lang")
        if isinstance(source, str) and isinstance(target, str):
            return cls(source, target, "tokenizer_config.json")
        match = _NAME.fullmatch(name)
        return cls(match[1], match[2], f"its name, {name},") if match else cls()


def pairs_of(named: NamedLanguages, tokens: Sequence[str], codes: Sequence[str]) -> list[LanguagePair]:
    """The language pairs of a model with one target, or with a token before the source that names the target.

    tokens: the codes of the languages that have a token; codes: the languages that the user names, the source first, or
    none for all. Raises NmtError if a language is not known, or if the user names another one than the files.
    """
    if codes and len(codes) < 2:
        raise NmtError(f"--languages {codes[0]}: name the source and the target, such as en,de")
    source = codes[0] if codes else named.source
    named_targets = list(tokens)
    if not tokens and named.target is not None:
        named_targets = [named.target]
    targets = list(codes[1:]) or named_targets
    if not source or not targets:
        raise NmtError("the files of the model do not name its languages: give --languages, such as --languages en,de")
    if not tokens and len(targets) > 1:
        raise NmtError(
            f"--languages: {', '.join(targets)}: this model translates into one language: name only that one"
        )
    if _differ(source, named.source) or (not tokens and _differ(targets[0], named.target)):
        named_codes = ",".join([named.source or "?", *named_targets])
        raise NmtError(f"--languages {','.join(codes)}: {named.where} says {named_codes}: leave out --languages")
    if not tokens:
        return [LanguagePair(source, targets[0])]
    known_targets = {target: matching(target, list(tokens)) for target in targets}
    for target, code in known_targets.items():
        if code is None:
            raise NmtError(f"--languages: {target}: this model translates into {', '.join(tokens)}")
    return [LanguagePair(source, code) for code in dict.fromkeys(known_targets.values()) if code is not None]


def _differ(code: str, named: str | None) -> bool:
    """Whether the files name a single language, and the code names another one that is not closely related."""
    if named is None:
        return False
    try:
        is_one_language = bool(likely_scripts(macrolanguage(known_language(named))))  # `mul` and `roa` have no script
        return is_one_language and alike(code).isdisjoint(alike(named))
    except NmtError:  # such as ROMANCE, which is not a language code
        return False


def tags_of(pairs: Sequence[LanguagePair], tokens: Sequence[str]) -> LanguageTags:
    """`data.language_tags` of such a model. A model that has learned tokens needs them also for a single pair."""
    return "target_always" if tokens and len(pairs) == 1 else "target"
