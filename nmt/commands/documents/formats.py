"""The formats of documents, by the endings of their names. Their readers are loaded when they are needed."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.commands.documents.document import Document


@dataclass(frozen=True)
class Format:
    """name: for messages. reader: the module of this package that reads it. keeps_translations: whether its files hold
    both languages, so that it can read what is not translated alone. is_archive: whether they hold several documents.
    """

    name: str
    reader: str
    keeps_translations: bool = False
    is_archive: bool = False

    def read(self, content: str, path: Path, *, only_missing: bool = True) -> "Document":
        """The texts of a document. Raises NmtError for what is not of this format."""
        options = {"only_missing": only_missing} if self.keeps_translations else {}
        return import_module(f"nmt.commands.documents.{self.reader}").read(content, path, **options)


_SUBTITLES = Format("subtitles", "subtitles")
_PO = Format("a PO file", "gettext", keeps_translations=True)
_XLIFF = Format("XLIFF", "xliff", keeps_translations=True)
_JSON = Format("a string table", "json_strings")
_HTML = Format("an HTML page", "html_page")
_WORD = Format("a document of Word", "word", is_archive=True)
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
    ".docx": _WORD,
}


def format_of(path: Path | None) -> Format | None:
    """The format of a document; None for lines of text."""
    return None if path is None else FORMATS.get(path.suffix.lower())
