"""The form in which texts are compared."""

from collections.abc import Callable
from dataclasses import dataclass

from nmt.data.subwords.normalization import comparable


@dataclass(frozen=True)
class TextForm:
    """apply: converts a line to the form; compared: how texts are compared, in words, for output beside a signature."""

    apply: Callable[[str], str]
    compared: str


# The form in which vocabularies write: a model cannot write a reference in another form.
NORMALIZED = TextForm(comparable, "in NFC with single spaces, without invisible characters")
RAW = TextForm(str, "as they are")
