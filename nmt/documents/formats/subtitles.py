"""Subtitles in SRT and WebVTT. A sentence over several cues is translated as one text, and its translation is divided
among the cues in proportion to their lengths.

WebVTT: https://www.w3.org/TR/webvtt1/. SRT has no specification; players read it as FFmpeg does.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
_NUMBER = re.compile(r"\s*\d+\s*")  # the number of a cue
_SPEAKER = re.compile(r"[-–—‐]\s*(?=\S)")  # the dash before the line of each of two speakers
_VOICE = re.compile(r"<v[ .][^<>]*>")
_END = re.compile(r"""[.?!…。！？।؟♪][\])"'”’»」』\s]*\Z""")
_WITHOUT_SPACES = re.compile(rf"(?=\w)[{UNSPACED}]")
_CONTINUES = ("、", "，", ",", "→", "➡")  # at the end of a cue in a script without spaces: the sentence continues
# What stays together in such a script: a word in Latin letters, and a character with the punctuation beside it that
# cannot begin or end a line.
_MARK = r"(?:[^\w!-~「『（【〈《“‘]|[ーぁぃぅぇぉっゃゅょァィゥェォッャュョ])"
_WITHOUT_CUT = re.compile(rf"[^\w!-~]*(?:[!-~]+|.){_MARK}*", re.DOTALL)
_NO_TEXT = ("NOTE", "STYLE", "REGION")  # first words of blocks of WebVTT without text
_MOST_CUES = 8  # maximum number of cues of one sentence
_MOST_SECONDS = 3.0  # maximum time between two cues of one sentence


@dataclass(frozen=True)
class _Line:
    """A line of a cue."""

    before: str  # codes and white space before the text
    text: str
    after: str  # codes and white space after the text
    end: str  # the line break; empty for the last line of a cue


@dataclass(frozen=True)
class _Cue:
    """The characters [start, stop) after the times of a cue, up to an empty line; in SRT, up to the next cue."""

    start: int
    stop: int
    begins: float  # seconds
    ends: float  # seconds
    lines: Sequence[_Line]

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines if line.text)

    @property
    def breaks(self) -> list[str]:
        """The separator between each line with text and the next one: a line break, or several if there are empty lines
        between. Lines with only codes are not empty. The separator after the last line is empty."""
        breaks = [list[str]()]
        for line in self.lines:
            if line.text:
                breaks.append([])
            if line.text or not has_codes(line.before):
                breaks[-1].append(line.end)
        return [*("".join(ends) for ends in breaks[1:-1]), ""]

    @property
    def has_several_speakers(self) -> bool:
        """Whether two people speak, each in a line."""
        return any(_SPEAKER.match(line.text) or _VOICE.search(line.before) for line in self.lines[1:])

    @property
    def is_plain(self) -> bool:
        """Whether the cue is one text without codes inside. Codes can be around the whole text, or the same codes
        around each line."""
        between = [line.after for line in self.lines[:-1]] + [line.before for line in self.lines[1:]]
        line_codes = {(line.before.strip(), line.after.strip()) for line in self.lines}
        codes = "" if len(line_codes) == 1 else "".join(between)
        return not has_codes(self.text) and not has_codes(codes) and not self.has_several_speakers

    def with_text(self, text: str, write: Callable[[str], str]) -> str:
        """The cue with another text, divided among its lines. If there are fewer words than lines, all are in the first
        line."""
        shares = share(text, [len(line.text) for line in self.lines if line.text])
        if shares[0] == text:
            shares = [text, *("" for _ in shares)]
        remaining = iter(shares)
        written = list[str]()
        for line in self.lines:
            new = write(next(remaining)) if line.text else ""
            while line.text and not new and written and not written[-1].strip("\r\n"):
                written.pop()
            written += line.before + new + line.after, line.end
        return "".join(written)


def read(content: str, path: Path) -> Document:
    """Reads the cues. Raises NmtError for content that is not SRT or WebVTT."""
    is_web = path.suffix.lower() == ".vtt"
    if is_web and not content.startswith("WEBVTT"):
        raise NmtError(f"{path}: not WebVTT: the first line is not WEBVTT: add this line, or name the file .srt")
    cues = _cues(content, is_web)
    if not cues and content.strip() and not is_web:
        raise NmtError(f"{path}: not SRT: it has no line of times such as 00:00:01,000 --> 00:00:02,500")
    segments = [_segment(content, sentence, is_web) for sentence in _sentences(cue for cue in cues if cue.text)]
    return Document(content, segments, report=lambda translated: _report(translated, is_web))


