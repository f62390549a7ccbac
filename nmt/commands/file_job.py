"""Translates a text file to a file in chunks. A later command can continue, and several processes can share the work.

Until FILE is complete, its chunks are files in a folder `.FILE.nmt-part` next to it. The name of a chunk has its line
numbers and a hash of the model, the options and its lines, so that only a job with the same contents uses it. Process i
of N translates every N-th chunk, independently of the others. The first line of a chunk is its header, a JSON object
with the counts of its lines. Loads no PyTorch.
"""

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain, groupby, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt import __version__
from nmt.commands.output_format import OutputFormat
from nmt.decoding.chunks import CHUNK_LINES, LineCounts, chunked
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_output
from nmt.files.text import Stamp, content_key, file_stamp, read_lines, survey

if TYPE_CHECKING:
    from nmt.decoding.translator import Translator

log = logging.getLogger("nmt")

# A killed job loses one chunk of each process, and the begun part of the next chunk. Large chunks give full batches for
# a GPU; in a long file they are a small share. Their size does not depend on the device, so that a job can continue on
# another one.
_MOST_CHUNK_LINES, _LEAST_CHUNKS = 16_000, 50
_SHARES = 4  # with several processes: at least this many chunks for each, if there are enough lines
_CHUNK = re.compile("[0-9]+-[0-9]+-[0-9a-f]{16}")
_REPLIES = ".replies"  # of an endpoint, for a chunk that is not translated yet


