"""`nmt translate`: translates documents as a whole, files in chunks that survive an interruption, and streams."""

import logging
import os
import sys
from dataclasses import replace

from nmt.commands.file_job import FileJob, counts_of
from nmt.commands.progress import following, line_bar, stream_bar
from nmt.commands.translation_job import TranslationJob
from nmt.decoding.chunks import log_counts
from nmt.decoding.translation import Rated
from nmt.distributed import launch
from nmt.distributed import ranks as distributed
from nmt.distributed.environment import FILE_JOB, is_launched
from nmt.documents.file_formats import DocumentFormat
from nmt.documents.opened import OpenedDocument
from nmt.errors import NmtError
from nmt.files import atomic, outputs, text
from nmt.loading.command_models import ModelsOfCommand

log = logging.getLogger("nmt")

_RESTARTS = 3  # of all ranks, after one is killed
_DOCUMENT_LINES = 500  # of a document that are translated together, because alignments take memory


def open_models(request: TranslationJob) -> ModelsOfCommand:
    """Raises NmtError as `ModelsOfCommand.open`."""
    return ModelsOfCommand.open(request.model, request.ensemble, request.to, request.from_)


def translate(request: TranslationJob) -> int:
    """Translate, and return the exit status. Raises NmtError for problems that the user can fix."""
    if request.dry_run:
        raise NmtError(f"--dry-run is for an endpoint: {request.model} is a model: leave it out")
    document_format, opened = request.document_format, open_models(request)
    if request.format.table == "confidence" or request.review_below:
        if opened.ensemble:
            raise NmtError("an ensemble has no confidence: leave out --order confidence and --review-below")
        if opened.model.calibration is None:
            raise NmtError(f"{request.model}: no calibration, so it gives no confidence: first use nmt calibrate")
    elif request.format.table and opened.model.calibration is None and not is_launched():
        log.info("no confidence: %s has no calibration: see nmt calibrate", request.model)
    if document_format is not None:
        _translate_document(request, document_format, opened)
    elif request.from_file_to_file:
        return _translate_file(request, opened)
    else:
        _stream(request, opened)
    return 0


def _translate_document(request: TranslationJob, format: DocumentFormat, opened: ModelsOfCommand) -> None:
    """Read a document, translate its lines, and write it as a whole."""
    assert request.source is not None and request.output is not None
    output = outputs.check_output(request.output, [*opened.files, *request.texts])
    document = OpenedDocument.read(
        request.source,
        format,
        language=opened.pair.source,
        target_language=opened.pair.target,
        only_missing=request.only_missing,
        output=output,
    )
    opened.log()
    translator = opened.translator(request.device, request.overrides, request.glossary)
    protected = (*translator.decoding.keep, *document.keep)
    translator.decoding = replace(translator.decoding, keep=protected)
    lines, translations = document.marked_lines, list[Rated]()
    with line_bar("translating", len(lines)) as bar:
        translator.on_lines = bar.update
        for first in range(0, len(lines), _DOCUMENT_LINES):
            translations += translator.with_tags(lines[first : first + _DOCUMENT_LINES])
    content = document.with_lines(translations, output, request.review_below)
    with atomic.reporting(output, "--output"), atomic.replacing(output) as unfinished:
        unfinished.write_bytes(content)
    log_counts(translator.counts, translator.longest_part)


def job_of(request: TranslationJob, opened: ModelsOfCommand) -> FileJob:
    """The job of a translation from file to file. Raises NmtError as FileJob.from_files."""
    assert request.source is not None and request.output is not None
    glossary = [] if request.glossary is None else [request.glossary]
    files = {"model": opened.files, "glossary": glossary}
    options: dict[str, object] = {"overrides": [*request.overrides]}
    if opened.model.languages.several:
        options["languages"] = opened.pair
    processes = request.processes or 1
    return FileJob.from_files(
        files, request.source, request.output, options, request.format, processes, request.prefixes
    )


def _translate_file(request: TranslationJob, opened: ModelsOfCommand) -> int:
    """Translate in this process, or start several processes with the same arguments, which share the work. Returns the
    exit status. Raises NmtError as FileJob."""
    job = job_of(request, opened)
    if is_launched():
        if os.environ.get(FILE_JOB) != job.key:
            raise NmtError("the model has changed since the job was started: run nmt translate again")
        ranks, device = distributed.from_environment(request.device)
        translator = opened.translator(str(device), request.overrides, request.glossary)
        job.translate(translator, ranks.rank, ranks.size)
        return 0
    opened.log()
    with job.locked(), line_bar("translating", job.lines, job.lines_done()) as bar:
        if request.processes is None:
            translator = opened.translator(request.device, request.overrides, request.glossary)
            translator.on_lines = bar.update
            job.translate(translator)
        else:
            os.environ[FILE_JOB] = job.key
            with following(bar, job.lines_done):
                status = launch.launch(sys.argv[1:], request.processes, _RESTARTS)
            if status == 130:
                raise KeyboardInterrupt
            if status:
                return status
        counts, longest = counts_of(job.headers())
        job.finish()
    log_counts(counts, longest)
    return 0


def _stream(request: TranslationJob, opened: ModelsOfCommand) -> None:
    """Translate a stream while it is read."""
    inputs = [*opened.files, *request.texts]
    if request.output is not None:
        outputs.check_output(request.output, inputs)  # before the models are loaded
    opened.log()
    translator = opened.translator(request.device, request.overrides, request.glossary)
    lines, is_typed = text.lines_in(request.source)
    with text.lines_out(request.output, inputs) as write:
        chunk_lines = 1 if is_typed or request.line_by_line else None
        prefixes = None if request.prefixes is None else text.read_lines(request.prefixes)
        # Not from a pipe: its writer may wait for translations before it writes more.
        ahead = chunk_lines is None and request.source is not None and not any(map(outputs.is_special, request.texts))
        translated = request.format.texts(translator, lines, chunk_lines, prefixes=prefixes, read_ahead=ahead)
        with stream_bar(request.output, is_typed) as bar:
            if not bar.disable and request.source is not None and not outputs.is_special(request.source):
                bar.reset(text.survey(request.source))
            translator.on_lines = bar.update
            for row in request.format.in_order(translated):
                write(row)
    log_counts(translator.counts, translator.longest_part)
