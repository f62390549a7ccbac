"""The formats of documents, by the endings of their names."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nmt.commands.documents import gettext, json_strings, subtitles, xliff
from nmt.commands.documents.document import Document, Segment, Text


@dataclass(frozen=True)
class Format:
    """read: as the modules of this package; keeps_translations: whether its files hold both languages, so that it takes
    only_missing."""

    name: str
    read: Callable[..., Document]
    keeps_translations: bool = False


def _read_html(content: str, path: Path) -> Document:
    return Document(content, [Segment(0, len(content), [Text(content, "html")], lambda texts: texts[0])])


_SUBTITLES, _JSON = Format("subtitles", subtitles.read), Format("a string table", json_strings.read)
_PO = Format("a PO file", gettext.read, keeps_translations=True)
_XLIFF = Format("XLIFF", xliff.read, keeps_translations=True)
_HTML = Format("an HTML page", _read_html)
FORMATS = {
    ".srt": _SUBTITLES,
    ".vtt": _SUBTITLES,
    ".po": _PO,
    ".pot": _PO,
    ".xlf": _XLIFF,
    ".xliff": _XLIFF,
    ".json": _JSON,
    ".arb": _JSON,
    ".html": _HTML,
    ".htm": _HTML,
}


def format_of(path: Path | None) -> Format | None:
    """The format of a document; None for lines of text."""
    return None if path is None else FORMATS.get(path.suffix.lower())
