"""Remove the characters that XML 1.0 does not allow. Word processors write them nevertheless, and one of them makes a
whole file unreadable. Specification: https://www.w3.org/TR/xml/#charsets
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from nmt.files.notes import Note, counted, shown

_START = 256  # bytes that hold the declaration of the encoding
_ENCODING = re.compile(rb"""\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.-]+)""")
_CONTROLS = b"[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]"  # in UTF-8 and in the encodings of one byte per character
_REFERENCE = b"&#(x[0-9A-Fa-f]{1,8}|[0-9]{1,8});"
# A reference, and possibly the second half of its surrogate pair: some programs write a pair as two references.
_REFERENCES = _REFERENCE + b"(?:&#(?:x0*[dD][c-fC-F][0-9A-Fa-f]{2}|0*5[67][0-9]{3});)?"
_ALLOWED = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# U+FFFE, U+FFFF and halves of surrogate pairs in UTF-8, which some programs write.
_IN_UTF8 = [b"\xef\xbf[\xbe\xbf]", b"\xed[\xa0-\xbf][\x80-\xbf]"]
_BREAKS = "\v\f"  # line and page breaks in a word processor: they become a space
_MOST_WITHOUT_TAG = 1 << 20  # bytes


class AllowedCharacters:
    """Removes the characters that are not allowed from the XML of a stream, and counts them."""

    def __init__(self, stream: BinaryIO) -> None:
        """stream: in UTF-8, or in an encoding of one byte per character that its first line names."""
        self._stream, self._left_out = stream, Counter[str]()

    def blocks(self, size: int) -> Iterator[bytes]:
        """The content in parts of about `size` bytes."""
        rest = self._stream.read(max(size, _START))
        declared = _ENCODING.match(rest.removeprefix(b"\xef\xbb\xbf"))
        is_utf8 = declared is None or declared[1].lower().startswith((b"utf", b"us-ascii"))  # UTF-16 was converted
        # Each pattern is searched for separately: a pattern with a fixed first byte is found ten times as fast.
        wrong = list(map(re.compile, [_CONTROLS, _REFERENCES, *(_IN_UTF8 if is_utf8 else ())]))
        while rest:
            block = self._stream.read(size)
            # The patterns do not contain ">". So no match is cut in two after a ">".
            end = rest.rfind(b">") + 1 if block else 0
            if not end and (not block or len(rest) > _MOST_WITHOUT_TAG):
                end = len(rest)
            allowed = rest[:end]
            for kind in wrong:
                allowed = kind.sub(self._replacement, allowed)
            yield allowed
            rest = rest[end:] + block

    def _replacement(self, reference: re.Match[bytes]) -> bytes:
        replacement = b""
        for character in _characters(reference[0]):
            if _ALLOWED.match(character):  # then it was a reference
                replacement += b"&#%d;" % ord(character)
            else:
                self._left_out[character] += 1
                replacement += b" " * (character in _BREAKS)
        return replacement

    def report(self, note: Note) -> None:
        """Note how many characters were left out."""
        if self._left_out:
            most_first = sorted(self._left_out.items(), key=lambda item: (-item[1], item[0]))
            count = counted(total := self._left_out.total(), "character", "characters")
            note(
                f"{count} that XML does not allow {'are' if total > 1 else 'is'} left out (a line or page break of a "
                f"word processor becomes a space): {shown(most_first)}"
            )


def _characters(matched: bytes) -> str:
    """The characters of matched bytes or references. Two halves of a surrogate pair are one character."""
    if not matched.startswith(b"&"):
        return matched.decode("utf-8", errors="surrogatepass")
    references = re.findall(_REFERENCE, matched)
    codes = [int(code[1:], 16) if code.startswith(b"x") else int(code) for code in references]
    halves = "".join(chr(code) if code < 0x110000 else "\uffff" for code in codes)
    return halves.encode("utf-16-le", errors="surrogatepass").decode("utf-16-le", errors="surrogatepass")
