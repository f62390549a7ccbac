"""A document's file, opened: the lines that are translated, and the file with their translations."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from nmt.decoding.markup.marked_text import MarkedLine, MarkedText
from nmt.documents.document import Document, NotTranslatable, TranslatableText
from nmt.documents.encoding import decoded
from nmt.documents.file_formats import DocumentFormat
from nmt.documents.formats import word
from nmt.errors import NmtError
from nmt.files.notes import counted
from nmt.files.text import reading

log = logging.getLogger("nmt")

_MOST_BYTES = 64 << 20  # of a document, all of which is in memory


@dataclass(frozen=True)
class OpenedDocument:
    """A file, and its parts, most of which have one. write: the file with other contents of these. language: the code
    of its language, for the ends of sentences. keep: as decoding.keep, for its placeholders."""

    path: Path
    parts: Sequence[Document]
    write: Callable[[Sequence[str]], bytes]
    language: str
    keep: tuple[str, ...]

    @classmethod
    def read(
        cls,
        path: Path,
        format: DocumentFormat,
        *,
        language: str = "",
        target_language: str = "",
        only_missing: bool = True,
        output: Path | None = None,
    ) -> "OpenedDocument":
        """target_language: as for Format.read. output: what the translated file replaces. Raises NmtError where a file
        cannot be read, or is not of this format."""
        translated = None
        if only_missing and format.translations == "output" and output is not None and output.is_file():
            translated = _read_bytes(output), output
        data = _read_bytes(path)
        return cls.of(
            data,
            path,
            format,
            language=language,
            target_language=target_language,
            only_missing=only_missing,
            translated=translated,
        )

    @classmethod
    def of(
        cls,
        data: bytes,
        path: Path,
        format: DocumentFormat,
        *,
        language: str = "",
        target_language: str = "",
        only_missing: bool = True,
        translated: tuple[bytes, Path] | None = None,
        most_unpacked: int = word.MOST_BYTES,
    ) -> "OpenedDocument":
        """The content of a file. path: for messages. translated: content and path of the file of the other language.
        most_unpacked: bytes of an archive. Raises NmtError as `read`."""
        if format.is_archive:
            of_names = word.open_archive(data, path, most_unpacked)
            parts = list(of_names.values())

            def write(contents: Sequence[str]) -> bytes:
                new = dict(zip(of_names, contents, strict=True))
                return data if all(new[name] == of_names[name].content for name in new) else word.with_parts(data, new)

        else:
            content, encoding = decoded(data, path, format.declaration)
            other = translated and (decoded(*translated, format.declaration)[0], translated[1])
            parts = [
                format.read(content, path, only_missing=only_missing, translated=other, target_language=target_language)
            ]

            def write(contents: Sequence[str]) -> bytes:
                return data if contents[0] == content else encoding.encoded(contents[0], path)

        return cls(path, parts, write, language, parts[0].keep)

    @cached_property
    def texts(self) -> dict[TranslatableText, MarkedText]:
        """Each text to be translated once, and its lines."""
        texts = dict.fromkeys(text for part in self.parts for text in part.texts)
        return {text: MarkedText(text.text, self.language, text.markup) for text in texts}

    @cached_property
    def marked_lines(self) -> list[MarkedLine]:
        return [line for marked in self.texts.values() for line in marked.lines]

    def with_lines(self, lines: Sequence[str], output: Path) -> bytes:
        """As `translated`, with what the user should know in the log."""
        written, notes = self.translated(lines, output)
        for level, note in notes:
            log.log(level, "%s", note)
        return written

    def translated(self, lines: Sequence[str], output: Path) -> tuple[bytes, list[tuple[int, str]]]:
        """The file with translations of its lines, and what the user should know of it, with the levels of `logging`.
        A text whose placeholders are not all in its translation as often stays as it is. output: its name, for
        messages."""
        translations = iter(lines)
        new = {
            text: marked.with_lines(list(islice(translations, len(marked.lines))))
            for text, marked in self.texts.items()
        }

        def translation(text: TranslatableText) -> str:
            if self.keep and not text.is_protected(new[text], self.keep):
                raise NotTranslatable(f"its placeholders were not kept: {text.text!r:.80}")
            return new[text]

        left = list[tuple[int, str]]()
        contents = [part.translated(translation, left) for part in self.parts]
        notes = [(logging.WARNING, f"{self.path}: line {line}: {why}") for line, why in left]
        reports = zip(self.parts, contents, strict=True)
        more = [(logging.INFO, f"{output}: {line}") for part, content in reports for line in part.report(content)]
        return self.write(contents), [*notes, *self._what_stays(output), *more]

    def _what_stays(self, output: Path) -> Iterator[tuple[int, str]]:
        existing = sum(part.existing for part in self.parts)
        if existing:
            number = counted(existing, "text has a translation and stays", "texts have a translation and stay")
            yield logging.INFO, f"{output}: {number} as before; --retranslate: translate again"
        elif not self.texts:
            yield logging.WARNING, f"{self.path}: no text to translate was found: the output is the same"


def _read_bytes(path: Path) -> bytes:
    """Raises NmtError for a document that is too large."""
    with reading(path), path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise NmtError(f"{path}: larger than {_MOST_BYTES >> 20} MiB, the largest document: split it into several")
    return data
