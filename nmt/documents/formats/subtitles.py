"""Subtitles in SRT and WebVTT. A sentence that runs over several cues is translated as one, and its translation is
shared out among them in proportion to their lengths.

WebVTT: https://www.w3.org/TR/webvtt1/. SRT has no specification; players read it as FFmpeg does.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import unescape
from itertools import accumulate
from pathlib import Path

from nmt.config.unspaced_scripts import UNSPACED
from nmt.documents.document import Document, Segment, TranslatableText
from nmt.documents.formats.subtitle_codes import around, has_codes, to_text, without_codes
from nmt.errors import NmtError
from nmt.files.notes import counted

MOST_CHARACTERS_PER_SECOND = 20  # for adults: Netflix, Timed Text Style Guide: General Requirements

_TIME = r"(?:(\d+):)?(\d{1,2}):(\d{1,2})[,.](\d{1,3})"
_TIMES = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}[^\r\n]*")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_NUMBER = re.compile(r"\s*\d+\s*")  # of a cue
_SPEAKER = re.compile(r"[-–—‐]\s*(?=\S)")  # before what each of two people says
_VOICE = re.compile(r"<v[ .][^<>]*>")
_END = re.compile(r"""[.?!…。！？।؟♪][\])"'”’»」』\s]*\Z""")
_WITHOUT_SPACES = re.compile(rf"(?=\w)[{UNSPACED}]")
_GOES_ON = ("、", "，", ",", "→", "➡")  # at the end of a cue in such a script
# What stays together there: a word in Latin letters, and a character with marks beside it that begin or end no line.
_MARK = r"(?:[^\w!-~「『（【〈《“‘]|[ーぁぃぅぇぉっゃゅょァィゥェォッャュョ])"
_WITHOUT_CUT = re.compile(rf"[^\w!-~]*(?:[!-~]+|.){_MARK}*", re.DOTALL)
_NO_TEXT = ("NOTE", "STYLE", "REGION")  # first words of blocks of WebVTT
_MOST_CUES = 8  # of one sentence
_MOST_SECONDS = 3.0  # between two cues of one sentence


@dataclass(frozen=True)
class _Line:
    """before and after: codes and white space around its text. end: its line break; the last line of a cue has none."""

    before: str
    text: str
    after: str
    end: str


@dataclass(frozen=True)
class _Cue:
    """What stands between the times of a cue and the empty line after it; in SRT, up to the next cue."""

    start: int
    stop: int
    begins: float  # seconds
    ends: float
    lines: Sequence[_Line]

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines if line.text)

    @property
    def breaks(self) -> list[str]:
        """What separates each line with text from the next one: a line break, or several where lines are empty, which
        those of codes alone are not; nothing behind the last."""
        found = [list[str]()]
        for line in self.lines:
            if line.text:
                found.append([])
            if line.text or not has_codes(line.before):
                found[-1].append(line.end)
        return [*("".join(ends) for ends in found[1:-1]), ""]

    @property
    def is_several(self) -> bool:
        """Whether two people speak, each in a line."""
        return any(_SPEAKER.match(line.text) or _VOICE.search(line.before) for line in self.lines[1:])

    @property
    def is_plain(self) -> bool:
        """Whether it is one text without codes in it. There can be some around all of it, or the same around each
        line."""
        between = [line.after for line in self.lines[:-1]] + [line.before for line in self.lines[1:]]
        of_lines = {(line.before.strip(), line.after.strip()) for line in self.lines}
        codes = "" if len(of_lines) == 1 else "".join(between)
        return not has_codes(self.text) and not has_codes(codes) and not self.is_several

    def with_text(self, text: str, write: Callable[[str], str]) -> str:
        """The cue with another text, shared out among its lines, or in the first one if it has fewer words."""
        shares = share(text, [len(line.text) for line in self.lines if line.text])
        left = iter(shares if shares[0] != text else [text] + [""] * len(shares))
        written = list[str]()
        for line in self.lines:
            new = write(next(left)) if line.text else ""
            while line.text and not new and written and not written[-1].strip("\r\n"):
                written.pop()
            written += line.before + new + line.after, line.end
        return "".join(written)


