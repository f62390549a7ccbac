"""A file or standard input translated: as a stream, or from file to file in chunks that survive an interruption."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tqdm import tqdm

from nmt.commands import models, translate_file
from nmt.commands.output_format import OutputFormat
from nmt.decoding.chunks import CHUNK_LINES, log_counts
from nmt.decoding.model_loader import files_of, load_settings
from nmt.decoding.translator import Translator
from nmt.distributed.environment import is_launched
from nmt.files import outputs, text


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to translate, with what and where to. source and output None: standard input, standard output.

    processes: how many to start, None: only this one; line_by_line: translate each line as soon as it is read.
    """

    model: Path
    source: Path | None = None
    output: Path | None = None
    format: OutputFormat = field(default_factory=OutputFormat)
    overrides: Sequence[str] = ()
    ensemble: Sequence[Path] = ()
    glossary: Path | None = None
    prefixes: Path | None = None
    line_by_line: bool = False
    processes: int | None = None
    device: str = "auto"

    @property
    def texts(self) -> list[Path]:
        """The text files that are read."""
        return [file for file in (self.source, self.glossary, self.prefixes) if file is not None]

    @property
    def from_file_to_file(self) -> bool:
        """Whether all texts are files, which can be read twice, and so is the output."""
        to_file = self.output is not None and not outputs.is_special(self.output)
        return (
            to_file
            and self.source is not None
            and not self.line_by_line
            and not any(map(outputs.is_special, self.texts))
        )

    def load(self, device: str) -> Translator:
        """The translator on a device."""
        return models.load_translator(self.model, device, self.overrides, self.ensemble, self.glossary)


def translate(request: Request) -> int:
    """Do what is requested; returns the exit status. Raises NmtError for what the user can fix."""
    if not request.from_file_to_file:
        _stream(request)
        return 0
    assert request.source is not None and request.output is not None
    load_settings(request.model)  # raises where it is not a model, before the input is read
    job = translate_file.job(
        request.model,
        request.source,
        request.output,
        {"overrides": list(request.overrides), "format": asdict(request.format)},
        request.processes or 1,
        request.ensemble,
        request.glossary,
        request.prefixes,
    )
    if not is_launched():
        models.log_chosen_files(request.model, *request.ensemble)
    return translate_file.translate(job, request.load, request.format.texts, request.device, request.processes)


def _stream(request: Request) -> None:
    """Translate while reading."""
    read = [*files_of(request.model, *request.ensemble), *request.texts]
    if request.output is not None:
        outputs.check_output(request.output, read)  # before the work of loading
    models.log_chosen_files(request.model, *request.ensemble)
    translator = request.load(request.device)
    with text.lines_in(request.source) as (lines, typed), text.lines_out(request.output, read) as write:
        chunk_lines = 1 if typed or request.line_by_line else CHUNK_LINES
        prefixes = None if request.prefixes is None else text.read_lines(request.prefixes)
        translated = request.format.texts(translator, lines, chunk_lines, prefixes=prefixes)
        for one in _with_progress(translated, request, typed):
            write(one)
    log_counts(translator.counts, translator.longest_source)


def _with_progress(translated: Iterator[str], request: Request, typed: bool) -> Iterator[str]:
    """What is translated, with a progress bar on a terminal where the translations go elsewhere."""
    on_screen = request.output is None and sys.stdout is not None and sys.stdout.isatty()
    if typed or on_screen or sys.stderr is None or not sys.stderr.isatty():
        return translated
    total = None
    if request.source is not None and not outputs.is_special(request.source):
        total = text.survey(request.source, {})
    return iter(tqdm(translated, "translating", total, unit=" lines", leave=False))
