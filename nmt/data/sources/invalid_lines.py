"""Lines of corpora that are not UTF-8: count them, find their likely encoding, and leave them out."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path

import regex

from nmt.config import schema
from nmt.config.language_codes import base, scripts
from nmt.errors import NmtError
from nmt.files.notes import Note, counted
from nmt.files.text import NotUtf8Error, blocks_of_lines, opened
from nmt.files.utf16 import as_utf8

Pair = tuple[str, str]  # source sentence, target sentence
KEPT_BYTES = "surrogateescape"  # error handler that keeps bytes that are not UTF-8, so that their lines can be left out
_HALVES = re.compile("[\ud800-\udfff]")  # of surrogate pairs
_SAMPLE = 1000  # lines from which the encoding is found
# The encodings that text in these languages can have. Other languages in Latin script have the default.
_ENCODINGS = {
    "cs hr hu pl ro sk sl sq bs": "windows-1250 iso-8859-2",
    "be bg kk ky mk mn ru sr tg tt uk": "windows-1251 koi8-r koi8-u iso-8859-5 cp866",
    "el": "windows-1253 iso-8859-7",
    "az tr": "windows-1254",
    "he yi": "windows-1255",
    "ar fa ur": "windows-1256 iso-8859-6",
    "et lt lv": "windows-1257 iso-8859-4",
    "vi": "windows-1258",
    "th": "cp874",
    "zh": "gb18030 big5",
    "ja": "shift_jis euc_jp",
    "ko": "euc_kr",
}
_DEFAULT = "windows-1252"
# In both encodings nearly all bytes are letters, so the most frequent letters are counted.
_FREQUENT = {"zh": "的一是不了在有人我他这這们們个個中大来來上国國说說就和"}


class InvalidLinesError(NmtError):
    """Lines of a corpus are not UTF-8. problem: the message for commands without a config."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}, or give the corpus invalid: drop in the config, to leave such lines out")
        self.problem = problem


@contextmanager
def explained(corpus: schema.Corpus, languages: tuple[str, str]) -> Iterator[None]:
    """Replace the error for a line that is not UTF-8 by an error with the number of such lines, their likely encoding
    and a remedy. languages: of source and target. Raises InvalidLinesError."""
    try:
        yield
    except NotUtf8Error as error:
        advice = "convert the file to UTF-8"
        if error.path is not None and error.path.is_file():  # a pipe cannot be read again
            advice = _survey(error.path, _file_languages(error.path, corpus, languages))
        raise InvalidLinesError(f"{error.location} is not UTF-8: {advice}") from None


def _file_languages(path: Path, corpus: schema.Corpus, languages: tuple[str, str]) -> Sequence[str]:
    """The languages that a file of the corpus may have."""
    names = (corpus.source, corpus.target)
    return [languages[names.index(str(path))]] if str(path) in names else languages


def _survey(path: Path, languages: Sequence[str]) -> str:
    """A description of the lines of a file that are not UTF-8, with a remedy."""
    lines, invalid, sample, others = 0, 0, list[bytes](), False
    with opened(path) as stream:
        for block in blocks_of_lines(as_utf8(stream, str(path))):
            lines += block.count(b"\n") + (not block.endswith(b"\n"))
            for part in [block] if _is_utf8(block) else block.split(b"\n"):
                if _is_utf8(part):
                    others = others or not part.isascii()
                else:
                    invalid += 1
                    if len(sample) < _SAMPLE:
                        sample.append(part)
    encoding = likely_encoding(sample, languages)
    said = f"{invalid:,} of {lines:,} lines are not{f' (probably {encoding})' if encoding else ''}"
    if others:  # converting the whole file would damage the valid lines
        return f"{said}, while others are: convert these lines to UTF-8"
    return f"{said}: convert the file{f': iconv -f {encoding.upper()} -t UTF-8' if encoding else ' to UTF-8'}"


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def likely_encoding(lines: Sequence[bytes], languages: Sequence[str]) -> str | None:
    """The encoding that gives the lines the most letters of one of these languages. Capitals are not counted, because
    other encodings have capitals at the same codes. None if no encoding fits, or if another fits equally well and gives
    different text."""
    texts = list[tuple[int, str, str]]()
    for code in languages:
        letters = _letters(code)
        for encoding in _encodings(code):
            with suppress(UnicodeDecodeError):
                text = "\n".join(line.decode(encoding) for line in lines)
                texts.append((len(letters.findall(text)), encoding, text))
    if not texts:
        return None
    most, encoding, text = max(texts, key=itemgetter(0))
    others = [other for count, _, other in texts if count == most and other != text]
    return None if others else encoding


def _encodings(code: str) -> list[str]:
    for languages, encodings in _ENCODINGS.items():
        if base(code) in languages.split():
            return encodings.split()
    return [_DEFAULT] if "Latn" in _scripts(code) else []


def _scripts(code: str) -> tuple[str, ...]:
    try:
        return scripts(code) or ("Latn",)
    except NmtError:  # not the code of a language
        return ("Latn",)


def _letters(code: str) -> regex.Pattern[str]:
    """Matches a letter of the language's scripts that is not a capital and not ASCII; for Chinese, a frequent
    letter."""
    if frequent := _FREQUENT.get(base(code)):
        return regex.compile(f"[{frequent}]")
    script_letters = "".join(rf"\p{{Script={script}}}" for script in _scripts(code))
    return regex.compile(rf"(?V1)[[{script_letters}]--\p{{Lu}}--[\x00-\x7f]]")


def emptied(pairs: Iterator[Pair], languages: tuple[str, str], note: Note) -> Iterator[Pair]:
    """Yield the pairs, with an empty pair for each that has bytes that are not UTF-8, so that a file of scores stays
    aligned. Their number is noted at the end. pairs: decoded with `KEPT_BYTES`."""
    count, samples = 0, (list[bytes](), list[bytes]())
    for pair in pairs:
        raw = [_invalid_bytes(text) for text in pair]
        if any(line is not None for line in raw):
            count += 1
            for line, sample in zip(raw, samples, strict=True):
                if line and len(sample) < _SAMPLE:
                    sample.append(line)
            pair = ("", "")
        yield pair
    if count:
        names = [likely_encoding(sample, [code]) for sample, code in zip(samples, languages, strict=True) if sample]
        encodings = " or ".join(dict.fromkeys(filter(None, names)))
        left_out = counted(count, "pair is left out (as an empty one)", "pairs are left out (as empty ones)")
        note(f"{left_out}: not UTF-8{f', probably {encodings}' if encodings else ''}")


def _invalid_bytes(text: str) -> bytes | None:
    """The bytes of a text that is not UTF-8; empty for half of a surrogate pair, which JSON can escape. None if the
    text is UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return (
            text.encode("utf-8", KEPT_BYTES) if all("\udc80" <= c <= "\udcff" for c in _HALVES.findall(text)) else b""
        )
    return None
