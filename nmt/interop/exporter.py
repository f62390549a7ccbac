"""The interface of export formats: one `Exporter` for each program, in the folder of that program.

This module does not load PyTorch, so that the command line can list the formats.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from nmt.errors import NmtError

if TYPE_CHECKING:
    from nmt.checkpoints.model_file import Checkpoint
    from nmt.config.schema import Config
    from nmt.data.subwords.vocabulary import Vocabulary

Format = Literal["ctranslate2", "marian", "argos", "bergamot"]


@dataclass(frozen=True)
class ExportOptions:
    """The user's options.

    quantization: one of the format's types; lines: sample text, or None; sentence_splitter: a model that splits text
    into sentences, for programs that read it from the export.
    """

    quantization: str
    lines: Sequence[str] | None = None
    sentence_splitter: Path | None = None


class Exporter(Protocol):
    """Writes models for one program.

    program: the name of the program; quantizations: its types of weights, the default first; suffix: of a file that can
    be written instead of a folder, for a model of one language pair; has_splitter: whether the export can contain a
    sentence splitter; has_shortlist: whether it contains the model's shortlist; model_values: for settings of `model`,
    by name, the values that the program supports, the usual one first.
    """

    program: str
    quantizations: Sequence[str]
    suffix: str | None
    has_splitter: bool
    has_shortlist: bool
    model_values: Mapping[str, Collection[object]]

    def load_package(self) -> object:
        """Called before any work. Raises NmtError if a package that the export needs is missing."""

    def check(self, config: "Config", vocabulary: "Vocabulary | None" = None) -> None:
        """Raises NmtError, which names the setting, if the program cannot represent a Transformer with these settings
        and this vocabulary."""

    def write(self, destination: Path, loaded: "Checkpoint", options: ExportOptions) -> None:
        """Write model, vocabulary, settings and model card into an existing empty folder, or into a file (see
        `suffix`). Raises NmtError for options that cannot be used."""

    def translate(self, destination: Path, loaded: "Checkpoint", lines: Sequence[str]) -> list[str] | None:
        """The program's translations with the exported model, by greedy search on the CPU, for the model's first
        language pair. None if the program cannot be called from Python."""

    def notes(self, loaded: "Checkpoint", options: ExportOptions) -> list[str]:
        """Sentences for the user: how the program is told the languages, and how it differs from nmt."""


def choose_quantization(exporter: Exporter, format: Format, quantization: str | None) -> str:
    """The requested type of weights, or the default. Raises NmtError if the format does not have it."""
    types = exporter.quantizations
    if quantization is None or quantization in types:
        return quantization or types[0]
    fix = f"choose one of {', '.join(types)}" if len(types) > 1 else f"{format} is always {types[0]}: leave it out"
    raise NmtError(f"--quantization {quantization}: {fix}")
