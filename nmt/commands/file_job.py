"""A file translated to a file in chunks, which several processes can share and a later command can continue.

Until FILE is complete, its chunks are in a folder `.FILE.KEY.part` next to it. KEY is a hash of the model, the options
and the input, so a job is continued only with the same ones. Chunks are ranges of lines that depend on the input alone;
process i of N translates every N-th chunk and waits for no other. A finished chunk is a file in the folder, named by
its range of lines. Its first line is a JSON object: a digest of its source text, and the counts of its lines.
"""

import hashlib
import io
import json
import logging
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain, count, groupby, islice
from pathlib import Path
from typing import IO, Any, Protocol

from nmt import __version__
from nmt.decoding.chunks import CHUNK_LINES, LineCounts, chunked
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_output
from nmt.files.text import Digests, content_key, file_digest, read_lines, survey

log = logging.getLogger("nmt")

# A killed job loses a chunk of each process, and what has begun of the next. Larger chunks make full batches for a GPU,
# and are a small share of a long file. They do not depend on the device, so that a job can continue on another one.
_MOST_CHUNK_LINES, _LEAST_CHUNKS = 16_000, 50
_DOCUMENT_CHUNK_LINES = 500  # most documents are short
_SHARES = 4  # with several processes: at least this many chunks for each, where there are enough lines
_CHUNK = re.compile("([0-9]+)-([0-9]+)")


class DocumentLines(Protocol):
    """A document of which some lines are translated."""

    def lines(self, digests: Digests) -> Iterator[str]:
        """The lines. Adds the digest of the document's file. Raises NmtError if it has changed."""
        ...

    def with_lines(self, lines: Sequence[str], output: Path) -> bytes:
        """The document with what was written for each line. output: its name, for messages."""
        ...


