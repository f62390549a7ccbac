"""What is compared: texts line by line, each with a name for messages and tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.errors import NmtError


@dataclass(frozen=True)
class Lines:
    """A text, one sentence a line, and what to call it: its file, or the model that wrote it."""

    name: str
    lines: Sequence[str]


def check_alike(text: Lines, others: Sequence[Lines]) -> None:
    """Raises NmtError where the texts are empty or do not have as many lines as each other."""
    count = len(text.lines)
    for other in others:
        if len(other.lines) != count:
            raise NmtError(
                f"{text.name} has {count:,} lines and {other.name} {len(other.lines):,}: they must be "
                "the same text, line by line"
            )
    if not count:
        raise NmtError(f"{text.name} has no lines: there is nothing to score")
