"""Translates a document: it comes back as it was, with other text."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from nmt.commands.documents import word
from nmt.commands.documents.document import Document, Text
from nmt.commands.documents.formats import Format
from nmt.commands.models import ModelsOfCommand
from nmt.commands.progress import line_bar
from nmt.data.copied_items import is_kept
from nmt.decoding.chunks import log_counts
from nmt.decoding.markup.marked_text import Markup
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.notes import counted
from nmt.files.outputs import check_output
from nmt.files.text import reading

log = logging.getLogger("nmt")

_MOST_BYTES = 64 << 20  # of a document, all of which is in memory
_UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_KEEP = "decoding.keep="


def translate_document(
    opened: ModelsOfCommand,
    format: Format,
    source: Path,
    output: Path,
    *,
    overrides: Sequence[str] = (),
    glossary: Path | None = None,
    device: str = "auto",
    only_missing: bool = True,
) -> None:
    """Write a document's translation, which appears when it is complete. Raises NmtError for what the user can fix:
    before the model is loaded, if it is the document."""
    glossaries = [] if glossary is None else [glossary]
    place = check_output(output, [source, *opened.files, *glossaries])
    document = open_document(source, format, only_missing)
    texts = list(dict.fromkeys(text for part in document.parts for text in part.texts))
    keep, existing = document.parts[0].keep, sum(part.existing for part in document.parts)
    opened.log()
    if keep and not any(override.startswith(_KEEP) for override in overrides):
        overrides = [*overrides, _KEEP + json.dumps(keep)]
    translator = opened.translator(device, overrides, glossary)
    with line_bar("translating", len(texts)) as bar:
        translations = translate_texts(translator, texts, bar.update)
    new = [part.translated(translations.__getitem__) for part in document.parts]
    with atomic.reporting(output, "--output"), atomic.replacing(place) as path:
        path.write_bytes(document.write(new))
    log_counts(translator.counts, translator.longest_part)
    if existing:
        number = counted(existing, "text has", "texts have")
        log.info("%s: %s a translation and stay as they were; --retranslate: these too", source, number)
    for part, content in zip(document.parts, new, strict=True):
        for line in part.report(content):
            log.info("%s: %s", output, line)


@dataclass(frozen=True)
class OpenedDocument:
    """The parts of a file, most of which have one; write: the file with other contents of these."""

    parts: Sequence[Document]
    write: Callable[[Sequence[str]], bytes]


def open_document(path: Path, format: Format, only_missing: bool = True) -> OpenedDocument:
    """Raises NmtError where a file cannot be read, or is not of this format."""
    if format.is_archive:
        data = _read_bytes(path)
        parts = word.open_archive(data, path)

        def archive(contents: Sequence[str]) -> bytes:
            new = dict(zip(parts, contents, strict=True))
            return data if all(new[name] == parts[name].content for name in new) else word.with_parts(data, new)

        return OpenedDocument(list(parts.values()), archive)
    content, encoding, mark = decoded(path)
    document = format.read(content, path, only_missing=only_missing)
    return OpenedDocument([document], lambda contents: mark + contents[0].encode(encoding))


def _read_bytes(path: Path) -> bytes:
    """Raises NmtError for a document that is too large."""
    with reading(path), path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise NmtError(f"{path}: larger than {_MOST_BYTES >> 20} MiB, the largest document: split it into several")
    return data


def decoded(path: Path) -> tuple[str, str, bytes]:
    """A document's text, its encoding, and its byte order mark. Raises NmtError for one that is too large or in another
    encoding than UTF-8 or UTF-16."""
    data = _read_bytes(path)
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else data[:2] if data[:2] in _UTF_16 else b""
    encoding = _UTF_16.get(mark, "utf-8")
    try:
        return data[len(mark) :].decode(encoding), encoding, mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NmtError(f"{path}: line {line:,} is not {encoding.upper()}: convert it, as with iconv -t UTF-8") from None


def translate_texts(
    translator: Translator, texts: Sequence[Text], on_texts: Callable[[int], object]
) -> dict[Text, str]:
    """The translation of each text. One whose placeholders are not all in its translation as often stays as it is, and
    is logged."""
    found = dict[Text, str]()
    for markup in (None, *get_args(Markup)):
        of_kind = [text for text in texts if text.markup == markup]
        lines = translator.stream([text.text for text in of_kind], markup=markup, read_ahead=True)
        for text, translation in zip(of_kind, lines, strict=True):
            found[text] = translation
            on_texts(1)
    if patterns := translator.decoding.keep:
        lost = [text for text, new in found.items() if not is_kept(text.text, new, patterns)]
        for text in lost:
            log.warning("left as it is, since its placeholders were not kept: %.80r", text.text)
            found[text] = text.text
    return found
