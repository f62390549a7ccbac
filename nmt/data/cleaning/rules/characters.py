"""The characters of many lines in one array, so that a rule looks at all lines at once; and what each character is."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import regex

_CODE_POINTS = 0x110000

# The kinds of a character: bits of `kinds`.
LETTER = 1  # a letter, or a mark on one
DIGIT = 2
SPACE = 4
QUESTION = 8
BROKEN = 16  # U+FFFD, where a decoder found no character; control characters that no text has
# UTF-8 that was read as Latin-1 or Windows-1252 has these in a row (`é` becomes `Ã©`, `–` becomes `â€“`):
LEAD_OF_TWO = 32  # the first byte of a character of two bytes
LEAD_OF_MORE = 64
CONTINUATION = 128  # any other byte
AMBIGUOUS = 256  # a CONTINUATION that stands after the letters of good text too: `CAFÉ»`, `inné…`, `áš`


@dataclass(frozen=True)
class TextLines:
    """Lines of text and the code points of all their characters."""

    texts: Sequence[str]
    codes: npt.NDArray[np.uint32]  # [characters]
    starts: npt.NDArray[np.int64]  # [lines]: where each line's characters begin
    lengths: npt.NDArray[np.int64]  # [lines]
    kinds: npt.NDArray[np.uint16]  # [characters]

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> "TextLines":
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
        return cls(texts, codes, np.cumsum(lengths) - lengths, lengths, kinds()[codes])

    def count(self, which: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """How many characters of each line are marked: [lines]. which: whether each character is marked
        [characters]."""
        sums = np.zeros(len(which) + 1, np.int32)
        np.cumsum(which, out=sums[1:])
        return (sums[self.starts + self.lengths] - sums[self.starts]).astype(np.int64)

    def count_kind(self, kind: int) -> npt.NDArray[np.int64]:
        return self.count((self.kinds & kind) != 0)

    def line_of(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The line of each of these characters: [n]. positions: indices into `codes` [n]."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)[positions]


def _marked(pattern: str) -> npt.NDArray[np.bool_]:
    """Whether each code point matches a pattern of one character with Unicode properties: [code points]."""
    marked = np.zeros(_CODE_POINTS, np.bool_)
    for match in regex.finditer(f"(?:{pattern})+", _every_character()):
        marked[match.start() : match.end()] = True
    return marked


@cache
def _every_character() -> str:
    return np.arange(_CODE_POINTS, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@cache
def kinds() -> npt.NDArray[np.uint16]:
    """The kinds of each code point, as the bits above: [code points]."""
    table = np.zeros(_CODE_POINTS, np.uint16)
    table[_marked(r"[\p{L}\p{M}]")] |= LETTER
    table[_marked(r"\p{Nd}")] |= DIGIT
    table[_marked(r"[\s\p{Z}\p{Cf}]")] |= SPACE
    table[ord("?")] |= QUESTION
    table[_marked(r"\uFFFD|(?=\p{Cc})[^\s\x85]")] |= BROKEN
    table[0xC2:0xE0] |= LEAD_OF_TWO
    table[0xE0:0xF5] |= LEAD_OF_MORE
    high = bytes(range(0x80, 0xC0))
    table[[ord(character) for character in high.decode("latin-1") + high.decode("cp1252", "ignore")]] |= CONTINUATION
    table[[ord(character) for character in "\u00a0«»‹›“”„‘’‚–—…•·®™ŠšŒœŽž"]] |= AMBIGUOUS
    return table


@cache
def in_scripts(names: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Whether each code point is in one of these scripts or common to all: [code points]. names: ISO 15924 codes."""
    return _marked("[" + "".join(rf"\p{{Script={name}}}" for name in (*names, "Zyyy", "Zinh")) + "]")


@cache
def digit_values() -> npt.NDArray[np.uint8]:
    """The value of each digit of any script: [code points]."""
    table = np.zeros(_CODE_POINTS, np.uint8)
    for code in np.flatnonzero(kinds() & DIGIT).tolist():
        table[code] = unicodedata.decimal(chr(code), 0)
    return table


def _changing(codes: npt.NDArray[np.int64]) -> list[int]:
    """The code points in blocks of 256 in which lower case or NFKD changes something. Checking each Chinese character
    would take half a second."""
    text = _every_character()
    blocks = [text[first : first + 256] for first in range(0, _CODE_POINTS, 256)]
    changes = [not block == block.lower() == unicodedata.normalize("NFKD", block) for block in blocks]
    return codes[np.array(changes)[codes >> 8]].tolist()


@cache
def folded(digits: bool = False) -> npt.NDArray[np.uint32]:
    """The letter of each code point without case, accents and width; 0 if it is not a letter: [code points]. digits:
    map the digits of all scripts to `0` to `9` instead of 0."""
    if digits:
        are_digits = (kinds() & DIGIT) != 0
        return np.where(are_digits, ord("0") + digit_values().astype(np.uint32), folded())
    table = np.where(kinds() & LETTER, np.arange(_CODE_POINTS), 0).astype(np.uint32)
    accents = re.compile("[\u0300-\u036f]")
    for code in _changing(np.flatnonzero(table)):
        lower = chr(code).lower()
        plain = accents.sub("", unicodedata.normalize("NFKD", lower))
        table[code] = ord(plain) if len(plain) == 1 else ord(lower) if len(lower) == 1 else code
    table[0x300:0x370] = 0
    table[ord("ı")] = ord("i")  # both are I in capitals, which is i again in small letters
    return table
