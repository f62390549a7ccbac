"""A text file translated to a file in chunks, so that a later command can continue, and several processes can share.

Until FILE is complete, its chunks are files in a folder `.FILE.nmt-part` next to it. The name of a chunk has its line
numbers and a hash of all that it is made from: the model, the options and its lines. So it can be used wherever it is
asked for by that name, and by nothing else. Process i of N translates every N-th chunk and waits for no other. The
first line of a chunk is a JSON object: the counts of its lines.
"""

import json
import logging
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain, groupby, islice, tee
from pathlib import Path

from nmt import __version__
from nmt.commands.output_format import OutputFormat
from nmt.decoding.chunks import CHUNK_LINES, LineCounts, chunked
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_output
from nmt.files.text import Stamp, content_key, file_stamp, read_lines, survey

log = logging.getLogger("nmt")

# A killed job loses a chunk of each process, and what has begun of the next. Larger chunks make full batches for a GPU,
# and are a small share of a long file. They do not depend on the device, so that a job can continue on another one.
_MOST_CHUNK_LINES, _LEAST_CHUNKS = 16_000, 50
_SHARES = 4  # with several processes: at least this many chunks for each, where there are enough lines
_CHUNK = re.compile("[0-9]+-[0-9]+-[0-9a-f]{16}")


