"""Texts that are compared line by line."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.errors import NmtError


@dataclass(frozen=True)
class AlignedText:
    """A text, one sentence a line. name: its file, or the model that wrote it; for messages and tables."""

    name: str
    lines: Sequence[str]


def check_aligned(text: AlignedText, others: Sequence[AlignedText]) -> None:
    """Raises NmtError if the text is empty or another one has a different number of lines."""
    count = len(text.lines)
    for other in others:
        if len(other.lines) != count:
            raise NmtError(
                f"{text.name} has {count:,} lines and {other.name} has {len(other.lines):,}: they must be the same "
                "text, line by line"
            )
    if not count:
        raise NmtError(f"{text.name} is empty: there are no lines to score")
