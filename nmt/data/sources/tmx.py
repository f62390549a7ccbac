"""Translation memories in TMX (Translation Memory eXchange, 1.1 to 1.4b), read as a stream.

A unit (`tu`) holds a sentence in several languages (`tuv`), with the text of each in a `seg`. Codes of the document's
format inside the text are left out (see `inline_codes`). The content of `hi` and of unknown elements is text.
Characters that XML does not allow are left out (see `xml_characters`). Specification:
https://www.gala-global.org/tmx-14b
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from nmt.config import schema
from nmt.config.language_codes import normal
from nmt.data.sources import inline_codes
from nmt.data.sources.tables import one_line
from nmt.data.sources.xml_characters import AllowedCharacters
from nmt.errors import NmtError
from nmt.files.notes import Note, counted
from nmt.files.text import Digests, opened
from nmt.files.utf16 import as_utf8
from nmt.files.xml import guarded_parser, parse

_BLOCK_BYTES = 1 << 16  # of XML parsed at a time; this bounds the units in memory
# A line break with the indentation around it. A match begins only at the first of several spaces; otherwise matching
# would take quadratic time.
_LINE_BREAK = re.compile(r"(?<![ \t\r])[ \t\r]*\n[ \t\r\n]*")
_MOST_LANGUAGES = 10  # named in a message


def tmx_pairs(
    path: Path, corpus: schema.Corpus, data: schema.DataConfig, digests: Digests, note: Note
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a TMX file in its order, from each unit that has both languages.

    A language of `data` matches any region: `de` matches `de-AT`. A language that the corpus names as its column must
    match exactly. In both, case does not matter, and `_` is the same as `-`. If a unit has several variants of a
    language, the exact match is used, or else the first variant. Omitted units and variants are counted and noted at
    the end.

    Raises NmtError for a file that is missing, damaged or not TMX, or that declares entities, and after the last unit
    if no unit has both languages.
    """
    return ((source, target) for source, target, _ in _units(path, corpus, data, digests, note, None))


def unit_properties(path: Path, corpus: schema.Corpus, data: schema.DataConfig, name: str) -> Iterator[str]:
    """The values of a `prop` of this type, or of an attribute of the unit, for each pair of `tmx_pairs`; empty for a
    unit without one. Raises NmtError as `tmx_pairs` does."""
    return (value for *_, value in _units(path, corpus, data, {}, lambda remark: None, name))


def _units(
    path: Path, corpus: schema.Corpus, data: schema.DataConfig, digests: Digests, note: Note, wanted: str | None
) -> Iterator[tuple[str, str, str]]:
    """Source, target, and the value of the `prop` or attribute `wanted`, of each unit that has both languages."""
    with opened(path, digests) as stream:
        content = as_utf8(stream, str(path))
        characters = AllowedCharacters(content)
        units = _Units(path, corpus, data, None if content is stream else "utf-8", wanted)
        for block in characters.blocks(_BLOCK_BYTES):
            yield from units.parse(block, last=False)
        yield from units.parse(b"", last=True)
    characters.report(note)
    units.report(note)