@dataclass(frozen=True)
class FileJob:
    """A translation from a file to a file."""

    source: Path
    output: Path
    key: str  # a hash of the model and the options
    lines: int  # of the source
    chunk_lines: int
    format: OutputFormat = field(default_factory=OutputFormat)
    prefixes: Path | None = None  # a file with the beginning of each line's translation
    stamps: Mapping[Path, Stamp] = field(default_factory=dict)  # of the model's files, when the key was computed

    @classmethod
    def from_files(
        cls,
        files: Mapping[str, Sequence[Path]],
        source: Path,
        output: Path,
        options: Mapping[str, object],
        format: OutputFormat,
        processes: int = 1,
        prefixes: Path | None = None,
        most_chunk_lines: int = _MOST_CHUNK_LINES,
    ) -> "FileJob":
        """The job for these files (the model's, a glossary, …) and options (JSON values). Files are identified by their
        size and the time of their last change.

        Chunks have 5,000 lines. In a long file they have a fiftieth of its lines, but at most most_chunk_lines. With
        several processes, the chunks of a short file are smaller, so that each process gets some. Raises NmtError if a
        file cannot be read, if the output is a folder or one of the files, or if there is not one prefix for each line.
        """
        model_files = list(chain.from_iterable(files.values()))
        inputs = [source, *model_files]
        if prefixes is not None:
            inputs.append(prefixes)
        output = check_output(output, inputs)
        lines = survey(source)
        if prefixes is not None and (prefix_lines := survey(prefixes)) != lines:
            raise NmtError(
                f"{prefixes}: {prefix_lines:,} lines, and {source} has {lines:,}: give a prefix for each line"
            )
        chunk_lines = min(most_chunk_lines, max(CHUNK_LINES, lines // _LEAST_CHUNKS))
        if processes > 1:
            chunk_lines = max(1, min(chunk_lines, -(-lines // (_SHARES * processes))))
        stamps = {path: file_stamp(path) for path in model_files}
        stamps_by_name = {name: list(map(stamps.__getitem__, paths)) for name, paths in files.items()}
        key = content_key(__version__, stamps_by_name, dict(options), asdict(format))
        return cls(source, output, key, lines, chunk_lines, format, prefixes, stamps)

    @property
    def folder(self) -> Path:
        return self.output.with_name(f".{self.output.name}.nmt-part")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make and lock the folder, and log how many lines are translated already. Raises NmtError if another command
        has locked it, or if it cannot be made."""
        with ExitStack() as stack:
            with atomic.reporting(self.output, "--output"):
                self.folder.mkdir(exist_ok=True)
                try:
                    stack.enter_context(atomic.locked(self.folder))
                except (atomic.HeldByAnother, FileNotFoundError):  # not found: another command has just finished it
                    raise NmtError(f"{self.output}: another nmt is writing it: wait for it, or stop it") from None
                atomic.remove_unfinished(self.folder)
            stack.callback(self._remove_if_empty)
            try:
                self._log_state()
                yield
            except KeyboardInterrupt as interruption:
                done = str(interruption) or self._done()
                raise KeyboardInterrupt(f"{self.output}: {done}: run the same command to continue") from None

    def check_unchanged(self) -> None:
        """Raise NmtError if a file of the model has changed since the key was computed."""
        for path, stamp in self.stamps.items():
            if file_stamp(path) != stamp:
                raise NmtError(f"{path}: has changed since the command was started: run it again")

    def translate(self, translator: "Translator", process: int = 0, processes: int = 1) -> None:
        """Translate the missing chunks in the share of one process.

        Raises NmtError if a line cannot be translated, read or written, and if the model has changed since the key was
        computed.
        """

        def run_key(chunk: JobChunk) -> tuple[bool, int]:
            return chunk.path.exists(), chunk.first_line if processes > 1 else 0

        self.check_unchanged()
        share = islice(self.chunks(), process, None, processes)
        for (is_translated, _), run in groupby(share, run_key):
            if not is_translated:
                self._translate_run(translator, run)

    def _translate_run(self, translator: "Translator", run: Iterator["JobChunk"]) -> None:
        """Translate consecutive chunks as one text: a chunk is begun before the previous one has ended."""
        first = next(run)
        to_write, with_lines, with_prefixes = tee(chain([first], run), 3)
        lines = chain.from_iterable(chunk.lines for chunk in with_lines)
        prefixes = chain.from_iterable(chunk.prefixes or () for chunk in with_prefixes)
        translator.counts = LineCounts()
        texts = self.format.texts(
            translator,
            lines,
            self.chunk_lines,
            first=first.first_line,
            prefixes=prefixes if self.prefixes else None,
            read_ahead=True,
        )
        for chunk in to_write:
            chunk_texts = list(islice(texts, len(chunk.lines)))
            # After the last line of a chunk, the translator has counted exactly this chunk.
            header = {"counts": asdict(translator.counts), "longest": translator.longest_part}
            self.write(chunk, header, chunk_texts)
            translator.counts = LineCounts()

    def write(self, chunk: "JobChunk", header: dict[str, Any], texts: Iterable[str]) -> None:
        """Write a translated chunk: its header, and a text for each line."""
        content = "".join(f"{text}\n" for text in texts)
        with atomic.reporting(self.output, "--output"):
            atomic.write_text(chunk.path, f"{json.dumps(header)}\n{content}")

    def headers(self) -> Iterator[dict[str, Any]]:
        """The headers of all chunks. Raises NmtError if a chunk is missing because the input has changed."""
        self._check_complete()
        yield from map(header_of, self.planned)

    def finish(self) -> None:
        """Join the chunks to the output file in its order, and remove them. Raises NmtError as `headers`."""
        self._check_complete()
        with (
            atomic.reporting(self.output, "--output"),
            atomic.replacing(self.output) as unfinished,
            unfinished.open("w", encoding="utf-8", newline="\n") as file,
        ):
            file.writelines(self.format.in_order(chain.from_iterable(map(_rows_of, self.planned))))
        for path in self._kept():
            with suppress(OSError):
                path.unlink()

    @cached_property
    def planned(self) -> Mapping[Path, int]:
        """The files of all chunks, and the number of lines of each. The input is read at the first access."""
        return {chunk.path: len(chunk.lines) for chunk in self.chunks()}

    def lines_done(self) -> int:
        """The number of lines that are translated, by any process."""
        translated = self._translated()
        return sum(lines for path, lines in self.planned.items() if path in translated)

    def chunks(self) -> Iterator["JobChunk"]:
        """Read the input, and give its chunks."""
        first_line = 1
        all_prefixes = None if self.prefixes is None else read_lines(self.prefixes)
        for lines in chunked(read_lines(self.source), self.chunk_lines):
            prefixes = None if all_prefixes is None else list(islice(all_prefixes, len(lines)))
            name = f"{first_line}-{first_line + len(lines) - 1}-{content_key(self.key, lines, prefixes)}"
            yield JobChunk(self.folder / name, first_line, lines, prefixes)
            first_line += len(lines)

    def _translated(self) -> set[Path]:
        """The files of translated chunks, of any model and any input."""
        return {path for path in self.folder.iterdir() if _CHUNK.fullmatch(path.name)}

    def _check_complete(self) -> None:
        if not all(path.exists() for path in self.planned):
            raise NmtError(f"{self.source}: has changed while it was translated: run the command again")

    def _kept(self) -> set[Path]:
        """The files of translated chunks, and of replies for other chunks."""
        return {path for path in self.folder.iterdir() if _CHUNK.fullmatch(path.name.removesuffix(_REPLIES))}

    def _done(self) -> str:
        return f"{self.lines_done():,} of {self.lines:,} lines are translated"

    def _log_state(self) -> None:
        if self.lines_done():
            log.info("%s: %s: continuing", self.output, self._done())
        elif self._translated():
            log.warning(
                "%s: %s has an unfinished translation with another model, input or options: it is not continued, and "
                "is kept until this translation is complete: starting from the first line",
                *(self.output, self.folder.name),
            )

    def _remove_if_empty(self) -> None:
        """Remove the folder, which is locked by this process, unless it has chunks or files of the user."""
        with suppress(OSError):
            if not self._kept():
                (self.folder / atomic.LOCK).unlink()
                self.folder.rmdir()


@dataclass(frozen=True)
class JobChunk:
    """Lines that are translated together, and the file for their translations."""

    path: Path
    first_line: int
    lines: list[str]
    prefixes: list[str] | None


def replies_of(chunk: Path) -> Path:
    """The file for the replies of an endpoint, until the chunk is translated."""
    return chunk.with_name(chunk.name + _REPLIES)


def header_of(chunk: Path) -> dict[str, Any]:
    """The header of a translated chunk."""
    with chunk.open("rb") as file:
        return dict(json.loads(file.readline()))


def _rows_of(chunk: Path) -> Iterator[str]:
    with chunk.open(encoding="utf-8", newline="\n") as file:
        next(file)  # the header
        yield from file


def counts_of(headers: Iterable[dict[str, Any]]) -> tuple[LineCounts, int | None]:
    """The counts of all lines that a model has translated, and the most subwords of a source that it translates in one
    piece."""
    counts, longest = LineCounts(), None
    for header in headers:
        counts, longest = counts + LineCounts(**header["counts"]), header["longest"]
    return counts, longest
