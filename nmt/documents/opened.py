"""An opened document: the lines to translate, and the file with their translations."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

from nmt.config.language_codes import matching
from nmt.decoding.markup.marked_text import MarkedLine, MarkedText
from nmt.decoding.translation import Rated
from nmt.documents.document import Document, NotTranslatable, TranslatableText
from nmt.documents.encoding import decoded
from nmt.documents.file_formats import DocumentFormat
from nmt.documents.formats import word
from nmt.errors import NmtError
from nmt.files.notes import counted
from nmt.files.text import reading

log = logging.getLogger("nmt")

_MOST_BYTES = 64 << 20  # maximum size of a document, because all of it is in memory


@dataclass(frozen=True)
class OpenedDocument:
    """A file and the documents in it."""

    path: Path
    parts: Sequence[Document]  # one, or several in an archive
    write: Callable[[Sequence[str]], bytes]  # returns the file with other contents of the parts
    language: str  # code of the source language, used to find the ends of sentences
    keep: tuple[str, ...]  # patterns of its placeholders, as in decoding.keep
    other_language: str = ""  # a warning if the file names another target language

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
        """Opens a file. target_language: as for DocumentFormat.read. output: the file that the translation replaces.
        Raises NmtError for a file that cannot be read or is not of this format."""
        translated = None
        if only_missing and format.translations == "output" and output is not None and output.is_file():
            translated = _read_bytes(output), output
        data = _read_bytes(path)
        return cls.from_bytes(
            data,
            path,
            format,
            language=language,
            target_language=target_language,
            only_missing=only_missing,
            translated=translated,
        )

    @classmethod
    def from_bytes(
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
        """Opens the content of a file. path: for messages. translated: content and path of the file in the target
        language. most_unpacked: maximum bytes of an unpacked archive. Raises NmtError as `read`."""
        warning = ""
        if format.is_archive:
            documents = word.open_archive(data, path, most_unpacked)
            parts = list(documents.values())

            def write(contents: Sequence[str]) -> bytes:
                new = dict(zip(documents, contents, strict=True))
                if all(new[name] == documents[name].content for name in new):
                    return data
                return word.with_parts(data, new)

        else:
            content, encoding = decoded(data, path, format.declaration)
            other = translated and (decoded(*translated, format.declaration)[0], translated[1])
            document = format.read(
                content, path, only_missing=only_missing, translated=other, target_language=target_language
            )
            parts = [document]
            named = format.named_target(content)
            if named and target_language and not matching(named, [target_language]):
                warning = f"its target language is {named}, but the translations are in {target_language}"

            def write(contents: Sequence[str]) -> bytes:
                return data if contents[0] == content else encoding.encoded(contents[0], path)

        return cls(path, parts, write, language, parts[0].keep, warning)

    @cached_property
    def texts(self) -> dict[TranslatableText, MarkedText]:
        """Each text that is translated, once, with its lines."""
        texts = chain.from_iterable(part.texts for part in self.parts)
        return {text: MarkedText(text.text, self.language, text.markup) for text in dict.fromkeys(texts)}

    @cached_property
    def marked_lines(self) -> list[MarkedLine]:
        return list(chain.from_iterable(marked.lines for marked in self.texts.values()))

    def with_lines(self, lines: Sequence[Rated], output: Path, below: int = 0) -> bytes:
        """As `translated`, but logs the notes."""
        written, notes = self.translated(lines, output, below)
        for level, note in notes:
            log.log(level, "%s", note)
        return written

    def translated(self, lines: Sequence[Rated], output: Path, below: int = 0) -> tuple[bytes, list[tuple[int, str]]]:
        """The translated file, and notes for the user: pairs of a level of `logging` and a message.

        A text is not translated if its translation lacks a placeholder, or if that of one of its lines is empty. In
        formats without placeholders, only this line is not translated. lines: the translations of `marked_lines`.
        output: the translated file, for messages. below: units in which a line has a lower confidence get a note.
        """
        translations, empty = iter(lines), 0
        new, confidence = dict[TranslatableText, str](), defaultdict[TranslatableText, float](lambda: 100)
        for text, marked in self.texts.items():
            rated = list(islice(translations, len(marked.lines)))
            missing = sum(not line for line, _ in rated)
            empty += missing
            if not (missing and self.keep):
                new[text] = marked.with_lines([line for line, _ in rated])
            confidence[text] = min((value for _, value in rated if value is not None), default=100)

        def translation(text: TranslatableText) -> str:
            if text not in new:
                raise NotTranslatable
            if self.keep and not text.is_protected(new[text], self.keep):
                raise NotTranslatable(f"the placeholders of its translation differ: {text.text!r:.80}")
            return new[text]

        untranslated = list[tuple[int, str]]()
        contents = [part.translated(translation, untranslated, confidence.__getitem__, below) for part in self.parts]
        notes = list(self._notes_on_the_file())
        if empty:
            texts = counted(empty, "text is", "texts are")
            notes.append((logging.WARNING, f"{self.path}: {texts} not translated, because the model wrote nothing"))
        notes += [(logging.WARNING, f"{self.path}: line {line}: {reason}") for line, reason in untranslated]
        for part, content in zip(self.parts, contents, strict=True):
            notes += [(logging.INFO, f"{output}: {message}") for message in part.report(content)]
        return self.write(contents), notes

    def _notes_on_the_file(self) -> Iterator[tuple[int, str]]:
        if self.other_language:
            yield logging.WARNING, f"{self.path}: {self.other_language}"
        existing = sum(part.existing for part in self.parts)
        if existing:
            texts = counted(existing, "text already has a translation", "texts already have a translation")
            yield logging.INFO, f"{self.path}: {texts}, which nmt translate replaces only with --retranslate"
        elif not self.texts:
            yield logging.WARNING, f"{self.path}: no text to translate was found: the output is the same"


def _read_bytes(path: Path) -> bytes:
    """Raises NmtError for a document that is too large."""
    with reading(path), path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise NmtError(f"{path}: larger than {_MOST_BYTES >> 20} MiB, the maximum: split it into several files")
    return data