class _Units:
    """Turns the events of the XML parser into pairs, and counts omitted units and variants."""

    def __init__(
        self, path: Path, corpus: schema.Corpus, data: schema.DataConfig, encoding: str | None, wanted: str | None
    ) -> None:
        """encoding: of the XML; None: as the XML declares. wanted: type of a `prop` or attribute of the unit."""
        self._path = path
        named = corpus.source_column, corpus.target_column
        self._codes = tuple(
            normal(column or code)
            for column, code in zip(named, (data.source_language, data.target_language), strict=True)
        )
        self._exactly = tuple(column is not None for column in named)
        self._seen: dict[str, tuple[str, int | None]] = {}  # languages so far: the normal code and its side
        self._wanted, self._value = wanted, list[str]()  # of this unit
        self._pairs: list[tuple[str, str, str]] = []  # complete, not yet returned
        self._units, self._incomplete, self._unused, self._languages = 0, 0, 0, Counter[str]()
        self._unit: list[tuple[str, str]] | None = None  # language and text, inside <tu>
        self._language = ""
        self._text: list[str] | None = None  # inside <seg>
        self._code: inline_codes.InlineCode | None = None  # inside a code in <seg>
        self._begun = False
        self._parser = guarded_parser(str(path), encoding)
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.SkippedEntityHandler = self._skipped_entity

    def parse(self, block: bytes, *, last: bool) -> list[tuple[str, str, str]]:
        """Parse a block. Returns the pairs that it completes."""
        try:
            parse(self._parser, block, str(self._path), last=last)
        except (ValueError, LookupError) as error:  # an encoding with several bytes per character, or an unknown one
            raise self._error(f"{error}: convert the file to UTF-8, and name UTF-8 in its first line") from None
        pairs, self._pairs = self._pairs, []
        return pairs

    def _error(self, problem: str) -> NmtError:
        return NmtError(f"{self._path}:{self._parser.CurrentLineNumber}: {problem}")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        if not self._begun and name != "tmx":
            raise self._error(f"not a TMX file: its first element is <{name}>")
        self._begun = True
        if self._text is not None:
            if self._code is not None:
                self._code.start()
            elif name in inline_codes.NAMES:
                self._code = inline_codes.InlineCode(name, attributes)
                self._parser.CharacterDataHandler = self._code.add
            elif name == inline_codes.PLACEHOLDER:
                self._text.append(inline_codes.InlineCode(name, attributes).replacement())
        elif name == "tu":
            self._unit = []
            self._value = [attributes.get(self._wanted or "", "")]
        elif name == "prop" and self._unit is not None and attributes.get("type") == self._wanted is not None:
            self._value = []
            self._parser.CharacterDataHandler = self._value.append
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""  # `lang` before TMX 1.4
        elif name == "seg" and self._unit is not None:
            self._text = []
            self._parser.CharacterDataHandler = self._text.append

    def _end(self, name: str) -> None:
        if self._code is not None and self._text is not None:
            if self._code.end():
                self._text.append(self._code.replacement())
                self._code, self._parser.CharacterDataHandler = None, self._text.append
        elif name == "seg" and self._unit is not None and self._text is not None:
            self._unit.append((self._language, _one_line(inline_codes.joined(self._text))))
            self._text = self._parser.CharacterDataHandler = None
        elif name == "prop" and self._text is None:
            self._parser.CharacterDataHandler = None
        elif name == "tu" and self._unit is not None:
            self._add_pair(self._unit)
            self._unit = None

    def _skipped_entity(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            raise self._error(f"&{name}; is not defined: write the character itself")

    def _add_pair(self, unit: list[tuple[str, str]]) -> None:
        variants: list[dict[str, str]] = [{}, {}]  # of each side: language and text
        unused = 0
        for language, text in unit:
            if language not in self._seen:
                code = normal(language)
                self._seen[language] = code, self._side(code)
            code, side = self._seen[language]
            self._languages[code] += 1
            if side is not None:
                unused += code in variants[side]
                variants[side].setdefault(code, text)
        self._units += 1
        if not all(variants):
            self._incomplete += 1
            return
        source, target = (
            texts[code] if code in texts else next(iter(texts.values()))
            for texts, code in zip(variants, self._codes, strict=True)
        )
        self._unused += unused + len(variants[0]) + len(variants[1]) - 2
        self._pairs.append((source, target, _one_line("".join(self._value))))

    def _side(self, code: str) -> int | None:
        """The side of a language: 0 source, 1 target, None neither. Between `en` and `en-gb`, the longer name wins."""
        sides = [
            side
            for side, side_code in enumerate(self._codes)
            if code == side_code or (not self._exactly[side] and code.startswith(f"{side_code}-"))
        ]
        return max(sides, key=lambda side: len(self._codes[side]), default=None)

    def report(self, note: Note) -> None:
        """Note omitted units and variants. Raises NmtError if no unit has both languages."""
        source, target = self._codes
        if self._units and self._incomplete == self._units:
            most = [f"{code or 'no name'} ({count:,})" for code, count in self._languages.most_common(_MOST_LANGUAGES)]
            more = ", …" if len(self._languages) > _MOST_LANGUAGES else ""
            raise NmtError(
                f"{self._path}: no unit has both {source} and {target}; its languages are "
                f"{', '.join(most) or 'none'}{more}: choose two (in a config also as source_column, target_column)"
            )
        if self._incomplete:
            note(f"{self._incomplete:,} of {self._units:,} units are skipped: without {source} or {target}")
        if self._unused:
            variants = counted(self._unused, "further variant", "further variants")
            are = "are" if self._unused > 1 else "is"
            note(f"{variants} of {source} or {target} in a unit {are} not used")


def _one_line(text: str) -> str:
    """The text in one line: a line break and the white space around it become a space."""
    return one_line(_LINE_BREAK.sub(" ", text).strip(" ")) if "\n" in text else one_line(text)
