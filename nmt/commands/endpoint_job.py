"""`nmt translate` with an endpoint in place of a model: files in chunks that survive an interruption, and streams.

No answer is paid for twice: until a chunk is translated, its replies are in a file in the folder of the job.
"""

import json
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from itertools import chain, count, islice
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from nmt.commands.file_job import FileJob, JobChunk, header_of, replies_of
from nmt.commands.progress import line_bar, stream_bar
from nmt.commands.translation_job import TranslationJob
from nmt.config import writer
from nmt.decoding.chunks import CHUNK_LINES, chunked, with_prefixes
from nmt.errors import NmtError
from nmt.files import atomic, outputs, text
from nmt.teachers import journal
from nmt.teachers.journal import Journal
from nmt.teachers.opened_endpoint import OpenedEndpoint
from nmt.teachers.teacher import Chunk, Teacher, in_words
from nmt.teachers.usage import TeacherCounts

log = logging.getLogger("nmt")

_FORECAST_LINES = 100  # after so many answers, the rest can be forecast
_SHOWN_REQUESTS = 5
_STREAMED = 4  # lines of a stream that are translated together, for each request at once


def translate(request: TranslationJob) -> None:
    """Raises NmtError for problems that the user can fix, and for options that an endpoint cannot have."""
    _check_options(request)
    opened = OpenedEndpoint.open(request.model, request.to, request.from_)
    teacher = opened.teacher(request.overrides, request.glossary)
    teacher.check(request.format.n_best or 1, with_prefixes=request.prefixes is not None)
    if request.dry_run:
        _show(request, teacher)
        return
    opened.log()
    try:
        if request.from_file_to_file:
            _translate_file(request, opened, teacher)
        else:
            _stream(request, opened, teacher)
    except (NmtError, KeyboardInterrupt):
        teacher.log_used()
        raise


def _check_options(request: TranslationJob) -> None:
    if (document := request.document_format) is not None:
        raise NmtError(f"{request.source}: {document.name}: an endpoint translates lines of text: give a text file")
    without = {
        "--scores": request.format.scores,
        "confidence for --format tsv and --order": request.format.table,
        "--markup": request.format.markup,
        "--ensemble": request.ensemble,
        "--nproc-per-node": request.processes,
    }
    if given := [name for name, value in without.items() if value]:
        raise NmtError(f"{request.model}: an endpoint has no {' and no '.join(given)}: leave it out")


def _show(request: TranslationJob, teacher: Teacher) -> None:
    """Print the first requests, and what all of them may use."""
    text.check_output_open()
    prefixes = None if request.prefixes is None else text.read_lines(request.prefixes)
    samples, lines, requests, size = teacher.samples(request.format.n_best or 1), 0, 0, 0
    for _, chunk, chunk_prefixes in with_prefixes(chunked(text.lines_in(request.source)[0]), prefixes, 1):
        different = Chunk(chunk, chunk_prefixes).indices
        for line, prefix in islice(different, max(0, _SHOWN_REQUESTS - requests)):
            text.result(json.dumps(teacher.body(line, prefix, 0, samples), ensure_ascii=False))
        lines += len(chunk)
        requests += len(different)
        size += _size(line for line, _ in different)
    tokens = teacher.usage.in_words(teacher.estimate(requests, size, samples))
    counts = f"{lines:,} lines, {requests:,} requests"
    text.result(f"{counts}: about {tokens}, if a token has 4 bytes and answers are as long as the lines")


def _translate_file(request: TranslationJob, opened: OpenedEndpoint, teacher: Teacher) -> None:
    assert request.source is not None and request.output is not None
    inputs = [*opened.files, *request.texts]
    outputs.check_output(request.output, inputs)
    rejected = outputs.check_output(request.output.with_name(f"{request.output.name}.rejected.tsv"), inputs)
    job = FileJob.from_files(
        {},
        request.source,
        request.output,
        _options(request, opened, teacher),
        request.format,
        prefixes=request.prefixes,
        most_chunk_lines=CHUNK_LINES,
    )
    n_best = request.format.n_best or 1
    with job.locked(), line_bar("translating", job.lines, job.lines_done()) as bar:
        before = _used_before(job)
        teacher.usage.tokens = before.input_tokens, before.output_tokens
        opened.client.answered_before = before.requests > 0
        if before.requests:
            log.info("%s: already answered: %s", job.output, teacher.used(before))
        progress = _Progress(bar, job, teacher, n_best)
        try:
            _translate_chunks(job, teacher, n_best, progress)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"{progress.done:,} of {job.lines:,} lines are translated") from None
        teacher.counts = sum((TeacherCounts(**header["counts"]) for header in job.headers()), TeacherCounts())
        with atomic.reporting(rejected, "--output"):
            if teacher.counts.rejected:
                _write_rejected(rejected, job)
            else:
                rejected.unlink(missing_ok=True)  # of an earlier job
        job.finish()
    teacher.log_counts(rejected)