def read(content: str, path: Path) -> Document:
    """The texts of all cues. Raises NmtError for what is not SRT or WebVTT."""
    is_web = path.suffix.lower() == ".vtt"
    if is_web and not content.startswith("WEBVTT"):
        raise NmtError(f"{path}: not WebVTT, of which the first line is WEBVTT: add it, or name the file .srt")
    cues = _cues(content, is_web)
    if not cues and content.strip() and not is_web:
        raise NmtError(f"{path}: not SRT: it has no line of times such as 00:00:01,000 --> 00:00:02,500")
    segments = [_segment(content, sentence, is_web) for sentence in _sentences(cue for cue in cues if cue.text)]
    return Document(content, segments, report=partial(_report, is_web))


def _cues(content: str, is_web: bool) -> list[_Cue]:
    """In WebVTT a cue ends at an empty line and where any line has an arrow; in SRT where the next begins, so that an
    empty line can stand in its text."""
    lines, cues, number = list(_LINE.finditer(content)), list[_Cue](), 0
    while number < len(lines):
        times = _TIMES.match(lines[number][0])
        number += 1
        if not times:
            continue
        begun = number
        while number < len(lines) and not _ends_cue(lines[number][0], is_web):
            number += 1
        own = lines[begun:number]
        if number < len(lines) and lines[number][0].strip():  # the next cue begins, perhaps with a number
            own = _without_empty_end(own)
            if own and _NUMBER.fullmatch(own[-1][0]):
                own.pop()
        own = _without_empty_end(own)
        begins, ends = _seconds(*times.groups()[:4]), _seconds(*times.groups()[4:])
        start = lines[begun - 1].end()
        stop = own[-1].start() + len(own[-1][0].rstrip("\r\n")) if own else start
        cues.append(_Cue(start, stop, begins, ends, _lines_of(content[start:stop])))
    return cues


def _ends_cue(line: str, is_web: bool) -> bool:
    return ("-->" in line or not line.strip()) if is_web else _TIMES.match(line) is not None


def _without_empty_end(lines: list[re.Match[str]]) -> list[re.Match[str]]:
    while lines and not lines[-1][0].strip():
        lines.pop()
    return lines


def _lines_of(text: str) -> list[_Line]:
    parts = [*re.split(r"(\r\n|\n|\r)", text), ""]
    return [_Line(*around(line), end) for line, end in zip(parts[::2], parts[1::2], strict=True)]


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
        and not _is_whole(last.text)
        and not _SPEAKER.match(cue.text)
        and abs(cue.begins - last.ends) <= _MOST_SECONDS
        and _voice(cue) in ("", _voice(last))
    )


def _is_whole(text: str) -> bool:
    """Whether a text ends a sentence. Where no spaces are written, subtitles have no full stops either: there only a
    comma or an arrow says that a sentence goes on."""
    return bool(_END.search(text) or (_WITHOUT_SPACES.search(text) and not text.endswith(_GOES_ON)))


def _voice(cue: _Cue) -> str:
    found = _VOICE.search(cue.lines[0].before)
    return found[0] if found else ""


def _segment(content: str, cues: Sequence[_Cue], is_web: bool) -> Segment:
    start, stop = cues[0].start, cues[-1].stop
    if cues[0].is_several:
        return Segment(start, stop, *_of_each_line(cues[0], is_web))
    if not cues[0].is_plain:
        return Segment(start, stop, *_of_marked_cue(content[start:stop], cues[0], is_web))
    source, write = to_text(" ".join(cue.text for cue in cues), is_web=is_web)

    def written(texts: Sequence[str]) -> str:
        if texts[0] == source.text:
            return content[start:stop]
        parts, end = "", start
        for cue, text in zip(cues, share(texts[0], [len(cue.text) for cue in cues]), strict=True):
            parts += content[end : cue.start] + cue.with_text(text, write)
            end = cue.stop
        return parts

    return Segment(start, stop, [source], written)