def _cues(content: str, is_web: bool) -> list[_Cue]:
    """The cues of a file. In WebVTT a cue ends at an empty line or a line with an arrow; in SRT it ends where the next
    cue begins, so that its text can have empty lines."""
    lines, cues, i = list(_LINE.finditer(content)), list[_Cue](), 0
    while i < len(lines):
        times = _TIMES.match(lines[i][0])
        i += 1
        if not times:
            continue
        first = i
        while i < len(lines) and not _ends_cue(lines[i][0], is_web):
            i += 1
        cue_lines = lines[first:i]
        if i < len(lines) and lines[i][0].strip():  # the next cue begins; its number can be before its times
            cue_lines = _without_empty_end(cue_lines)
            if cue_lines and _NUMBER.fullmatch(cue_lines[-1][0]):
                cue_lines.pop()
        cue_lines = _without_empty_end(cue_lines)
        begins, ends = _seconds(*times.groups()[:4]), _seconds(*times.groups()[4:])
        start = lines[first - 1].end()
        stop = cue_lines[-1].start() + len(cue_lines[-1][0].rstrip("\r\n")) if cue_lines else start
        cues.append(_Cue(start, stop, begins, ends, _split_lines(content[start:stop])))
    return cues


def _ends_cue(line: str, is_web: bool) -> bool:
    return ("-->" in line or not line.strip()) if is_web else _TIMES.match(line) is not None


def _without_empty_end(lines: list[re.Match[str]]) -> list[re.Match[str]]:
    while lines and not lines[-1][0].strip():
        lines.pop()
    return lines


def _split_lines(text: str) -> list[_Line]:
    parts = [*re.split(r"(\r\n|\n|\r)", text), ""]
    return [_Line(*around(line), end) for line, end in zip(parts[::2], parts[1::2], strict=True)]


def _seconds(hours: str | None, minutes: str, seconds: str, thousandths: str) -> float:
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) + int(thousandths) / 10 ** len(thousandths)


def _sentences(cues: Iterable[_Cue]) -> Iterator[list[_Cue]]:
    """The cues of each sentence. Sentences that end in the same cue are together."""
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
    """Whether a text ends a sentence. Subtitles in scripts without spaces have no full stops: in these, only a comma or
    an arrow shows that the sentence continues."""
    return bool(_END.search(text) or (_WITHOUT_SPACES.search(text) and not text.endswith(_CONTINUES)))


def _voice(cue: _Cue) -> str:
    voice = _VOICE.search(cue.lines[0].before)
    return voice[0] if voice else ""


def _segment(content: str, cues: Sequence[_Cue], is_web: bool) -> Segment:
    start, stop = cues[0].start, cues[-1].stop
    if cues[0].has_several_speakers:
        return Segment(start, stop, *_speech_texts(cues[0], is_web))
    if not cues[0].is_plain:
        return Segment(start, stop, *_marked_text(content[start:stop], cues[0], is_web))
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


# The texts of a cue, and the function that writes the cue with other texts.
_Texts = tuple[list[TranslatableText], Callable[[Sequence[str]], str]]


def _marked_text(content: str, cue: _Cue, is_web: bool) -> _Texts:
    """The text of a cue with codes inside."""
    source, write = to_text(content, is_web=is_web)
    lengths = [len(line.text) for line in cue.lines if line.text]

    def written(texts: Sequence[str]) -> str:
        if texts[0] == source.text:
            return content
        text = " ".join(texts[0].split())
        shares = share(text, lengths)
        if shares[0] == text:  # the cue has one line, or fewer words than lines
            return write(text)
        return "".join(write(line) + end for line, end in zip(shares, cue.breaks, strict=True))

    return [source], written


