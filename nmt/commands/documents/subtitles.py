"""Subtitles in SRT and WebVTT. A sentence that runs over several cues is translated as one, and its translation is
shared out among them in proportion to their lengths.

WebVTT: https://www.w3.org/TR/webvtt1/. SRT has no specification; players read it as FFmpeg does.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from itertools import accumulate
from pathlib import Path

from nmt.commands.documents.document import Document, Segment, Text

MOST_CHARACTERS_PER_SECOND = 20  # for adults: Netflix, Timed Text Style Guide: General Requirements

_TIME = r"(?:(\d+):)?(\d{1,2}):(\d{1,2})[,.](\d{1,3})"
_TIMES = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}[^\r\n]*")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_CODE = r"(?:<[^<>]*>|\{\\[^{}]*\})"  # a tag, or a position as {\an8}
_CODES = re.compile(rf"(?:{_CODE}|\s)*")
_LAST_CODE = re.compile(rf"{_CODE}\Z")
_IN_TEXT = re.compile(_CODE)
_SPEAKER = re.compile(r"[-–—‐]\s*(?=\S)")  # before what each of two people says
_END = re.compile(r"""[.?!…。！？।؟♪][\])"'”’»」』\s]*\Z""")
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_MOST_CUES = 8  # of one sentence
_MOST_SECONDS = 3.0  # between two cues of one sentence


@dataclass(frozen=True)
class _Cue:
    """What stands between the times of a cue and the empty line after it. before and after: tags around its text."""

    start: int
    stop: int
    begins: float  # seconds
    ends: float
    before: str
    text: str
    after: str

    @property
    def is_several(self) -> bool:
        """Whether two people speak, each in a line."""
        return any(_SPEAKER.match(line) for line in re.split(r"[\r\n]+", self.text)[1:])

    @property
    def is_plain(self) -> bool:
        return not _IN_TEXT.search(self.text) and not self.is_several


def read(content: str, path: Path) -> Document:
    """The texts of all cues."""
    is_web = path.suffix.lower() == ".vtt"
    cues = [cue for cue in _cues(content) if cue.text]
    segments = [_segment(content, sentence, is_web) for sentence in _sentences(cues)]
    return Document(content, segments, report=_reading_speed)


def _cues(content: str) -> Iterator[_Cue]:
    lines = _LINE.finditer(content)
    for line in lines:
        if not (times := _TIMES.match(line[0])):
            continue
        start = stop = line.end()
        for text in lines:
            if not text[0].strip():
                break
            stop = text.start() + len(text[0].rstrip("\r\n"))
        around = _around(content[start:stop])
        begins, ends = _seconds(*times.groups()[:4]), _seconds(*times.groups()[4:])
        yield _Cue(start, stop, begins, ends, *around)


def _around(text: str) -> tuple[str, str, str]:
    """The tags and the white space before a text, the text, and those behind it."""
    found = _CODES.match(text)
    assert found is not None
    start = found.end()
    rest = text[start:].rstrip()
    while rest.endswith((">", "}")):
        code = _LAST_CODE.search(rest, max(rest.rfind("<"), rest.rfind("{\\"), 0))
        if code is None:
            break
        rest = rest[: code.start()].rstrip()
    stop = start + len(rest)
    return text[:start], rest, text[stop:]


def _seconds(hours: str | None, minutes: str, seconds: str, thousandths: str) -> float:
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) + int(thousandths) / 10 ** len(thousandths)


def _sentences(cues: Iterable[_Cue]) -> Iterator[list[_Cue]]:
    """The cues of each sentence, or of several that end in the same cue."""
    sentence = list[_Cue]()
    for cue in cues:
        if sentence and not _continues(sentence, cue):
            yield sentence
            sentence = []
        sentence.append(cue)
    if sentence:
        yield sentence


def _continues(sentence: Sequence[_Cue], cue: _Cue) -> bool:
    last = sentence[-1]
    return (
        len(sentence) < _MOST_CUES
        and last.is_plain
        and cue.is_plain
        and not _END.search(last.text)
        and not _SPEAKER.match(cue.text)
        and abs(cue.begins - last.ends) <= _MOST_SECONDS
        and _voice(cue) in ("", _voice(last))
    )


def _voice(cue: _Cue) -> str:
    found = re.search(r"<v[ .][^<>]*>", cue.before)
    return found[0] if found else ""