def _options(request: TranslationJob, opened: OpenedEndpoint, teacher: Teacher) -> dict[str, object]:
    """What the translations depend on, beside the lines and the prefixes."""
    files = [opened.endpoint.examples, request.glossary]
    digests = [file and text.file_digest(Path(file)) for file in files]
    endpoint = writer.affecting(replace(opened.endpoint, examples=None), "text")  # their content counts, not their path
    return {"endpoint": endpoint, "decoding": teacher.sampling, "files": digests}


def _used_before(job: FileJob) -> TeacherCounts:
    """What earlier commands have used for this job."""
    counts = TeacherCounts()
    for chunk in job.planned:
        if chunk.exists():
            counts += TeacherCounts(**header_of(chunk)["counts"])
        else:
            for reply in journal.read(replies_of(chunk))[0].values():
                counts += TeacherCounts(0, 0, 1, reply.input_tokens, reply.output_tokens)
    return counts


def _translate_chunks(job: FileJob, teacher: Teacher, n_best: int, progress: "_Progress") -> None:
    """Translate the missing chunks."""
    opened = deque[tuple[JobChunk, Journal]]()

    def chunks() -> Iterator[Chunk]:
        for chunk in job.chunks():
            if not chunk.path.exists():
                replies = Journal(replies_of(chunk.path))
                opened.append((chunk, replies))
                yield Chunk(chunk.lines, chunk.prefixes, chunk.first_line, replies)

    def write(translated: Chunk) -> None:
        chunk, replies = opened.popleft()
        rows = map(job.format.of_samples, count(chunk.first_line), translated.candidates)
        job.write(chunk, {"counts": asdict(translated.counts), "rejected": sorted(translated.rejected)}, rows)
        replies.close()
        replies_of(chunk.path).unlink()

    teacher.on_lines = progress.add
    try:
        teacher.translate_chunks(chunks(), n_best, write)
    finally:
        for chunk, replies in opened:
            replies.close()
            if not replies_of(chunk.path).stat().st_size:
                replies_of(chunk.path).unlink()


def _write_rejected(path: Path, job: FileJob) -> None:
    """Write the lines without a translation as a table. There can be many, so they are not held in memory."""
    with atomic.replacing(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        print("line", "reason", "source", "answer", sep="\t", file=file)
        for row in chain.from_iterable(header["rejected"] for header in job.headers()):
            print(*(text.BREAKS.sub(" ", str(field)) for field in row), sep="\t", file=file)


class _Progress:
    """Shows how many lines are done, and after 100 answers a forecast for the whole file."""

    def __init__(self, bar: "tqdm[NoReturn]", job: FileJob, teacher: Teacher, n_best: int) -> None:
        self.done = job.lines_done()
        self._bar, self._job, self._teacher, self._usage = bar, job, teacher, teacher.usage
        size = sum(map(_size, chunked(text.read_lines(job.source))))
        self._estimate = teacher.estimate(job.lines, size, teacher.samples(n_best))
        self._is_forecast_logged = False

    def add(self, lines: int) -> None:
        self.done += lines
        self._bar.update(lines)
        if self._usage.lines < _FORECAST_LINES:
            return
        tokens = self._usage.corrected(self._estimate)
        if not self._is_forecast_logged:
            self._is_forecast_logged = True
            time_ = tqdm.format_interval(self._usage.seconds / self._usage.lines * self._job.lines)
            log.info("forecast for all %s lines: %s, %s", f"{self._job.lines:,}", time_, self._usage.in_words(tokens))
            if rejected := self._teacher.rejected:
                log.warning("of the first lines, %s have no good translation: %s", rejected.total(), in_words(rejected))
        self._bar.set_postfix_str(self._usage.in_short(tokens), refresh=False)


def _stream(request: TranslationJob, opened: OpenedEndpoint, teacher: Teacher) -> None:
    """Translate a stream while it is read."""
    inputs, n_best, format = [*opened.files, *request.texts], request.format.n_best or 1, request.format
    lines, is_typed = text.lines_in(request.source)
    chunk_lines = 1 if is_typed or request.line_by_line else _STREAMED * opened.endpoint.requests
    prefixes = None if request.prefixes is None else text.read_lines(request.prefixes)
    with text.lines_out(request.output, inputs) as write, stream_bar(request.output, is_typed) as bar:
        teacher.on_lines = bar.update
        for first, chunk, chunk_prefixes in with_prefixes(chunked(lines, chunk_lines), prefixes, 1):
            for i, candidates in enumerate(teacher.candidates(chunk, n_best, chunk_prefixes, first)):
                write(format.of_samples(first + i, candidates))
    teacher.log_counts()


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) for line in lines)
