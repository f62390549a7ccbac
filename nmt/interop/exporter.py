"""What `nmt export` needs of a format: an object behind `Exporter`, in the room of the program that it is for.

Loads no PyTorch, so that the command line can name the formats.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from nmt.errors import NmtError

if TYPE_CHECKING:
    from nmt.checkpoints.model_file import Checkpoint

Format = Literal["ctranslate2", "marian", "argos", "bergamot"]


@dataclass(frozen=True)
class ExportOptions:
    """What a user chooses. quantization: one of the format's; lines: text like that to translate, if it is given;
    sentence_splitter: what finds sentences, for programs that read it from the export."""

    quantization: str
    lines: Sequence[str] | None = None
    sentence_splitter: Path | None = None


class Exporter(Protocol):
    """Writes models for one program.

    program: its name; quantizations: the types of weights that it has, the default first; suffix: the end of the name
    of a file that it can write instead of a folder, for a model of one pair of languages; has_splitter: whether a
    splitter of sentences is a part of what it writes.
    """

    program: str
    quantizations: Sequence[str]
    suffix: str | None
    has_splitter: bool

    def check(self, loaded: "Checkpoint") -> None:
        """Raises NmtError if a package is missing, or, with the setting, for a Transformer that the program cannot
        represent: before any work."""

    def write(self, destination: Path, loaded: "Checkpoint", options: ExportOptions) -> None:
        """Write model, vocabulary, settings and model card into an existing empty folder; or in place of a file, see
        `suffix`. Raises NmtError for options that cannot be used."""

    def translate(self, destination: Path, loaded: "Checkpoint", lines: Sequence[str]) -> list[str] | None:
        """The translations by the program of what was written, by greedy search on the CPU, into the first of the
        model's languages; None if it cannot be called from Python."""

    def notes(self, loaded: "Checkpoint", options: ExportOptions) -> list[str]:
        """What the user must know of the program: how it is told the languages, what it does otherwise than nmt."""


def choose_quantization(exporter: Exporter, format: Format, quantization: str | None) -> str:
    """The one that was asked for, or the default. Raises NmtError if the format does not have it."""
    known = exporter.quantizations
    if quantization is None or quantization in known:
        return quantization or known[0]
    fix = f"choose one of {', '.join(known)}" if len(known) > 1 else f"{format} is always {known[0]}: leave it out"
    raise NmtError(f"--quantization {quantization}: {fix}")
