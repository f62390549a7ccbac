"""The form in which texts are compared."""

from collections.abc import Callable
from dataclasses import dataclass

from nmt.data.subwords.normalization import comparable


@dataclass(frozen=True)
class TextForm:
    """apply: brings a line into the form; compared: says for people how texts are compared, beside a signature."""

    apply: Callable[[str], str]
    compared: str


# What vocabularies write: a model cannot write a reference in another form.
NORMALIZED = TextForm(comparable, "in NFC with single spaces, without invisible characters")
RAW = TextForm(str, "as they are")
