"""What became of a glossary term in a translation."""

from dataclasses import dataclass
from typing import Literal

How = Literal["own", "learned", "placed", "failed"]


@dataclass(frozen=True)
class UsedTerm:
    """A term in a line, and its translation.

    source: the term as it is written in the glossary; target: as it is written in the translation, or for `failed` in
    the glossary; found_as: the source term as the line has it. how:

    - own: the model's own translation has it, or an inflected form of it
    - learned: likewise, of a model that was told the target term
    - placed: it replaced the words that translate the source term
    - failed: it was not inserted, and the translation of the source term is the model's own
    """

    source: str
    target: str
    how: How
    found_as: str
