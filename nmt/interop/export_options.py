"""What a user chooses for an export."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """quantization: one of the format's; lines: text like that to translate, on which the export is compared;
    references: their translations, to score the export by; sentence_splitter: what finds sentences, for engines that
    read it from the export."""

    quantization: str
    lines: Sequence[str]
    references: Sequence[str] | None = None
    sentence_splitter: Path | None = None
