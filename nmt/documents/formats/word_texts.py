"""The texts of a paragraph of Word, each with its looks, links and fields as elements, so that these go with the words.

In a text, `<r>` is around words of another look than most have, `<h>` around what stands in a link, a field or a
comment's range, and `<x>` is anything else that stands among words. Tabs and line breaks are the ends of texts.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape, unescape
from itertools import accumulate

from nmt.documents.document import Segment, TranslatableText
from nmt.documents.formats.word_pieces import Piece, Run

_TOKEN = re.compile(r'<r i="(\d+)">|(</r>)|<x i="(\d+)"(?:/>|[^<>]*>[^<>]*</x>)|<h i="(\d+)">|(</h>)|([^<]+)')


def segments(data: bytes, pieces: Sequence[Piece]) -> Iterator[Segment]:
    """Those of a paragraph with letters. Their places are those of bytes."""
    paragraph, first = _Paragraph(data, pieces), 0
    for number, is_break in enumerate([*paragraph.is_break, True]):
        if is_break:
            if paragraph.has_letter(first, number):
                yield _Writer(paragraph, *paragraph.trimmed(first, number)).segment()
            first = number + 1


class _Paragraph:
    """The pieces of a paragraph. partner: of each start the number of its end, and of each end that of its start; -1
    for those whose other one is in another paragraph, and for those that do not nest. separators: of a field's start,
    the number of its separator, or of its end. is_break: whether no text goes on over a piece."""

    def __init__(self, data: bytes, pieces: Sequence[Piece]):
        self.data, self.pieces = data, pieces
        self.partner, self.separators = _partners(pieces)
        self.is_break = [self._is_alone(i) for i in range(len(pieces))]
        breaks = _sums(self.is_break)
        for start, end in enumerate(self.partner):
            if start < end and breaks[start] < breaks[end]:
                for number in (start, self.separators.get(start, start), end):
                    self.is_break[number] = True
        shown = [piece.text if piece.kind == "text" else "" for piece in pieces]
        end = 0
        for start, separator in sorted(self.separators.items()):
            if self.partner[start] >= 0:  # in a field's code
                first, end = max(end, start), max(end, separator)
                shown[first:end] = [""] * (end - first)
        self._texts = _sums([text != "" for text in shown])
        self._letters = _sums([any(map(str.isalpha, text)) for text in shown])

    def _is_alone(self, number: int) -> bool:
        kind = self.pieces[number].kind
        return kind == "break" or (kind in ("start", "separator", "end") and self.partner[number] < 0)

    def has_letter(self, first: int, stop: int) -> bool:
        return self._letters[first] < self._letters[stop]

    def inner(self, start: int) -> int:
        """The first piece of what one reads between a start and its end."""
        return self.separators.get(start, start) + 1

    def item(self, number: int) -> tuple[int, str] | None:
        """Where an item that begins with this piece stops, and what one reads there. A start and its end without a
        text in between are an item, and so are those of a field that shows no letter, such as a page number."""
        piece = self.pieces[number]
        if piece.kind != "start":
            return (number + 1, piece.text) if piece.kind == "item" else None
        first, end = self.inner(number), self.partner[number]
        if piece.is_field and not self.has_letter(first, end):
            return end + 1, "".join(each.text for each in self.pieces[first:end])
        return (end + 1, "") if self._texts[first] == self._texts[end] else None

    def trimmed(self, first: int, stop: int) -> tuple[int, int]:
        """The same text without what is around all of it."""
        last = stop - 1
        while True:
            while (behind := self._behind_blank(first)) > first:
                first = behind
            while (start := self._first_of(last)) > first and self._behind_blank(start) > start:
                last = start - 1
            if start > first or first == last or self.item(first):
                return first, last + 1
            first, last = self.inner(first), last - 1  # in a link, for example, around all of it

    def _first_of(self, last: int) -> int:
        return self.partner[last] if self.pieces[last].kind == "end" else last

    def _behind_blank(self, number: int) -> int:
        """Behind an item or a text that begins with this piece, if one reads nothing there."""
        piece, item = self.pieces[number], self.item(number)
        if item is not None:
            return number if item[1].strip() else item[0]
        return number + (piece.kind == "text" and not piece.text.strip())

    def xml(self, first: int, stop: int) -> str:
        """Pieces as they stand in the part. A run of which they are a part is complete."""
        one, other = self.pieces[first], self.pieces[stop - 1]
        before = "" if one.run is None or one.starts_run else one.run.opening
        after = "" if other.run is None or other.ends_run else other.run.closing
        return f"{before}{self.data[one.start : other.stop].decode()}{after}"


def _partners(pieces: Sequence[Piece]) -> tuple[list[int], dict[int, int]]:
    partner, separators, open_ = [-1] * len(pieces), dict[int, int](), list[int]()
    for number, piece in enumerate(pieces):
        if piece.kind == "start":
            open_.append(number)
        while piece.kind == "end" and piece.is_element and pieces[open_[-1]].key != piece.key:
            open_.pop()
        if piece.kind not in ("end", "separator") or not open_ or pieces[open_[-1]].key != piece.key:
            continue
        if piece.kind == "separator":
            if open_[-1] not in separators:
                separators[open_[-1]] = number
            continue
        start = open_.pop()
        partner[start], partner[number] = number, start
        if piece.key == "field":  # all of one without a separator is code
            partner[separators.setdefault(start, number)] = start
    return partner, separators


def _sums(counted: Sequence[bool]) -> list[int]:
    """How many are true before each place."""
    return [0, *accumulate(counted)]


class _Writer:
    """A text of a paragraph, and how its translation is written."""

    def __init__(self, paragraph: _Paragraph, first: int, stop: int):
        self._paragraph, self._first, self._stop = paragraph, first, stop
        runs = [piece for piece in paragraph.pieces[first:stop] if piece.kind == "text"]
        self._plain = _of_most_characters(runs)
        self._looks, self._items = list[Run](), list[str]()
        self._around = list[tuple[str, str]]()  # what stands before and after what is in `<h>`

    def segment(self) -> Segment:
        pieces = self._paragraph.pieces
        start, stop = pieces[self._first].start, pieces[self._stop - 1].stop
        text = self._text()
        content = text.strip()
        before, after = text[: -len(text.lstrip())], text[len(text.rstrip()) :]
        is_marked = "<" in content
        source = TranslatableText(content, "xml") if is_marked else TranslatableText(unescape(content))

        def write(texts: Sequence[str]) -> str:
            if texts[0] == source.text:
                return self._paragraph.data[start:stop].decode()
            return self._written(f"{before}{texts[0] if is_marked else escape(texts[0], quote=False)}{after}")

        return Segment(start, stop, [source], write)

    def _text(self) -> str:
        """The text in XML."""
        paragraph, parts, number = self._paragraph, list[str](), self._first
        ends = dict[int, int]()  # of what is around: the first and the last of its ends
        look = ""  # that of the last part
        while number < self._stop:
            piece = paragraph.pieces[number]
            if piece.kind == "text":
                assert piece.run is not None
                words = escape(piece.text, quote=False)
                if words and piece.run.look == self._plain.look:
                    parts.append(words)
                elif words and parts and parts[-1] == "</r>" and look == piece.run.look:
                    parts[-1:] = [words, "</r>"]
                elif words:
                    parts += [f'<r i="{len(self._looks)}">', words, "</r>"]
                    self._looks.append(piece.run)
                    look = piece.run.look
                number += 1
            elif number in ends:
                parts.append("</h>")
                number = ends[number] + 1
            elif paragraph.item(number):
                number, shown = self._add_items(number)
                shown = f' translate="no">{escape(shown, quote=False)}</x>' if shown.strip() else "/>"
                parts.append(f'<x i="{len(self._items) - 1}"{shown}')
            else:
                parts.append(f'<h i="{len(self._around)}">')
                number = self._add_around(number, ends)
        return "".join(parts)

    def _add_items(self, first: int) -> tuple[int, str]:
        """Items beside each other, as one. Returns where they stop, and what one reads there."""
        number, shown = first, ""
        while number < self._stop and (item := self._paragraph.item(number)):
            number, text = item
            shown += text
        self._items.append(self._paragraph.xml(first, number))
        return number, shown

    def _add_around(self, first: int, ends: dict[int, int]) -> int:
        """Starts beside each other whose ends are beside each other, as one. Returns where they stop."""
        paragraph, start = self._paragraph, first
        number = paragraph.inner(start)
        while paragraph.partner[number] == paragraph.partner[start] - 1 and not paragraph.item(number):
            start, number = number, paragraph.inner(number)
        innermost, outermost = paragraph.partner[start], paragraph.partner[first]
        ends[innermost] = outermost
        self._around.append((paragraph.xml(first, number), paragraph.xml(innermost, outermost + 1)))
        return number

    def _written(self, text: str) -> str:
        """WordprocessingML of a text. Words in no element have the plain look."""
        first, last = self._paragraph.pieces[self._first], self._paragraph.pieces[self._stop - 1]
        parts, run, open_ = list[str](), self._plain, list[str]()
        if first.run is not None and not first.starts_run:
            parts.append(first.run.closing)
        for look, ends, item, around, closed, words in _TOKEN.findall(text):
            if look:
                run = self._looks[int(look)]
            elif ends:
                run = self._plain
            elif item:
                parts.append(self._items[int(item)])
            elif around:
                before, after = self._around[int(around)]
                parts.append(before)
                open_.append(after)
            elif closed:
                parts.append(open_.pop())
            else:
                parts.append(run.with_words(words))
        if last.run is not None and not last.ends_run:
            parts.append(last.run.opening)
        return "".join(parts)


def _of_most_characters(texts: Sequence[Piece]) -> Run:
    """The run whose look most characters have."""
    lengths, runs = Counter[str](), dict[str, Run]()
    for piece in texts:
        assert piece.run is not None
        lengths[piece.run.look] += len(piece.text)
        runs.setdefault(piece.run.look, piece.run)
    return runs[lengths.most_common(1)[0][0]]
