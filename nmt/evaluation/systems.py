"""Facts about a system besides its scores: the size of its model, and how fast it translated."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nmt.config.unspaced_scripts import UNSPACED

# A word between spaces; in scripts without spaces, a letter.
_WORD = re.compile(rf"[^\s{UNSPACED}]+|(?=\w)[{UNSPACED}]")


@dataclass(frozen=True)
class System:
    """bytes: of the model's files; None for a service and for a file of translations. words_per_second: of the source,
    as `count_words`, in the time of the translation without loading the model; None if the system was not run.
    terms: the number of glossary terms in the source by `UsedTerm.how`; None if they were not counted."""

    name: str
    bytes: int | None = None
    words_per_second: float | None = None
    terms: Mapping[str, int] | None = None


def count_words(lines: Sequence[str]) -> int:
    """The number of words between spaces. In scripts without spaces, such as Chinese and Thai, each letter counts."""
    return sum(len(_WORD.findall(line)) for line in lines)
