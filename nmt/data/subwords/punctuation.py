"""Punctuation as Moses' normalize-punctuation.perl writes it (“ becomes ", – becomes -, spaces before and after signs):
models such as OPUS-MT were trained on such text. The rules depend on the language and apply across words.

The name of a vocabulary's normalization contains the language of the rules, so that it is part of the model.
"""

import re
from collections.abc import Callable
from functools import cache

from nmt.errors import NmtError
from nmt.files.packages import install_command

_NAME = re.compile(r"moses_([A-Za-z0-9_-]+)\+(.*)")


def name_of(language: str, other: str) -> str:
    """The name of a normalization that comes before the one named `other`."""
    return f"moses_{language}+{other}"


def language_of(name: str) -> str | None:
    """The language in a normalization's name; None if the name has none."""
    match = _NAME.fullmatch(name)
    return match[1] if match else None


def normalized(lines: list[str], language: str) -> list[str]:
    """Each line normalized by the rules for a language. Raises NmtError if sacremoses is not installed."""
    return list(map(_normalizer(language), lines))


@cache
def _normalizer(language: str) -> Callable[[str], str]:
    try:
        from sacremoses import MosesPunctNormalizer
    except ImportError:
        raise NmtError(
            f"this model's vocabulary normalises punctuation, which needs sacremoses: {install_command('marian')}"
        ) from None
    return MosesPunctNormalizer(language).normalize