def _segment(content: str, cues: Sequence[_Cue], is_web: bool) -> Segment:
    read, write = (unescape, partial(escape, quote=False)) if is_web else (str, str)
    start, stop = cues[0].start, cues[-1].stop
    if len(cues) == 1 and not cues[0].is_plain:
        return Segment(start, stop, *_lines(cues[0], read, write))
    source = read(" ".join(" ".join(cue.text.split()) for cue in cues))

    def written(texts: Sequence[str]) -> str:
        if texts[0] == source:
            return content[start:stop]
        parts, end = "", start
        shares = share(texts[0], [len(cue.text) for cue in cues])
        for cue, text in zip(cues, shares, strict=True):
            breaks = re.findall(r"\r\n|\n|\r", cue.text)
            lines = share(text, [1] * (len(breaks) + 1))
            wrapped = "".join(f"{write(line)}{end}" for line, end in zip(lines, [*breaks, ""], strict=True))
            if len(lines) > 1 and lines[0] == text:  # it has fewer words than lines
                wrapped = write(text)
            parts += content[end : cue.start] + cue.before + wrapped + cue.after
            end = cue.stop
        return parts + content[end:stop]

    return Segment(start, stop, [Text(source)], written)


def _lines(
    cue: _Cue, read: Callable[[str], str], write: Callable[[str], str]
) -> tuple[list[Text], Callable[[Sequence[str]], str]]:
    """The texts of a cue that has tags in its text, or in which several people speak; and what writes them."""
    begins = r"((?:\A|[\r\n]+)[ \t]*(?:[-–—‐]\s*)?)"  # of a line; the parts are "", such a one, its text, …
    parts = re.split(begins, cue.text) if cue.is_several else ["", "", cue.text]
    texts = [
        Text(part, "html") if _IN_TEXT.search(part) else Text(read(" ".join(part.split()))) for part in parts[2::2]
    ]

    def written(new: Sequence[str]) -> str:
        lines = [
            before if text == old.text else text if old.markup else write(text)
            for before, old, text in zip(parts[2::2], texts, new, strict=True)
        ]
        begun = "".join(begin + line for begin, line in zip(parts[1::2], lines, strict=True))
        return cue.before + parts[0] + begun + cue.after

    return texts, written


def share(text: str, lengths: Sequence[int]) -> list[str]:
    """A text cut between words into as many parts, about in proportion to these lengths. Each part is the whole text if
    it has fewer words."""
    if len(lengths) == 1:
        return [text]
    ends = [match.start() for match in re.finditer(r"\s+", text)]
    if _WITHOUT_SPACES.search(text):
        ends = list(range(1, len(text)))
    if len(ends) < len(lengths) - 1:
        return [text] * len(lengths)
    total, cuts, first = sum(lengths), [0], 0
    for number, length in enumerate(list(accumulate(lengths))[:-1]):
        wanted = len(text) * length / total
        last = len(ends) - (len(lengths) - 2 - number)  # so that a word is left for each of the others
        near = bisect_left(ends, wanted, first, last)
        candidates = range(max(first, near - 4), min(last, near + 4)) or [last - 1]
        best = min(candidates, key=partial(_distance, text, ends, wanted))
        cuts.append(ends[best])
        first = best + 1
    return [text[start:stop].strip() for start, stop in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def _distance(text: str, ends: Sequence[int], wanted: float, number: int) -> float:
    """How bad a cut is, in characters: one behind a punctuation mark is as good as one that is nearer by three."""
    return abs(ends[number] - wanted) - 3 * (not text[ends[number] - 1].isalnum())


def _reading_speed(content: str) -> Iterator[str]:
    """How many cues are read at more than MOST_CHARACTERS_PER_SECOND."""
    cues = [cue for cue in _cues(content) if cue.text]
    lengths = [len(" ".join(unescape(_IN_TEXT.sub("", cue.text)).split())) for cue in cues]
    too_fast = sum(
        length > MOST_CHARACTERS_PER_SECOND * (cue.ends - cue.begins) for cue, length in zip(cues, lengths, strict=True)
    )
    if too_fast:
        limit = f"{MOST_CHARACTERS_PER_SECOND} characters per second"
        yield f"reading speed: {too_fast:,} of {len(cues):,} cues have more than {limit}"