def _speech_texts(cue: _Cue, is_web: bool) -> _Texts:
    """The texts of a cue with several speakers, one for each line."""
    lines = [_split_speech(line) for line in cue.lines]
    texts = [to_text(text, is_web=is_web) for _, text, _ in lines]

    def written(new: Sequence[str]) -> str:
        parts = ""
        for line, (before, _, after), (old, write), text in zip(cue.lines, lines, texts, new, strict=True):
            unchanged = line.before + line.text + line.after
            parts += (unchanged if text == old.text else before + write(text) + after) + line.end
        return parts

    return [text for text, _ in texts], written


def _split_speech(line: _Line) -> tuple[str, str, str]:
    """Splits a line into the characters before a speaker's text, the text, and the characters after it. If the text has
    codes inside, it includes all codes of the line, because two of them can be a pair."""
    before, text = line.before, line.text
    if dash := _SPEAKER.match(text):
        codes, inner, _ = around(text[dash.end() :])
        if has_codes(inner):
            return before + dash[0], text[dash.end() :] + line.after, ""
        return before + dash[0] + codes, inner, line.after
    return ("", before + text + line.after, "") if has_codes(text) else (before, text, line.after)


def share(text: str, lengths: Sequence[int]) -> list[str]:
    """Splits a text between words into parts whose lengths are about in proportion to `lengths`. If there are fewer
    words than parts, each part is the whole text."""
    if len(lengths) == 1:
        return [text]
    whole, text = text, text.strip()
    ends = [match.start() for match in re.finditer(r"\s+", text)]
    if _WITHOUT_SPACES.search(text):
        ends = [match.end() for match in _WITHOUT_CUT.finditer(text)][:-1]
    if len(ends) < len(lengths) - 1:
        return [whole] * len(lengths)
    total, cuts, first = sum(lengths), [0], 0
    for i, length in enumerate(list(accumulate(lengths))[:-1]):
        target = len(text) * length / total
        last = len(ends) - (len(lengths) - 2 - i)  # so that each of the other parts gets a word
        near = bisect_left(ends, target, first, last)
        candidates = range(max(first, near - 4), min(last, near + 4)) or [last - 1]
        distances = [_distance(text, ends[candidate], target) for candidate in candidates]
        best = candidates[distances.index(min(distances))]
        cuts.append(ends[best])
        first = best + 1
    return [text[start:stop].strip() for start, stop in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def _distance(text: str, end: int, target: float) -> float:
    """How bad a cut is, in characters. A cut after a punctuation mark is as good as another that is nearer by three."""
    return abs(end - target) - 3 * (not text[end - 1].isalnum())


def _report(content: str, is_web: bool) -> Iterator[str]:
    """Reports how many cues have more than MOST_CHARACTERS_PER_SECOND, and text of WebVTT that is in no cue."""
    cues = [cue for cue in _cues(content, is_web) if cue.text]
    too_fast = sum(_length(cue) > MOST_CHARACTERS_PER_SECOND * (cue.ends - cue.begins) for cue in cues)
    if too_fast:
        all_cues = counted(len(cues), "cue has", "cues have")
        yield f"reading speed: {too_fast:,} of {all_cues} more than {MOST_CHARACTERS_PER_SECOND} characters per second"
    if is_web and (outside := _lines_outside_cues(content)):
        texts = counted(len(outside), "text is", "texts are")
        yield f"{texts} in no cue and not translated, the first in line {outside[0]}: an empty line ends a cue"


def _lines_outside_cues(content: str) -> list[int]:
    """The first line number of each text of WebVTT that is not in a cue, a header, a note or a style."""
    line_numbers, first = list[int](), 0  # first: the first line of a block without an arrow, or 0
    in_block = True  # the header
    for line_number, line in enumerate(_LINE.finditer(content), start=1):
        text = line[0].strip()
        if not text:
            if first:
                line_numbers.append(first)
            in_block, first = False, 0
        elif not in_block:
            in_block, first = True, 0 if text.startswith(_NO_TEXT) else line_number
        if "-->" in text:
            first = 0
    return line_numbers


def _length(cue: _Cue) -> int:
    """The length in characters. A character of Chinese, Japanese or Korean counts as two."""
    text = unescape(without_codes(cue.text))
    return len(text) + sum(unicodedata.east_asian_width(character) in "WF" for character in text)