@dataclass(frozen=True)
class FileJob:
    """What to translate and where to."""

    source: Path
    output: Path
    key: str  # a hash of all that the output depends on
    lines: int  # of the source
    chunk_lines: int
    prefixes: Path | None = None  # a file with the beginning of each line's translation
    digests: Mapping[Path, str] = field(default_factory=dict)  # of all files read, when the key was computed
    document: "DocumentLines | None" = None  # None: the source is text

    @classmethod
    def of(
        cls,
        files: Mapping[str, Sequence[Path]],
        source: Path,
        output: Path,
        options: Mapping[str, object],
        processes: int = 1,
        prefixes: Path | None = None,
        document: "DocumentLines | None" = None,
    ) -> "FileJob":
        """The job for these files (the model's, a glossary, …) and options (JSON values). Reads the files once.

        Chunks have 5,000 lines, those of a document 500; those of a long file have a fiftieth of its lines, at most
        16,000. For several processes the chunks of a short file are smaller, so that each process gets some. Raises
        NmtError where a file cannot be read, the output is a folder or one of the files, or there is not one prefix per
        line.
        """
        others = list(chain.from_iterable(files.values()))
        output = check_output(output, [source, *others, *([] if prefixes is None else [prefixes])])
        digests: Digests = {}
        lines = sum(1 for _ in document.lines(digests)) if document else survey(source, digests)
        if prefixes is not None and (begun := survey(prefixes, digests)) != lines:
            raise NmtError(f"{prefixes}: {begun:,} lines, and {source} has {lines:,}: give a prefix for each line")
        least = _DOCUMENT_CHUNK_LINES if document else CHUNK_LINES
        chunk_lines = min(_MOST_CHUNK_LINES, max(least, lines // _LEAST_CHUNKS))
        if processes > 1:
            chunk_lines = max(1, min(chunk_lines, -(-lines // (_SHARES * processes))))
        digests |= {path: file_digest(path) for path in others}
        parts = {name: [digests[path] for path in paths] for name, paths in files.items()}
        begins = None if prefixes is None else digests[prefixes]
        key = content_key(__version__, parts, dict(options), digests[source], begins, chunk_lines)
        return cls(source, output, key, lines, chunk_lines, prefixes, digests, document)

    @property
    def folder(self) -> Path:
        return self.output.with_name(f".{self.output.name}.{self.key}.part")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the job, and log what is translated already. Raises NmtError if it is locked or cannot be written."""
        with ExitStack() as stack:
            with atomic.reporting(self.output, "--output"):
                self.folder.mkdir(exist_ok=True)
                try:
                    lock = stack.enter_context(atomic.locked(self.folder))
                except (atomic.HeldByAnother, FileNotFoundError):  # not found: another has just finished it
                    raise NmtError(f"{self.output}: another nmt is writing it: wait for it, or stop it") from None
                atomic.remove_unfinished(self.folder)
                self._remove_outdated()
            stack.callback(self._remove_if_empty, lock)
            try:
                self._log_state()
                yield
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"{self.output}: {self._done()}: run the same command to continue") from None

    def check_loaded(self, translator: Translator) -> None:
        """Raise NmtError where a file has changed between computing the key and loading it."""
        for path, digest in self.digests.items():
            if path in (self.source, self.prefixes):
                continue  # each chunk records the text that it was made from
            if (translator.digests.get(path) or file_digest(path)) != digest:
                raise NmtError(f"{path}: has changed since the command was started: run it again")

    def translate(
        self, translator: Translator, texts: Callable[..., Iterable[str]], process: int = 0, processes: int = 1
    ) -> None:
        """Translate the missing chunks of one process's share.

        `texts(translator, lines, chunk_lines, first=number, prefixes=lines or None, read_ahead=True)` gives what to
        write for each line, of which the first has that number. With the last line of a chunk, the translator has
        counted that chunk, and nothing of the next. Raises NmtError where a line cannot be translated, read or
        written, and where the model has changed since the key was computed.
        """
        self.check_loaded(translator)
        missing = (
            (number, chunk)
            for number, chunk in enumerate(self._chunks({}))
            if number % processes == process and _header_of(chunk.path).get("text") != chunk.digest
        )
        place = count()
        # Grouped by how many chunks before them are not missing.
        for _, run in groupby(missing, lambda numbered: numbered[0] - next(place)):
            self._translate_run(translator, texts, (chunk for _, chunk in run))

    def _translate_run(
        self, translator: Translator, texts: Callable[..., Iterable[str]], run: Iterator["_Chunk"]
    ) -> None:
        """Translate chunks that follow one another: as one text, so that each is begun before the one before ends."""
        first = next(run)
        number, run = first.first, chain([first], run)
        del first  # or its text would stay in memory
        reading, beginning = deque["_Chunk"](), deque[list[str]]()  # what is read, and waits for its end

        def lines() -> Iterator[str]:
            for chunk in run:
                reading.append(chunk)
                if chunk.prefixes is not None:
                    beginning.append(chunk.prefixes)
                yield from chunk.lines

        def prefixes() -> Iterator[str]:  # those of a chunk are read after its lines
            while beginning:
                yield from beginning.popleft()

        given = None if self.prefixes is None else prefixes()
        translator.counts = LineCounts()
        translations = iter(texts(translator, lines(), self.chunk_lines, first=number, prefixes=given, read_ahead=True))
        for text in translations:
            chunk = reading.popleft()
            content = "".join(f"{line}\n" for line in chain([text], islice(translations, len(chunk.lines) - 1)))
            counts, longest = asdict(translator.counts), translator.longest_part
            header = json.dumps({"text": chunk.digest, "counts": counts, "longest": longest})
            with atomic.reporting(self.output, "--output"):
                atomic.write_text(chunk.path, f"{header}\n{content}")
            translator.counts = LineCounts()

    def finish(self) -> tuple[LineCounts, int | None]:
        """Join the chunks to the output. Remove the folder, and those of other jobs with the same output.

        Returns the counts of all lines, and the longest source in subwords that is translated in one piece. Raises
        NmtError where a chunk is missing, or was made from other text than the input has now.
        """
        counts, longest, digests = LineCounts(), None, Digests()
        with atomic.reporting(self.output, "--output"), atomic.replacing(self.output) as content:
            with content.open("wb") as file:
                lines: IO[bytes] = io.BytesIO() if self.document else file
                for chunk in self._chunks(digests):
                    header = _header_of(chunk.path, copy_to=lines)
                    if header.get("text") != chunk.digest:
                        chunk.path.unlink(missing_ok=True)
                        raise self._changed()
                    counts, longest = counts + LineCounts(**header["counts"]), header["longest"]
                if self.document:
                    lines.seek(0)
                    file.write(self.document.with_lines([line.decode()[:-1] for line in lines], self.output))
            if any(digests[path] != self.digests.get(path, digests[path]) for path in digests):
                raise self._changed()
        _remove(self.folder)
        for folder in self._others():
            with suppress(OSError, atomic.HeldByAnother), atomic.locked(folder):
                _remove(folder)
        return counts, longest

    def _chunks(self, digests: Digests) -> Iterator["_Chunk"]:
        """The chunks of the input, read now. digests: as in read_lines."""
        first = 1
        prefixes = None if self.prefixes is None else read_lines(self.prefixes, digests)
        of_source = self.document.lines(digests) if self.document else read_lines(self.source, digests)
        for lines in chunked(of_source, self.chunk_lines):
            given = None if prefixes is None else list(islice(prefixes, len(lines)))
            yield _Chunk(self.folder / f"{first}-{first + len(lines) - 1}", first, lines, given)
            first += len(lines)
        if prefixes is not None:
            next(prefixes, None)  # to the end, where its digest is known

    def _remove_outdated(self) -> None:
        """Remove translated chunks that are damaged, or were made from other text."""
        if self._translated():
            expected = {chunk.path: chunk.digest for chunk in self._chunks({})}
            for path in self._translated():
                if _header_of(path).get("text") != expected.get(path, ""):
                    path.unlink(missing_ok=True)

    def _changed(self) -> NmtError:
        return NmtError(f"{self.source}: has changed while it was translated: run the command again")

    def _remove_if_empty(self, lock: int) -> None:
        with suppress(OSError):  # once the lock file is removed, a folder of this name may be another command's
            if os.fstat(lock).st_nlink and not self._translated():
                _remove(self.folder)

    def _translated(self) -> dict[Path, int]:
        """The translated chunks, and the number of lines of each."""
        matches = {path: _CHUNK.fullmatch(path.name) for path in self.folder.iterdir()}
        return {path: int(match[2]) - int(match[1]) + 1 for path, match in matches.items() if match}

    def lines_done(self) -> int:
        """How many lines are translated, by any process."""
        return sum(self._translated().values())

    def _done(self) -> str:
        return f"{self.lines_done():,} of {self.lines:,} lines are translated"

    def _others(self) -> list[Path]:
        """The folders of jobs with the same output and another model, input or options."""
        name = re.compile(rf"\.{re.escape(self.output.name)}\.[0-9a-f]{{16}}\.part")
        with suppress(PermissionError):  # a folder that can be written to but not listed
            others = [
                path for path in self.output.parent.iterdir() if name.fullmatch(path.name) and path != self.folder
            ]
            return [folder for folder in others if (folder / atomic.LOCK).is_file()]
        return []

    def _log_state(self) -> None:
        if self._translated():
            log.info("%s: %s: continuing", self.output, self._done())
            return
        for folder in self._others():
            log.warning(
                "%s: an unfinished translation with another model, input or options is in %s; it is kept until this "
                "one is complete: starting from the first line",
                *(self.output, folder.name),
            )


@dataclass(frozen=True)
class _Chunk:
    """Lines that are translated together, and the file of their translations."""

    path: Path
    first: int
    lines: list[str]
    prefixes: list[str] | None

    @cached_property
    def digest(self) -> str:
        """Stands for the text that the chunk is made from."""
        return hashlib.sha256(json.dumps([self.lines, self.prefixes]).encode()).hexdigest()


def _header_of(path: Path, copy_to: IO[bytes] | None = None) -> dict[str, Any]:
    """The first line of a translated chunk, and on request the rest copied to a file; empty for a damaged chunk."""
    try:
        chunk = path.open("rb")
    except OSError:
        return {}
    with chunk:
        try:
            header = json.loads(chunk.readline())
        except (OSError, ValueError):
            return {}
        if copy_to is not None:
            shutil.copyfileobj(chunk, copy_to)
    return header if isinstance(header, dict) else {}


def _remove(folder: Path) -> None:
    """Remove the files of a job whose lock we hold, and its folder if nothing else is in it."""
    with suppress(OSError):
        atomic.remove_unfinished(folder)
        for path in list(folder.iterdir()):
            if _CHUNK.fullmatch(path.name):
                path.unlink()
        (folder / atomic.LOCK).unlink()
        folder.rmdir()
