"""Which languages an imported model translates: as its files say, or as the user says."""

from collections.abc import Sequence

from nmt.config.language_codes import matching
from nmt.config.language_pairs import LanguagePair, LanguageTags
from nmt.errors import NmtError


def pairs_of(
    source: str | None, target: str | None, tokens: Sequence[str], wanted: Sequence[str]
) -> list[LanguagePair]:
    """The pairs of a model that is told the target by a token before the source, or has only one target.

    source, target: codes as its files have them, if they do; tokens: the codes of the languages that have a token;
    wanted: the codes that the user gives, the source first; none: all. Raises NmtError if a language is not known.
    """
    if wanted and len(wanted) < 2:
        raise NmtError(f"--languages {wanted[0]}: name the source and the target, such as en,de")
    if wanted:
        source, *targets = wanted
    else:
        targets = list(tokens) or ([] if target is None else [target])
    if not source or not targets:
        raise NmtError("the files of the model do not name its languages: give --languages, such as --languages en,de")
    if not tokens and len(targets) > 1:
        raise NmtError(f"--languages: {', '.join(targets)}: this model translates into one language: name it alone")
    if not tokens:
        return [LanguagePair(source, targets[0])]
    known = {target: matching(target, list(tokens)) for target in targets}
    for target, code in known.items():
        if code is None:
            raise NmtError(f"--languages: {target}: this model translates into {', '.join(tokens)}")
    return [LanguagePair(source, code) for code in dict.fromkeys(known.values()) if code is not None]


def tags_of(pairs: Sequence[LanguagePair], tokens: Sequence[str]) -> LanguageTags:
    """`data.language_tags` of such a model: one that has learned tokens needs them for a single pair too."""
    return "target_always" if tokens and len(pairs) == 1 else "target"
