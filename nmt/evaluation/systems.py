"""Facts about a system besides its scores: the size of its model, and how fast it translated."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nmt.config.unspaced_scripts import UNSPACED
from nmt.terms.glossary import Glossary
from nmt.terms.used_term import UsedTerm

# A word between spaces; in scripts without spaces, a letter.
_WORD = re.compile(rf"[^\s{UNSPACED}]+|(?=\w)[{UNSPACED}]")


@dataclass(frozen=True)
class TermsFound:
    """How many terms of a glossary the source has, and what became of them: see `UsedTerm.how`. share: of those in
    their place; None if there are no terms."""

    found: int
    own: int
    learned: int
    placed: int
    failed: int
    share: float | None

    @classmethod
    def of(cls, how: Mapping[str, int]) -> "TermsFound":
        """how: the number of terms by `UsedTerm.how`."""
        own, learned, placed, failed = (how.get(name, 0) for name in ("own", "learned", "placed", "failed"))
        found = sum(how.values())
        return cls(found, own, learned, placed, failed, (found - failed) / found if found else None)


def terms_in_text(glossary: Glossary, line: str, text: str) -> Iterator[UsedTerm]:
    """The terms of a line whose translation is known as text only. They are `own` if the text contains one of their
    forms, also in a longer word: an inflected form counts."""
    for _, _, found_as, term in glossary.find(line):
        target = next((form for form in term.targets if form.casefold() in text.casefold()), None)
        yield UsedTerm(term.source, target or term.target, "own" if target else "failed", found_as)


@dataclass(frozen=True)
class System:
    """bytes: of the model's files; None for a service and for a file of translations. words_per_second: of the source,
    as `count_words`, in the time of the translation without loading the model; None if the system was not run. terms:
    None without a glossary."""

    name: str
    bytes: int | None = None
    words_per_second: float | None = None
    terms: TermsFound | None = None


def count_words(lines: Sequence[str]) -> int:
    """The number of words between spaces. In scripts without spaces, such as Chinese and Thai, each letter counts."""
    return sum(len(_WORD.findall(line)) for line in lines)
