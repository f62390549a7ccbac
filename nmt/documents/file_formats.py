"""The formats of documents by file extension. The reader of a format is loaded when it is needed."""

import re
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nmt.errors import NmtError
from nmt.files.compression import plain_name
from nmt.files.text import opened

if TYPE_CHECKING:
    from nmt.documents.document import Document


@dataclass(frozen=True)
class DocumentFormat:
    """The properties of a format. They are available without loading its reader."""

    name: str  # for messages
    reader: str  # a module of nmt.documents.formats
    # Where existing translations are: in the file itself, which has both languages, or in a file of the target
    # language, which the output replaces. Only texts without a translation are translated.
    translations: Literal["", "file", "output"] = ""
    is_archive: bool = False  # a file holds several documents
    declaration: re.Pattern[str] | None = None  # group 1 finds the name of a file's encoding
    has_marked_lines: bool = False  # a file can also be read as lines with tags
    names_target: bool = False  # a file must name the language of its translations
    target: re.Pattern[str] | None = None  # group 1 finds the language of a file's translations

    def read(
        self,
        content: str,
        path: Path,
        *,
        only_missing: bool = True,
        translated: tuple[str, Path] | None = None,
        target_language: str = "",
    ) -> "Document":
        """Reads a document. translated: content and path of the file in the target language. target_language: its
        code. Raises NmtError for content that is not of this format."""
        options: dict[str, dict[str, Any]] = {
            "": {},
            "file": {"only_missing": only_missing},
            "output": {"translated": translated},
        }
        if self.names_target:
            options["file"]["target_language"] = target_language
        return import_module(f"nmt.documents.formats.{self.reader}").read(content, path, **options[self.translations])

    def named_target(self, content: str) -> str:
        """The language of the translations by the content of a file; empty if it names none."""
        match = self.target and self.target.search(content)
        return match[1] if match else ""


_NAME = r"([\w.:-]+)"
_BY_XML = r"""<\?xml\s[^<>]*?\bencoding\s*=\s*["']"""
_BY_HTML = r"""<meta\s[^<>]*?\bcharset\s*=\s*["']?"""
_HTML_COMMENT = r"<!--(?:.*?-->|.*)"
_IN_XML = re.compile(rf"\A\s*{_BY_XML}{_NAME}", re.IGNORECASE)
_IN_HTML = re.compile(rf"{_HTML_COMMENT}|(?:{_BY_XML}|{_BY_HTML}){_NAME}", re.IGNORECASE | re.DOTALL)
# Only the first: the header is the first entry.
_IN_PO = re.compile(rf"\A.*?Content-Type:[^\\\n]{{0,200}}?charset= *{_NAME}", re.IGNORECASE | re.DOTALL)
_LANGUAGE = "([A-Za-z]+(?:[-_][A-Za-z0-9]+)*)"
_PO_TARGET = re.compile(rf'msgid ""\s+msgstr\s+(?:".*"[ \t\r]*\n\s*)*?"(?:[^"\n]*\\n)?Language: *{_LANGUAGE}')
_XLIFF_TARGET = re.compile(
    rf"""<(?:\w+:)?(?:file|xliff)\s(?:[^<>]*\s)?(?:target-language|trgLang)\s*=\s*["']{_LANGUAGE}"""
)

_SRT = DocumentFormat("SRT subtitles", "subtitles")
_PO = DocumentFormat("a PO file", "gettext", translations="file", declaration=_IN_PO, target=_PO_TARGET)
_XLIFF = DocumentFormat(
    "XLIFF", "xliff", translations="file", declaration=_IN_XML, names_target=True, target=_XLIFF_TARGET
)
_JSON = DocumentFormat("a string table", "json_strings", translations="output")
_HTML = DocumentFormat("an HTML page", "html_page", declaration=_IN_HTML, has_marked_lines=True)
_WORD = DocumentFormat("a Word document", "word", is_archive=True)
FORMATS = {
    ".srt": _SRT,
    ".vtt": replace(_SRT, name="WebVTT subtitles"),
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

# What the service translates: all formats, and text files line by line.
FILE_FORMATS = FORMATS | {".txt": DocumentFormat("text", "plain_text")}

# Formats that are not supported. Their lines are not sentences.
_UNSUPPORTED = (
    *(".ass", ".ssa", ".sbv", ".sub", ".ttml", ".dfxp", ".itt", ".smi", ".lrc", ".scc", ".stl"),
    *(".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet", ".arrow", ".xlsx", ".xlsm", ".xls", ".ods", ".fods"),
    *(".xml", ".xhtml", ".xht", ".mhtml", ".mht", ".svg", ".plist"),
    *(".yaml", ".yml", ".toml", ".ini", ".json5", ".jsonc"),
    *(".resx", ".resw", ".strings", ".stringsdict", ".xcstrings", ".properties", ".ftl", ".php", ".js", ".qm", ".gmo"),
    *(".sdlxliff", ".mqxliff", ".mxliff", ".txlf", ".tmx", ".tbx", ".ttx"),
    *(".md", ".markdown", ".mdx", ".rst", ".adoc", ".asciidoc", ".tex", ".typ", ".ipynb", ".dita", ".dbk", ".idml"),
    *(".odt", ".fodt", ".ott", ".odp", ".docm", ".dotx", ".doc", ".pptx", ".pptm", ".ppt", ".rtf", ".pdf", ".pages"),
    *(".epub", ".fb2", ".mobi", ".azw3"),
)
# Extensions that are also language codes (Tsonga, Moldavian): how files of Qt and TypeScript, and of gettext, begin.
_BY_CONTENT = {
    ".ts": re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*(?:<[?!]|<TS\b|/[/*]|(?:import|export)\b)"),
    ".mo": re.compile(rb"\xde\x12\x04\x95|\x95\x04\x12\xde"),
}


def format_of(path: Path | None) -> DocumentFormat | None:
    """The format of a document by its extension; None for lines of text."""
    return None if path is None else FORMATS.get(path.suffix.lower())


def check_lines(path: Path) -> None:
    """Raises NmtError for a document that cannot be read as lines of text. The extension decides, and also the content
    if the extension can be a language code."""
    plain = Path(plain_name(path))
    if format := format_of(plain):
        raise NmtError(f"{path}: {format.name}, compressed: decompress it first")
    suffix = plain.suffix.lower()
    if suffix == ".tmx":
        raise NmtError(f"{path}: a translation memory: train with it (nmt init --train), or export its texts as XLIFF")
    if suffix in _UNSUPPORTED or (suffix in _BY_CONTENT and _begins_with(path, _BY_CONTENT[suffix])):
        raise NmtError(
            f"{path}: {plain.suffix} documents are not supported: convert it to a format of nmt translate --help, or "
            f"translate its lines: nmt translate MODEL < {path}"
        )


def check_name(output: Path, format: DocumentFormat) -> None:
    """Raises NmtError if the name of a translated document has the extension of another format."""
    if format_of(output) != format:
        extensions = " or ".join(extension for extension, other in FORMATS.items() if other == format)
        raise NmtError(f"{output}: the translation is {format.name}, whose name must end in {extensions}")


def _begins_with(path: Path, start: re.Pattern[bytes]) -> bool:
    if not path.is_file():  # a pipe can be read only once
        return False
    with opened(path) as stream:
        return start.match(stream.read(1024).replace(b"\0", b"")) is not None  # zero bytes are of UTF-16