@dataclass(frozen=True)
class FileJob:
    """What to translate and where to."""

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
    ) -> "FileJob":
        """The job for these files (the model's, a glossary, …) and options (JSON values). A file is known by its size
        and the time of its last change.

        Chunks have 5,000 lines; those of a long file have a fiftieth of its lines, at most 16,000. For several
        processes the chunks of a short file are smaller, so that each process gets some. Raises NmtError where a file
        cannot be read, the output is a folder or one of the files, or there is not one prefix per line.
        """
        model_files = list(chain.from_iterable(files.values()))
        output = check_output(output, [source, *model_files, *([] if prefixes is None else [prefixes])])
        lines = survey(source)
        if prefixes is not None and (prefix_lines := survey(prefixes)) != lines:
            raise NmtError(
                f"{prefixes}: {prefix_lines:,} lines, and {source} has {lines:,}: give a prefix for each line"
            )
        chunk_lines = min(_MOST_CHUNK_LINES, max(CHUNK_LINES, lines // _LEAST_CHUNKS))
        if processes > 1:
            chunk_lines = max(1, min(chunk_lines, -(-lines // (_SHARES * processes))))
        stamps = {path: file_stamp(path) for path in model_files}
        parts = {name: [stamps[path] for path in paths] for name, paths in files.items()}
        key = content_key(__version__, parts, dict(options), asdict(format))
        return cls(source, output, key, lines, chunk_lines, format, prefixes, stamps)

    @property
    def folder(self) -> Path:
        return self.output.with_name(f".{self.output.name}.nmt-part")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make and lock the folder, and log what is translated already. Raises NmtError if another command has locked
        it, or it cannot be made."""
        with ExitStack() as stack:
            with atomic.reporting(self.output, "--output"):
                self.folder.mkdir(exist_ok=True)
                try:
                    stack.enter_context(atomic.locked(self.folder))
                except (atomic.HeldByAnother, FileNotFoundError):  # not found: another has just finished it
                    raise NmtError(f"{self.output}: another nmt is writing it: wait for it, or stop it") from None
                atomic.remove_unfinished(self.folder)
            stack.callback(self._remove_if_empty)
            try:
                self._log_state()
                yield
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"{self.output}: {self._done()}: run the same command to continue") from None

    def check_unchanged(self) -> None:
        """Raise NmtError where a file of the model has changed since the key was computed."""
        for path, stamp in self.stamps.items():
            if file_stamp(path) != stamp:
                raise NmtError(f"{path}: has changed since the command was started: run it again")

    def translate(self, translator: Translator, process: int = 0, processes: int = 1) -> None:
        """Translate the missing chunks of one process's share.

        Raises NmtError where a line cannot be translated, read or written, and where the model has changed since the
        key was computed.
        """

        def run_of(chunk: _Chunk) -> tuple[bool, int]:
            return chunk.path.exists(), chunk.first if processes > 1 else 0

        self.check_unchanged()
        share = islice(self._chunks(), process, None, processes)
        for (is_translated, _), run in groupby(share, run_of):
            if not is_translated:
                self._translate_run(translator, run)

    def _translate_run(self, translator: Translator, run: Iterator["_Chunk"]) -> None:
        """Translate chunks that follow one another, as one text: each is begun before the one before it ends."""
        first = next(run)
        to_write, with_lines, with_prefixes = tee(chain([first], run), 3)
        lines = chain.from_iterable(chunk.lines for chunk in with_lines)
        prefixes = chain.from_iterable(chunk.prefixes or () for chunk in with_prefixes)
        translator.counts = LineCounts()
        texts = self.format.texts(
            translator,
            lines,
            self.chunk_lines,
            first=first.first,
            prefixes=prefixes if self.prefixes else None,
            read_ahead=True,
        )
        for chunk in to_write:
            content = "".join(f"{text}\n" for text in islice(texts, len(chunk.lines)))
            # With the last line of a chunk, the translator has counted that chunk, and nothing of the next.
            header = json.dumps({"counts": asdict(translator.counts), "longest": translator.longest_part})
            with atomic.reporting(self.output, "--output"):
                atomic.write_text(chunk.path, f"{header}\n{content}")
            translator.counts = LineCounts()

    def finish(self) -> tuple[LineCounts, int | None]:
        """Join the chunks to the output, and remove them.

        Returns the counts of all lines, and the longest source in subwords that is translated in one piece. Raises
        NmtError where a chunk is missing, because the input has changed.
        """
        counts, longest = LineCounts(), None
        if not all(path.exists() for path in self.planned):
            raise NmtError(f"{self.source}: has changed while it was translated: run the command again")
        with (
            atomic.reporting(self.output, "--output"),
            atomic.replacing(self.output) as unfinished,
            unfinished.open("wb") as file,
        ):
            for path in self.planned:
                with path.open("rb") as chunk:
                    header = json.loads(chunk.readline())
                    counts, longest = counts + LineCounts(**header["counts"]), header["longest"]
                    shutil.copyfileobj(chunk, file)
        for path in self._translated():
            with suppress(OSError):
                path.unlink()
        return counts, longest

    @cached_property
    def planned(self) -> Mapping[Path, int]:
        """The chunks' files, and the number of lines of each, of the input as it is when this is first asked for."""
        return {chunk.path: len(chunk.lines) for chunk in self._chunks()}

    def lines_done(self) -> int:
        """How many lines are translated, by any process."""
        translated = self._translated()
        return sum(lines for path, lines in self.planned.items() if path in translated)

    def _chunks(self) -> Iterator["_Chunk"]:
        """The chunks of the input, read now."""
        first = 1
        all_prefixes = None if self.prefixes is None else read_lines(self.prefixes)
        for lines in chunked(read_lines(self.source), self.chunk_lines):
            prefixes = None if all_prefixes is None else list(islice(all_prefixes, len(lines)))
            name = f"{first}-{first + len(lines) - 1}-{content_key(self.key, lines, prefixes)}"
            yield _Chunk(self.folder / name, first, lines, prefixes)
            first += len(lines)

    def _translated(self) -> set[Path]:
        """The chunks that are translated, with any model and from any input."""
        return {path for path in self.folder.iterdir() if _CHUNK.fullmatch(path.name)}

    def _done(self) -> str:
        return f"{self.lines_done():,} of {self.lines:,} lines are translated"

    def _log_state(self) -> None:
        if self.lines_done():
            log.info("%s: %s: continuing", self.output, self._done())
        elif self._translated():
            log.warning(
                "%s: an unfinished translation with another model, input or options is in %s; it is kept until this "
                "one is complete: starting from the first line",
                *(self.output, self.folder.name),
            )

    def _remove_if_empty(self) -> None:
        """Remove the folder, whose lock we hold, unless there are chunks or files of the user in it."""
        with suppress(OSError):
            if not self._translated():
                (self.folder / atomic.LOCK).unlink()
                self.folder.rmdir()


@dataclass(frozen=True)
class _Chunk:
    """Lines that are translated together, and the file of their translations."""

    path: Path
    first: int
    lines: list[str]
    prefixes: list[str] | None
