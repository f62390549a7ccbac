"""Parts of a line that stand in its translation as they are, and as often: placeholders, URLs, e-mail addresses.

A model that has learned to copy them does so. Others translate a line with them badly, and without them as any other:
there they are taken out, and put back between the words of the translation; see nmt.decoding.markup.placement.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nmt.config.unspaced_scripts import is_unspaced
from nmt.decoding.markup.aligned_words import AlignedWords
from nmt.decoding.markup.elements import Element, Span, with_elements
from nmt.decoding.markup.placement import place
from nmt.decoding.protected_text import is_protected, protected_spans
from nmt.decoding.translation import Translation

log = logging.getLogger("nmt.texts")  # apart, as it quotes texts: a service switches it off


def masked(line: str, patterns: tuple[str, ...]) -> tuple[str, list[Element]]:
    """A line without its items, and these with their places there. Items without anything between them are one."""
    text, size, elements, end = list[str](), 0, list[Element](), 0  # size: of the text
    for start, stop in _joined(protected_spans(line, patterns)):
        text.append(line[end:start])
        size += start - end
        before, behind = text[-1][-1:] or " ", line[stop : stop + 1] or " "
        if before.isspace() and not (behind.isspace() or behind.isalnum()):  # no space before a punctuation mark
            while text and not (kept := text[-1].rstrip()):
                size -= len(text.pop())
            if text:
                size -= len(text[-1]) - len(kept)
                text[-1] = kept
        elements.append(Element(size, size, line[start:stop], replaces=True, beside=(before, behind)))
        end = stop + (before.isspace() and behind.isspace())  # without a second space
    return "".join([*text, line[end:]]), elements


def _joined(spans: Iterable[Span]) -> list[Span]:
    joined = list[Span]()
    for start, stop in spans:
        if joined and joined[-1][1] == start:
            start, _ = joined.pop()
        joined.append((start, stop))
    return joined


def lacking(
    lines: Mapping[int, str], translations: Sequence[Sequence[Translation]], patterns: tuple[str, ...]
) -> dict[int, str]:
    """Those of the lines of which a translation lacks an item, by their places."""
    return {
        i: line
        for i, line in lines.items()
        if not all(is_protected(line, translation.text, patterns) for translation in translations[i])
    }


def unmasked(text: str, elements: list[Element], translation: Translation, line: str, patterns: tuple[str, ...]) -> str:
    """The translation of `text` with the items that were taken out of `line`."""
    places = place(elements, AlignedWords.of(text, translation, elements=len(elements)), {})
    if not any(map(is_unspaced, translation.text)):  # where the line has no space between words, it has one
        elements = [replace(each, beside=_spaced(*each.beside)) for each in elements]
    found = with_elements(translation.text, elements, places, {})
    if is_protected(line, found, patterns):
        return found
    apart = [replace(element, beside=(" ", " ")) for element in elements]  # beside others one may become another
    found = with_elements(translation.text, apart, places, {})
    if not is_protected(line, found, patterns):
        log.warning("not all that decoding.keep names is in the translation of %.200r", line)
    return found


def _spaced(before: str, behind: str) -> tuple[str, str]:
    """What is beside an item, with spaces for letters that need none."""
    return " " if is_unspaced(before) else before, " " if is_unspaced(behind) else behind
