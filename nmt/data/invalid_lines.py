"""Lines of corpora that are not UTF-8: how many there are, their likely encoding, and how they are left out."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nmt.config import schema
from nmt.config.language_codes import base
from nmt.errors import NmtError
from nmt.files.notes import Note, counted
from nmt.files.text import NotUtf8Error, blocks_of_lines, opened
from nmt.files.utf16 import as_utf8

Pair = tuple[str, str]  # source sentence, target sentence
KEPT_BYTES = "surrogateescape"  # how bytes that are not UTF-8 are decoded, so that their lines can be left out
_HALVES = re.compile("[\ud800-\udfff]")  # of surrogate pairs
_SAMPLE = 1000  # lines whose encoding is looked for
# The encodings of Windows by language; those of all other languages are in Windows-1252.
_ENCODINGS = {
    "windows-1250": "cs hr hu pl ro sk sl sq bs", "windows-1251": "be bg kk ky mk mn ru sr tg tt uk",
    "windows-1253": "el", "windows-1254": "az tr", "windows-1255": "he yi", "windows-1256": "ar fa ur",
    "windows-1257": "et lt lv", "windows-1258": "vi", "cp874": "th", "gb18030": "zh", "shift_jis": "ja",
    "euc_kr": "ko",
}  # fmt: skip
_DEFAULT = "windows-1252"


class InvalidLinesError(NmtError):
    """Lines of a corpus are not UTF-8. problem: how many, and how to convert them, for commands without a config."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}, or give the corpus invalid: drop in the config, to leave such lines out")
        self.problem = problem


@contextmanager
def explained(corpus: schema.Corpus, languages: tuple[str, str]) -> Iterator[None]:
    """Add to the error for a line that is not UTF-8 how many there are, their likely encoding, and what can be done.
    languages: of source and target. Raises InvalidLinesError."""
    try:
        yield
    except NotUtf8Error as error:
        advice = "convert the file to UTF-8"
        if error.path is not None and error.path.is_file():  # a pipe cannot be read again
            advice = _survey(error.path, _of_file(error.path, corpus, languages))
        raise InvalidLinesError(f"{error.place} is not UTF-8: {advice}") from None


def _of_file(path: Path, corpus: schema.Corpus, languages: tuple[str, str]) -> Sequence[str]:
    """The languages that a file of the corpus may have."""
    names = (corpus.source, corpus.target)
    return [languages[names.index(str(path))]] if str(path) in names else languages


def _survey(path: Path, languages: Sequence[str]) -> str:
    """What to say of the lines of a file that are not UTF-8."""
    lines, invalid, sample, others = 0, 0, list[bytes](), False
    with opened(path) as stream:
        for block in blocks_of_lines(as_utf8(stream, str(path))):
            lines += block.count(b"\n") + (not block.endswith(b"\n"))
            for part in [block] if _is_utf8(block) else block.split(b"\n"):
                if _is_utf8(part):
                    others = others or not part.isascii()
                else:
                    invalid += 1
                    sample += [part] * (len(sample) < _SAMPLE)
    encoding = likely_encoding(sample, languages)
    said = f"{invalid:,} of {lines:,} lines are not{f' (probably {encoding})' if encoding else ''}"
    if others:  # converting the whole file would spoil these
        return f"{said}, while others are: convert these lines to UTF-8"
    return f"{said}: convert the file{f': iconv -f {encoding.upper()} -t UTF-8' if encoding else ' to UTF-8'}"


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def likely_encoding(lines: Sequence[bytes], languages: Sequence[str]) -> str | None:
    """The encoding that text in one of these languages has on Windows, if the lines can be in it; None if in none."""
    usual = [name for code in languages for name, codes in _ENCODINGS.items() if base(code) in codes.split()]
    for encoding in dict.fromkeys([*usual, _DEFAULT]):
        try:
            for line in lines:
                line.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return None


def emptied(pairs: Iterator[Pair], languages: tuple[str, str], note: Note) -> Iterator[Pair]:
    """The pairs, those with bytes that are not UTF-8 as empty ones, so that a file of scores stays aligned; in the end
    it is noted how many there were. pairs: decoded with `KEPT_BYTES`."""
    count, samples = 0, (list[bytes](), list[bytes]())
    for pair in pairs:
        raw = [_invalid_bytes(text) for text in pair]
        if any(line is not None for line in raw):
            count += 1
            for line, sample in zip(raw, samples, strict=True):
                sample += [line] * (len(sample) < _SAMPLE) if line else []
            pair = ("", "")
        yield pair
    if count:
        names = [likely_encoding(sample, [code]) for sample, code in zip(samples, languages, strict=True) if sample]
        known = " or ".join(dict.fromkeys(filter(None, names)))
        said = counted(count, "pair is left out (as an empty one)", "pairs are left out (as empty ones)")
        note(f"{said}: not UTF-8{f', probably {known}' if known else ''}")


def _invalid_bytes(text: str) -> bytes | None:
    """The bytes of a text that is not UTF-8; none of half of a surrogate pair, which JSON can escape. None: it is
    UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return (
            text.encode("utf-8", KEPT_BYTES) if all("\udc80" <= c <= "\udcff" for c in _HALVES.findall(text)) else b""
        )
    return None
