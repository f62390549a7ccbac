"""A file translated to a file: in chunks that several processes share, and that a later command goes on from.

Beside FILE stands a folder `.FILE.KEY.part` until it is there; KEY stands for the model, the options and the input, so
that nothing is continued with another. Chunks are ranges of lines that follow from the input alone, every N-th of them
is a process's own, and no process waits for another. A finished one is a file in the folder: its name is its range of
lines, its first line says from what text it was made and what became of its lines, as JSON.
"""

import hashlib
import json
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path

from tqdm import tqdm

from nmt import __version__
from nmt.data.store_folder import content_key
from nmt.decoding.chunks import CHUNK_LINES, LineCounts, chunked
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_output
from nmt.files.text import Digests, file_digest, read_lines, survey

log = logging.getLogger("nmt")

_SHARES = 4  # chunks that each of several processes has at least, if the lines are enough
_CHUNK = re.compile("([0-9]+)-([0-9]+)")
_SECONDS_A_LOOK = 0.5


@dataclass(frozen=True)
class FileJob:
    """What is to be translated, and where to; `lines` is how many there are, `key` stands for what makes the output.

    prefixes: a file with as many lines, what their translations begin with. digests: of all files that make the output,
    as they were when the key was computed.
    """

    source: Path
    output: Path
    key: str
    lines: int
    chunk_lines: int
    prefixes: Path | None = None
    digests: Mapping[Path, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        files: Mapping[str, Sequence[Path]],
        source: Path,
        output: Path,
        options: Mapping[str, object],
        processes: int = 1,
        prefixes: Path | None = None,
    ) -> "FileJob":
        """The job for these files (the model's, a glossary, …) and options, which JSON can hold. Reads the files once.

        Several processes share a file that is too short for whole chunks in smaller ones. Raises NmtError where a
        file cannot be read, the output is a folder or one of them, or the prefixes are not as many as the lines.
        """
        read = [source, *chain.from_iterable(files.values()), *([] if prefixes is None else [prefixes])]
        output = check_output(output, read)
        digests: Digests = {}
        lines = survey(source, digests)
        if prefixes is not None and (begun := survey(prefixes, digests)) != lines:
            raise NmtError(f"{prefixes}: {begun:,} lines, and {source} has {lines:,}: give a prefix for each line")
        chunk_lines = CHUNK_LINES
        if processes > 1:
            chunk_lines = max(1, min(CHUNK_LINES, -(-lines // (_SHARES * processes))))
        digests |= {path: file_digest(path) for path in chain.from_iterable(files.values())}
        parts = {name: [digests[path] for path in paths] for name, paths in files.items()}
        begins = None if prefixes is None else digests[prefixes]
        key = content_key(__version__, parts, dict(options), digests[source], begins, chunk_lines)
        return cls(source, output, key, lines, chunk_lines, prefixes, digests)

    @property
    def folder(self) -> Path:
        return self.output.with_name(f".{self.output.name}.{self.key}.part")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the job to oneself; says what is there of it, and shows at a terminal how far it is.

        Raises NmtError where another command works on it, or nothing can be written.
        """
        with ExitStack() as held:
            with self._writing():
                self.folder.mkdir(exist_ok=True)
                try:
                    lock = held.enter_context(atomic.locked(self.folder))
                except (atomic.HeldByAnother, FileNotFoundError):  # not found: another one has just finished it
                    raise NmtError(f"{self.output}: another nmt is writing it: wait for it, or end it") from None
                atomic.remove_unfinished(self.folder)
            held.callback(self._remove_if_empty, lock)
            try:
                self._say_what_is_there()
                with self._bar():
                    yield
            except KeyboardInterrupt:
                log.info("%s: %s: the same command goes on from there", self.output, self._done())
                raise

    def check_loaded(self, translator: Translator) -> None:
        """Raise NmtError where a file that was loaded is not the one that `key` stands for."""
        for path, digest in self.digests.items():
            if path in (self.source, self.prefixes):
                continue  # each chunk says of what text it was made
            if (translator.digests.get(path) or file_digest(path)) != digest:
                raise NmtError(f"{path}: has changed since the command was started: run it again")

    def translate(
        self, translator: Translator, rows: Callable[..., Iterable[str]], process: int = 0, of: int = 1
    ) -> None:
        """Translate what is missing of the share of one process `of` so many.

        `rows(translator, lines, first=number, prefixes=lines or None)` gives what to write for lines of which the first
        has that number; the translator's counts start anew with every chunk. Raises NmtError where a line cannot be
        translated, read or written.
        """
        for number, (first, path, chunk, given) in enumerate(self._parts({})):
            digest = _digest(chunk, given)
            if number % of == process and _made_from(path) != digest:
                translator.counts = LineCounts()
                text = "".join(f"{row}\n" for row in rows(translator, chunk, first=first, prefixes=given))
                said = {"text": digest, "counts": asdict(translator.counts), "longest": translator.longest_source}
                with self._writing():
                    atomic.write_text(path, json.dumps(said) + "\n" + text)

    def finish(self) -> tuple[LineCounts, int | None]:
        """Put the chunks together as the output, and remove the folder, and what was half-written with another model,
        input or options.

        Returns what became of the lines, and the most subwords of one that were translated as they are. Raises
        NmtError where a chunk is missing, or was made from other text than is there now.
        """
        counts, longest, digests = LineCounts(), None, Digests()
        with self._writing(), atomic.replacing(self.output) as content:
            with content.open("wb") as file:
                for _, path, chunk, given in self._parts(digests):
                    if _made_from(path) != _digest(chunk, given):
                        path.unlink(missing_ok=True)
                        raise self._changed()
                    with path.open("rb") as made:
                        said = json.loads(made.readline())
                        shutil.copyfileobj(made, file)
                    counts, longest = counts + LineCounts(**said["counts"]), said["longest"]
            if any(digests[path] != self.digests.get(path, digests[path]) for path in digests):
                raise self._changed()
        _remove(self.folder)
        for folder in self._others():
            with suppress(OSError, atomic.HeldByAnother), atomic.locked(folder):
                _remove(folder)
        return counts, longest

    def _parts(self, digests: Digests) -> Iterator[tuple[int, Path, list[str], list[str] | None]]:
        """Each chunk: the number of its first line, its file, its lines and prefixes; `digests`: as in read_lines."""
        first = 1
        prefixes = None if self.prefixes is None else read_lines(self.prefixes, digests)
        for chunk in chunked(read_lines(self.source, digests), self.chunk_lines):
            given = None if prefixes is None else list(islice(prefixes, len(chunk)))
            yield first, self.folder / f"{first}-{first + len(chunk) - 1}", chunk, given
            first += len(chunk)
        if prefixes is not None:
            next(prefixes, None)  # to its end, where its digest is known

    def _changed(self) -> NmtError:
        return NmtError(f"{self.source}: has changed while it was translated: run the command again")

    def _remove_if_empty(self, lock: int) -> None:
        with suppress(OSError):  # once the lock file is removed, a folder of this name may be another command's
            if os.fstat(lock).st_nlink and not self._chunks():
                _remove(self.folder)

    def _chunks(self) -> list[tuple[int, int]]:
        """First and last line of the chunks that are there."""
        found = (_CHUNK.fullmatch(path.name) for path in self.folder.iterdir())
        return [(int(match[1]), int(match[2])) for match in found if match]

    def _translated(self) -> int:
        return sum(last - first + 1 for first, last in self._chunks())

    def _done(self) -> str:
        return f"{self._translated():,} of {self.lines:,} lines are translated"

    def _others(self) -> list[Path]:
        """The folders of jobs with the same output, of another model, input or options."""
        name = re.compile(rf"\.{re.escape(self.output.name)}\.[0-9a-f]{{16}}\.part")
        found: list[Path] = []
        with suppress(PermissionError):  # a folder that may be written and not listed
            found += self.output.parent.iterdir()
        return [
            folder
            for folder in found
            if name.fullmatch(folder.name) and folder != self.folder and (folder / atomic.LOCK).is_file()
        ]

    def _say_what_is_there(self) -> None:
        if self._chunks():
            log.info("%s: %s: going on from there", self.output, self._done())
            return
        for folder in self._others():
            log.warning(
                "%s: what is half-written is of another model, input or options, and left in %s until the new one "
                "is whole: starting from the first line",
                *(self.output, folder.name),
            )

    @contextmanager
    def _bar(self) -> Iterator[None]:
        """Lines and lines a second, counted by what is in the folder, whoever writes there."""
        if sys.stderr is None or not sys.stderr.isatty():
            yield
            return
        ended = threading.Event()
        with tqdm(total=self.lines, initial=self._translated(), desc="translating", unit=" lines", leave=False) as bar:

            def look() -> None:
                while not ended.wait(_SECONDS_A_LOOK):
                    bar.update(self._translated() - bar.n)

            looking = threading.Thread(target=look, daemon=True)
            looking.start()
            try:
                yield
            finally:
                ended.set()
                looking.join()

    def _writing(self) -> AbstractContextManager[None]:
        return atomic.reporting(self.output, "--output")


def _digest(lines: list[str], prefixes: list[str] | None) -> str:
    """Stands for what a chunk is made from."""
    return hashlib.sha256(json.dumps([lines, prefixes]).encode()).hexdigest()


def _made_from(path: Path) -> str | None:
    """The digest of the text that a chunk was made from; None where there is no such chunk, or it is damaged."""
    try:
        with path.open("rb") as chunk:
            digest: str = json.loads(chunk.readline())["text"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return digest


def _remove(folder: Path) -> None:
    """Remove the folder of a job, whose lock we have: what a job writes there, and the folder if nothing is left."""
    with suppress(OSError):
        atomic.remove_unfinished(folder)
        for path in list(folder.iterdir()):
            if _CHUNK.fullmatch(path.name):
                path.unlink()
        (folder / atomic.LOCK).unlink()
        folder.rmdir()
