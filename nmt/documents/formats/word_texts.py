"""The texts of a paragraph of Word. Looks, links and fields are elements in a text, so that they move with the words.

`<r>` is around words whose look is not the most frequent one, `<h>` is around the content of a link, a field or the
range of a comment, and `<x>` is anything else among words. Tabs and line breaks end a text.
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
    """The segments of a paragraph that have letters. Their offsets are in bytes."""
    paragraph, first = _Paragraph(data, pieces), 0
    for i, is_break in enumerate([*paragraph.is_break, True]):
        if is_break:
            if paragraph.has_letter(first, i):
                yield _Writer(paragraph, *paragraph.trimmed(first, i)).segment()
            first = i + 1


class _Paragraph:
    """The pieces of a paragraph. Below, a piece is given by its index.

    partner: the end of each start, and the start of each end; -1 if it is in another paragraph or they are not nested.
    separators: for the start of a field its separator, or else its end. is_break: whether a piece ends a text.
    """

    def __init__(self, data: bytes, pieces: Sequence[Piece]):
        self.data, self.pieces = data, pieces
        self.partner, self.separators = _partners(pieces)
        self.is_break = [self._is_alone(i) for i in range(len(pieces))]
        breaks = _sums(self.is_break)
        for start, end in enumerate(self.partner):
            if start < end and breaks[start] < breaks[end]:
                for i in (start, self.separators.get(start, start), end):
                    self.is_break[i] = True
        visible = [piece.text if piece.kind == "text" else "" for piece in pieces]
        end = 0
        for start, separator in sorted(self.separators.items()):
            if self.partner[start] >= 0:  # the code of a field is not visible
                first, end = max(end, start), max(end, separator)
                visible[first:end] = [""] * (end - first)
        self._texts = _sums([text != "" for text in visible])
        self._letters = _sums([any(map(str.isalpha, text)) for text in visible])

    def _is_alone(self, i: int) -> bool:
        kind = self.pieces[i].kind
        return kind == "break" or (kind in ("start", "separator", "end") and self.partner[i] < 0)

    def has_letter(self, first: int, stop: int) -> bool:
        return self._letters[first] < self._letters[stop]

    def inner(self, start: int) -> int:
        """The first visible piece between a start and its end."""
        return self.separators.get(start, start) + 1

    def item(self, i: int) -> tuple[int, str] | None:
        """The stop and the visible text of an item that begins with this piece; None if there is no item. A start and
        its end without text in between are an item, and so is a field without a letter, such as a page number."""
        piece = self.pieces[i]
        if piece.kind != "start":
            return (i + 1, piece.text) if piece.kind == "item" else None
        first, end = self.inner(i), self.partner[i]
        if piece.is_field and not self.has_letter(first, end):
            return end + 1, "".join(each.text for each in self.pieces[first:end])
        return (end + 1, "") if self._texts[first] == self._texts[end] else None

    def trimmed(self, first: int, stop: int) -> tuple[int, int]:
        """The range without blank pieces at its ends, and without elements around all of it."""
        last = stop - 1
        while True:
            while (next_piece := self._after_blank(first)) > first:
                first = next_piece
            while (start := self._start(last)) > first and self._after_blank(start) > start:
                last = start - 1
            if start > first or first == last or self.item(first):
                return first, last + 1
            first, last = self.inner(first), last - 1  # for example inside a link around all of it

    def _start(self, last: int) -> int:
        return self.partner[last] if self.pieces[last].kind == "end" else last

    def _after_blank(self, i: int) -> int:
        """The piece after a blank item or text that begins with this piece; the same piece if it is not blank."""
        piece, item = self.pieces[i], self.item(i)
        if item is not None:
            return i if item[1].strip() else item[0]
        return i + (piece.kind == "text" and not piece.text.strip())

    def xml(self, first: int, stop: int) -> str:
        """The XML of pieces [first, stop), completed to whole runs."""
        start_piece, end_piece = self.pieces[first], self.pieces[stop - 1]
        before = "" if start_piece.run is None or start_piece.starts_run else start_piece.run.opening
        after = "" if end_piece.run is None or end_piece.ends_run else end_piece.run.closing
        return f"{before}{self.data[start_piece.start : end_piece.stop].decode()}{after}"


def _partners(pieces: Sequence[Piece]) -> tuple[list[int], dict[int, int]]:
    partner, separators, open_ = [-1] * len(pieces), dict[int, int](), list[int]()
    for i, piece in enumerate(pieces):
        if piece.kind == "start":
            open_.append(i)
        while piece.kind == "end" and piece.is_element and pieces[open_[-1]].key != piece.key:
            open_.pop()
        if piece.kind not in ("end", "separator") or not open_ or pieces[open_[-1]].key != piece.key:
            continue
        if piece.kind == "separator":
            if open_[-1] not in separators:
                separators[open_[-1]] = i
            continue
        start = open_.pop()
        partner[start], partner[i] = i, start
        if piece.key == "field":  # a field without a separator is only code
            partner[separators.setdefault(start, i)] = start
    return partner, separators


def _sums(flags: Sequence[bool]) -> list[int]:
    """For each index, how many flags before it are true."""
    return [0, *accumulate(flags)]


class _Writer:
    """Reads a text of a paragraph and writes its translation."""

    def __init__(self, paragraph: _Paragraph, first: int, stop: int):
        self._paragraph, self._first, self._stop = paragraph, first, stop
        texts = [piece for piece in paragraph.pieces[first:stop] if piece.kind == "text"]
        self._plain = _most_frequent_look(texts)
        self._looks, self._items = list[Run](), list[str]()
        self._around = list[tuple[str, str]]()  # the XML before and after the content of each `<h>`

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
        paragraph, parts, i = self._paragraph, list[str](), self._first
        ends = dict[int, int]()  # the first and the last end of each `<h>`
        look = ""  # of the last part
        while i < self._stop:
            piece = paragraph.pieces[i]
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
                i += 1
            elif i in ends:
                parts.append("</h>")
                i = ends[i] + 1
            elif paragraph.item(i):
                i, visible = self._add_items(i)
                content = f' translate="no">{escape(visible, quote=False)}</x>' if visible.strip() else "/>"
                parts.append(f'<x i="{len(self._items) - 1}"{content}')
            else:
                parts.append(f'<h i="{len(self._around)}">')
                i = self._add_around(i, ends)
        return "".join(parts)

    def _add_items(self, first: int) -> tuple[int, str]:
        """Adds adjacent items as one. Returns their stop and their visible text."""
        i, visible = first, ""
        while i < self._stop and (item := self._paragraph.item(i)):
            i, text = item
            visible += text
        self._items.append(self._paragraph.xml(first, i))
        return i, visible

    def _add_around(self, first: int, ends: dict[int, int]) -> int:
        """Adds adjacent starts whose ends are also adjacent as one. Returns their stop."""
        paragraph, start = self._paragraph, first
        i = paragraph.inner(start)
        while paragraph.partner[i] == paragraph.partner[start] - 1 and not paragraph.item(i):
            start, i = i, paragraph.inner(i)
        innermost, outermost = paragraph.partner[start], paragraph.partner[first]
        ends[innermost] = outermost
        self._around.append((paragraph.xml(first, i), paragraph.xml(innermost, outermost + 1)))
        return i

    def _written(self, text: str) -> str:
        """WordprocessingML of a text. Words outside of elements have the plain look."""
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


def _most_frequent_look(texts: Sequence[Piece]) -> Run:
    """A run with the look that most characters have."""
    lengths, runs = Counter[str](), dict[str, Run]()
    for piece in texts:
        assert piece.run is not None
        lengths[piece.run.look] += len(piece.text)
        runs.setdefault(piece.run.look, piece.run)
    return runs[lengths.most_common(1)[0][0]]
