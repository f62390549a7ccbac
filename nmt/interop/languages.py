"""Which languages an imported model translates: as its files say, or as the user says."""

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
    """Codes as the files of a model have them, None where they have none; where: what says so, in messages. A code may
    be one of several languages, such as `mul` or `roa`."""

    source: str | None = None
    target: str | None = None
    where: str = ""

    @classmethod
    def find(cls, about: Mapping[str, Any], name: str) -> "NamedLanguages":
        """Those in the tokenizer_config.json of a model of the hub, else those in the model's name."""
        source, target = about.get("source_lang"), about.get("target_lang")
        if isinstance(source, str) and isinstance(target, str):
            return cls(source, target, "tokenizer_config.json")
        match = _NAME.fullmatch(name)
        return cls(match[1], match[2], f"its name, {name},") if match else cls()


def pairs_of(named: NamedLanguages, tokens: Sequence[str], wanted: Sequence[str]) -> list[LanguagePair]:
    """The pairs of a model that is told the target by a token before the source, or has only one target.

    tokens: the codes of the languages that have a token; wanted: the codes that the user gives, the source first; none:
    all. Raises NmtError if a language is not known, or if the user names another one than the files.
    """
    if wanted and len(wanted) < 2:
        raise NmtError(f"--languages {wanted[0]}: name the source and the target, such as en,de")
    source = wanted[0] if wanted else named.source
    of_files = tokens or [code for code in [named.target] if code is not None]
    targets = list(wanted[1:] or of_files)
    if not source or not targets:
        raise NmtError("the files of the model do not name its languages: give --languages, such as --languages en,de")
    if not tokens and len(targets) > 1:
        raise NmtError(f"--languages: {', '.join(targets)}: this model translates into one language: name it alone")
    if _differ(source, named.source) or (not tokens and _differ(targets[0], named.target)):
        known = ",".join([named.source or "?", *of_files])
        raise NmtError(f"--languages {','.join(wanted)}: {named.where} says {known}: leave out --languages")
    if not tokens:
        return [LanguagePair(source, targets[0])]
    known_targets = {target: matching(target, list(tokens)) for target in targets}
    for target, code in known_targets.items():
        if code is None:
            raise NmtError(f"--languages: {target}: this model translates into {', '.join(tokens)}")
    return [LanguagePair(source, code) for code in dict.fromkeys(known_targets.values()) if code is not None]


def _differ(code: str, named: str | None) -> bool:
    """Whether the files name one language, and a code means another one that is not much like it."""
    if named is None:
        return False
    try:
        is_one = bool(likely_scripts(macrolanguage(known_language(named))))  # `mul` and `roa` have no script
        return is_one and alike(code).isdisjoint(alike(named))
    except NmtError:  # such as ROMANCE, which is no code
        return False


def tags_of(pairs: Sequence[LanguagePair], tokens: Sequence[str]) -> LanguageTags:
    """`data.language_tags` of such a model: one that has learned tokens needs them for a single pair too."""
    return "target_always" if tokens and len(pairs) == 1 else "target"
