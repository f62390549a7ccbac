"""A file or standard input translated: as a stream, or from file to file in chunks that survive an interruption."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.commands.file_job import FileJob
from nmt.commands.output_format import OutputFormat
from nmt.commands.progress import following, line_bar
from nmt.config.language_pairs import LanguagePair
from nmt.decoding.chunks import log_counts
from nmt.decoding.translator import Translator
from nmt.distributed.environment import FILE_JOB, is_launched
from nmt.documents.file_formats import Format, check_lines, format_of
from nmt.errors import NmtError
from nmt.files import outputs, text
from nmt.loading.models import ModelsOfCommand

if TYPE_CHECKING:
    from nmt.documents.opened import OpenedDocument

_RESTARTS = 3  # of all ranks, after one is killed


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to translate, with what and where to."""

    model: Path
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
    processes: int | None = None  # how many to start; None: only this one
    only_missing: bool = True  # of a document with both languages
    device: str = "auto"

    @property
    def texts(self) -> list[Path]:
        """The text files that are read."""
        return [file for file in (self.source, self.glossary, self.prefixes) if file is not None]

    @property
    def from_file_to_file(self) -> bool:
        """Whether the output is a file, and all texts are files, which can be read twice."""
        if self.source is None or self.output is None or self.line_by_line:
            return False
        return not any(map(outputs.is_special, (self.output, *self.texts)))

    @property
    def document_format(self) -> Format | None:
        """The format of a source that is a document. With markup, each line is a text by itself. Raises NmtError for
        what is not possible with documents, and for documents of other formats."""
        found = format_of(self.source)
        if self.format.markup:
            if found is not None and not found.has_marked_lines:
                raise NmtError(f"{self.source}: {found.name}, no lines with tags: leave out --markup")
            found = None
        elif found is None and self.source is not None:
            check_lines(self.source)
        if not self.only_missing and not (found and found.translations):
            raise NmtError("--retranslate is for PO, XLIFF, JSON and ARB files, whose translations stay: leave it out")
        if found is None:
            return None
        if self.output is None:
            raise NmtError(
                f"{self.source}: {found.name}: add --output FILE; to translate its lines as they are: nmt translate "
                f"MODEL < {self.source}"
            )
        if self.format != OutputFormat() or self.prefixes or self.line_by_line:
            raise NmtError(
                f"{self.source}: {found.name}, which is translated as a whole: leave out --n-best, --scores, --format, "
                "--prefixes and --line-by-line"
            )
        if self.output.is_dir():
            raise NmtError(f"{self.output}: a folder: name a file in it")
        if not self.from_file_to_file:
            raise NmtError(f"{self.source}: {found.name}: it and --output must be files, no pipes and no devices")
        return found

    def open_document(self, format: Format, languages: LanguagePair) -> "OpenedDocument":
        """The source. Raises NmtError as OpenedDocument.read does."""
        from nmt.documents.opened import OpenedDocument  # here: most texts are lines

        assert self.source is not None
        only, output = self.only_missing, self.output
        source, target = languages
        return OpenedDocument.read(
            self.source, format, language=source, target_language=target, only_missing=only, output=output
        )

    def open_models(self) -> ModelsOfCommand:
        """Raises NmtError as `ModelsOfCommand.open`."""
        return ModelsOfCommand.open(self.model, self.ensemble, self.to, self.from_)


def translate(request: Request) -> int:
    """Do what is requested; returns the exit status. Raises NmtError for what the user can fix."""
    format, opened = request.document_format, request.open_models()
    document = None if format is None else request.open_document(format, opened.pair)
    if document is None and not request.from_file_to_file:
        _stream(request, opened)
        return 0
    job = job_of(request, opened, document)
    if not is_launched():
        opened.log()

    def load(device: str) -> Translator:
        translator = opened.translator(device, request.overrides, request.glossary)
        if document is not None:  # which has patterns of its own
            keep = (*translator.decoding.keep, *document.keep)
            translator.decoding = replace(translator.decoding, keep=keep)
        return translator

    texts = document.translations if document else request.format.texts
    return run_job(job, load, texts, request.device, request.processes)


def job_of(request: Request, opened: ModelsOfCommand, document: "OpenedDocument | None" = None) -> FileJob:
    """The job of translating from file to file. Raises NmtError as FileJob.of does."""
    assert request.source is not None and request.output is not None
    glossary = [] if request.glossary is None else [request.glossary]
    files = {"model": opened.files, "glossary": glossary}
    options: dict[str, object] = {"overrides": [*request.overrides], "format": asdict(request.format)}
    if document is not None:
        options["only_missing"] = request.only_missing
    if opened.model.languages.several:
        options["languages"] = opened.pair
    processes = request.processes or 1
    return FileJob.of(files, request.source, request.output, options, processes, request.prefixes, document)


def run_job(
    job: FileJob,
    load: Callable[[str], Translator],
    texts: Callable[..., Iterator[str]],
    device: str,
    processes: int | None,
) -> int:
    """Do a job in this process, or start `processes` others with the arguments of this one; each does its share.

    `load` opens the translator on a device; `texts` as in FileJob.translate. Returns the exit status. Raises NmtError
    as a FileJob does.
    """
    if is_launched():
        from nmt.distributed import ranks as distributed  # loads PyTorch

        if os.environ.get(FILE_JOB) != job.key:
            raise NmtError("the model or the input has changed since the job was started: run nmt translate again")
        ranks, where = distributed.from_environment(device)
        job.translate(load(str(where)), texts, ranks.rank, ranks.size)
        return 0
    with job.locked(), line_bar("translating", job.lines, job.lines_done()) as bar:
        if processes is None:
            translator = load(device)
            translator.on_lines = bar.update
            job.translate(translator, texts)
        else:
            from nmt.distributed import launch  # loads PyTorch

            os.environ[FILE_JOB] = job.key
            with following(bar, job.lines_done):
                status = launch.launch(sys.argv[1:], processes, _RESTARTS)
            if status == 130:
                raise KeyboardInterrupt
            if status:
                return status
        counts, longest = job.finish()
    log_counts(counts, longest)
    return 0


def _stream(request: Request, opened: ModelsOfCommand) -> None:
    """Translate while reading."""
    read = [*opened.files, *request.texts]
    if request.output is not None:
        outputs.check_output(request.output, read)  # before the work of loading
    opened.log()
    translator = opened.translator(request.device, request.overrides, request.glossary)
    lines, typed = text.lines_in(request.source)
    with text.lines_out(request.output, read) as write:
        chunk_lines = 1 if typed or request.line_by_line else None
        prefixes = None if request.prefixes is None else text.read_lines(request.prefixes)
        # What writes to a pipe may wait for translations before it writes more.
        ahead = chunk_lines is None and request.source is not None and not any(map(outputs.is_special, request.texts))
        translated = request.format.texts(translator, lines, chunk_lines, prefixes=prefixes, read_ahead=ahead)
        # A progress bar, on a terminal where the translations go elsewhere.
        hidden = typed or (request.output is None and sys.stdout is not None and sys.stdout.isatty())
        with line_bar("translating", None, hidden=hidden) as bar:
            if not bar.disable and request.source is not None and not outputs.is_special(request.source):
                bar.reset(text.survey(request.source, {}))
            translator.on_lines = bar.update
            for row in translated:
                write(row)
    log_counts(translator.counts, translator.longest_part)
