"""A file translated to a file: in chunks that several processes share, and that a later command goes on from.

Beside FILE stands a folder `.FILE.KEY.part` until it is there; KEY stands for the model, the options and the input, so
that nothing is continued with another. Chunks are ranges of lines that follow from the input alone, every N-th of them
is a process's own, and no process waits for another. A finished one is written to the folder under a temporary name,
synced and renamed: its name is its range of lines, its first line says what became of them, as JSON.
"""

import json
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path

import filelock
from tqdm import tqdm

from nmt import __version__
from nmt.data.corpus import file_digest, read_lines, survey
from nmt.data.storage import content_key
from nmt.decoding.lines import CHUNK_LINES, Counts, check_output, chunked
from nmt.decoding.translator import Translator
from nmt.errors import NmtError

log = logging.getLogger("nmt")

_SHARES = 4  # chunks that each of several processes has at least, if the lines are enough
_CHUNK = re.compile("([0-9]+)-([0-9]+)")
_SECONDS_A_LOOK = 0.5


@dataclass(frozen=True)
class FileJob:
    """What is to be translated, and where to; `lines` is how many there are, `key` stands for what makes the output.

    prefixes: a file with as many lines, what their translations begin with.
    """

    source: Path
    output: Path
    key: str
    lines: int
    chunk_lines: int
    prefixes: Path | None = None

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
        content, lines = survey(source)
        begins = None if prefixes is None else survey(prefixes)
        if begins is not None and begins[1] != lines:
            raise NmtError(f"{prefixes}: {begins[1]:,} lines, and {source} has {lines:,}: give a prefix for each line")
        chunk_lines = CHUNK_LINES
        if processes > 1:
            chunk_lines = max(1, min(CHUNK_LINES, -(-lines // (_SHARES * processes))))
        digests = {name: [file_digest(path) for path in paths] for name, paths in files.items()}
        key = content_key(__version__, digests, dict(options), content, begins and begins[0], chunk_lines)
        return cls(source, output, key, lines, chunk_lines, prefixes)

    @property
    def folder(self) -> Path:
        return self.output.with_name(f".{self.output.name}.{self.key}.part")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the job to oneself; says what is there of it, and shows at a terminal how far it is.

        Raises NmtError where another command works on it, or nothing can be written.
        """
        with self._writing():
            self.folder.mkdir(exist_ok=True)
            lock = filelock.FileLock(self.folder / "lock")
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                raise NmtError(f"{self.output}: another nmt is writing it: wait for it, or end it") from None
        try:
            self._say_what_is_there()
            with self._bar():
                yield
        except KeyboardInterrupt:
            log.info("%s: %s: the same command goes on from there", self.output, self._done())
            raise
        finally:
            if self.folder.exists() and not self._chunks():
                shutil.rmtree(self.folder, ignore_errors=True)
            lock.release()

    def translate(
        self, translator: Translator, rows: Callable[..., Iterable[str]], process: int = 0, of: int = 1
    ) -> None:
        """Translate what is missing of the share of one process `of` so many.

        `rows(translator, lines, first=number, prefixes=lines or None)` gives what to write for lines of which the first
        has that number; the translator's counts start anew with every chunk. Raises NmtError where a line cannot be
        translated, read or written.
        """
        first = 1
        prefixes = None if self.prefixes is None else read_lines(self.prefixes)
        for number, chunk in enumerate(chunked(read_lines(self.source), self.chunk_lines)):
            path = self.folder / f"{first}-{first + len(chunk) - 1}"
            given = None if prefixes is None else list(islice(prefixes, len(chunk)))
            if number % of == process and not path.exists():
                translator.counts = Counts()
                text = "".join(f"{row}\n" for row in rows(translator, chunk, first=first, prefixes=given))
                self._keep(path, json.dumps([asdict(translator.counts), translator.longest_source]) + "\n" + text)
            first += len(chunk)

    def finish(self) -> tuple[Counts, int | None]:
        """Put the chunks together as the output, and remove the folder, and what was half-written with another model,
        input or options.

        Returns what became of the lines, and the most subwords of one that were translated as they are. Raises
        NmtError where lines are missing.
        """
        counts, longest, whole = Counts(), None, self.folder / "whole"
        with self._writing(), whole.open("wb") as file:
            for first, last in sorted(self._chunks()):
                if first != counts.lines + 1:
                    break
                with (self.folder / f"{first}-{last}").open("rb") as chunk:
                    found, longest = json.loads(chunk.readline())
                    counts += Counts(**found)
                    shutil.copyfileobj(chunk, file)
            file.flush()
            os.fsync(file.fileno())
        if counts.lines != self.lines:
            raise NmtError(f"{self.source}: has changed while it was translated: start again")
        with self._writing():
            whole.replace(self.output)
        for folder in (self.folder, *self._others()):
            shutil.rmtree(folder, ignore_errors=True)
        return counts, longest

    def _keep(self, path: Path, text: str) -> None:
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        with self._writing():
            with temporary.open("w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)

    def _chunks(self) -> list[tuple[int, int]]:
        """First and last line of the chunks that are there."""
        found = (_CHUNK.fullmatch(path.name) for path in self.folder.iterdir())
        return [(int(match[1]), int(match[2])) for match in found if match]

    def _translated(self) -> int:
        return sum(last - first + 1 for first, last in self._chunks())

    def _done(self) -> str:
        return f"{self._translated():,} of {self.lines:,} lines are translated"

    def _others(self) -> list[Path]:
        """The folders of jobs with the same output, of another model, input or options, that nobody works on."""
        name = re.compile(rf"\.{re.escape(self.output.name)}\.[0-9a-f]{{16}}\.part")
        found = []
        for folder in self.output.parent.iterdir():
            if name.fullmatch(folder.name) and folder != self.folder:
                try:
                    with filelock.FileLock(folder / "lock", timeout=0):
                        found.append(folder)
                except (filelock.Timeout, OSError):
                    continue
        return found

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

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise NmtError(f"{self.output}: cannot be written: {error.strerror}: choose another --output") from None