_Texts = tuple[list[TranslatableText], Callable[[Sequence[str]], str]]  # those of a cue, and what writes it with others


def _of_marked_cue(content: str, cue: _Cue, is_web: bool) -> _Texts:
    source, write = to_text(content, is_web=is_web)
    of_text = [line for line in cue.lines if line.text]

    def written(texts: Sequence[str]) -> str:
        if texts[0] == source.text:
            return content
        text = " ".join(texts[0].split())
        shares = share(text, [len(line.text) for line in of_text])
        if shares[0] == text:  # it has one line, or fewer words than lines
            return write(text)
        return "".join(write(line) + end for line, end in zip(shares, cue.breaks, strict=True))

    return [source], written


def _of_each_line(cue: _Cue, is_web: bool) -> _Texts:
    lines = [_parts_of_speech(line) for line in cue.lines]
    found = [to_text(text, is_web=is_web) for _, text, _ in lines]

    def written(new: Sequence[str]) -> str:
        parts = ""
        for line, (before, _, after), (old, write), text in zip(cue.lines, lines, found, new, strict=True):
            unchanged = line.before + line.text + line.after
            parts += (unchanged if text == old.text else before + write(text) + after) + line.end
        return parts

    return [text for text, _ in found], written


def _parts_of_speech(line: _Line) -> tuple[str, str, str]:
    """What stands before a speaker's text, the text, and what stands behind it. A text with codes in it has all of
    them, as two can belong together."""
    before, text = line.before, line.text
    if dash := _SPEAKER.match(text):
        codes, inner, _ = around(text[dash.end() :])
        if has_codes(inner):
            return before + dash[0], text[dash.end() :] + line.after, ""
        return before + dash[0] + codes, inner, line.after
    return ("", before + text + line.after, "") if has_codes(text) else (before, text, line.after)


def share(text: str, lengths: Sequence[int]) -> list[str]:
    """A text cut between words into as many parts, about in proportion to these lengths. Each part is the whole text if
    it has fewer words."""
    if len(lengths) == 1:
        return [text]
    whole, text = text, text.strip()
    ends = [match.start() for match in re.finditer(r"\s+", text)]
    if _WITHOUT_SPACES.search(text):
        ends = [found.end() for found in _WITHOUT_CUT.finditer(text)][:-1]
    if len(ends) < len(lengths) - 1:
        return [whole] * len(lengths)
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


def _report(is_web: bool, content: str) -> Iterator[str]:
    """How many cues are read at more than MOST_CHARACTERS_PER_SECOND, and which text of WebVTT is in no cue."""
    cues = [cue for cue in _cues(content, is_web) if cue.text]
    too_fast = sum(_length(cue) > MOST_CHARACTERS_PER_SECOND * (cue.ends - cue.begins) for cue in cues)
    if too_fast:
        of_all = counted(len(cues), "cue has", "cues have")
        yield f"reading speed: {too_fast:,} of {of_all} more than {MOST_CHARACTERS_PER_SECOND} characters per second"
    if is_web and (outside := _outside_cues(content)):
        number = counted(len(outside), "text is", "texts are")
        yield f"{number} in no cue and not translated, the first in line {outside[0]}: an empty line ends a cue"


def _outside_cues(content: str) -> list[int]:
    """The line of each text of WebVTT that is neither in a cue nor a header, a note or a style."""
    found, begun, number = list[int](), 0, 0  # begun: the line where a block without an arrow began, or 0
    in_block = True  # the header
    for number, line in enumerate(_LINE.finditer(content), start=1):
        text = line[0].strip()
        if not text:
            if begun:
                found.append(begun)
            in_block, begun = False, 0
        elif not in_block:
            in_block, begun = True, 0 if text.startswith(_NO_TEXT) else number
        if "-->" in text:
            begun = 0
    return found


def _length(cue: _Cue) -> int:
    """In characters; one of Chinese, Japanese or Korean counts as two."""
    text = unescape(without_codes(cue.text))
    return len(text) + sum(unicodedata.east_asian_width(character) in "WF" for character in text)
