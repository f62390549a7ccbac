"""The options of `nmt translate`. Loads no PyTorch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.commands.output_format import OutputFormat
from nmt.documents.file_formats import DocumentFormat, check_lines, check_name, format_of
from nmt.errors import NmtError
from nmt.files import outputs


@dataclass(frozen=True, kw_only=True)
class TranslationJob:
    """The options of a translation."""

    model: Path  # or the file of an endpoint
    source: Path | None = None  # None: standard input
    output: Path | None = None  # None: standard output
    format: OutputFormat = field(default_factory=OutputFormat)
    to: str | None = None  # languages, if the model has several
    from_: str | None = None
    overrides: Sequence[str] = ()
    ensemble: Sequence[Path] = ()
    glossary: Path | None = None
    prefixes: Path | None = None
    line_by_line: bool = False  # translate each line as soon as it is read
    processes: int | None = None  # to start; None: translate in this process
    only_missing: bool = True  # in a document with both languages: only texts without a translation
    review_below: int = 0  # in PO and XLIFF: note units with a lower confidence
    device: str = "auto"
    dry_run: bool = False  # with an endpoint: show requests and a forecast only

    @property
    def texts(self) -> list[Path]:
        """The text files to read."""
        return [file for file in (self.source, self.glossary, self.prefixes) if file is not None]

    @property
    def from_file_to_file(self) -> bool:
        """Whether the output and all texts are regular files, which can be read twice."""
        if self.source is None or self.output is None or self.line_by_line:
            return False
        return not any(map(outputs.is_special, (self.output, *self.texts)))

    @property
    def document_format(self) -> DocumentFormat | None:
        """The format of the source, None if it is not a document. With markup, each line is a separate text. Raises
        NmtError for options that cannot be used with documents, and for documents in unknown formats."""
        document = format_of(self.source)
        if self.format.markup:
            if document is not None and not document.has_marked_lines:
                raise NmtError(f"{self.source}: {document.name} does not have lines with tags: leave out --markup")
            document = None
        elif document is None and self.source is not None:
            check_lines(self.source)
        if not self.only_missing and not (document and document.translations):
            raise NmtError(
                "--retranslate is for PO, XLIFF, JSON and ARB files, which can contain translations: leave it out"
            )
        if self.review_below and not (document and document.translations == "file"):
            raise NmtError("--review-below is for PO and XLIFF files, whose units can have notes: leave it out")
        if document is None:
            return None
        if self.output is None:
            raise NmtError(
                f"{self.source}: {document.name}: add --output FILE; to translate its lines as plain text: nmt "
                f"translate MODEL < {self.source}"
            )
        if self.format != OutputFormat() or self.prefixes or self.line_by_line or self.processes:
            raise NmtError(
                f"{self.source}: {document.name} is translated as a whole: leave out --n-best, --scores, --format, "
                "--order, --prefixes, --line-by-line and --nproc-per-node"
            )
        if self.output.is_dir():
            raise NmtError(f"{self.output}: a folder: name a file in it")
        if not self.from_file_to_file:
            raise NmtError(f"{self.source}: {document.name}: it and --output must be regular files")
        check_name(self.output, document)
        return document
