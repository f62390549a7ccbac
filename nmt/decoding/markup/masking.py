"""Protected text, such as placeholders, URLs and e-mail addresses, which occurs unchanged in the translation of a line.

Some models have learned to copy it. Other models translate a line with protected text badly, but the same line without
it well. For them the text is removed from the line, and inserted between the words of the translation; see
nmt.decoding.markup.placement.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from nmt.config.unspaced_scripts import is_unspaced
from nmt.decoding.markup.aligned_words import AlignedWords
from nmt.decoding.markup.elements import Element, Span, with_elements
from nmt.decoding.markup.placement import place_elements
from nmt.decoding.protected_text import is_protected, protected_spans
from nmt.decoding.translation import Translation

log = logging.getLogger("nmt.texts")  # a separate logger, because it quotes texts: a service disables it


def masked(line: str, patterns: tuple[str, ...]) -> tuple[str, list[Element]]:
    """The line without its protected text, and this text as elements. Adjacent protected texts are one element."""
    text, size, elements, end = list[str](), 0, list[Element](), 0  # size: characters of the text
    for start, stop in _joined(protected_spans(line, patterns)):
        text.append(line[end:start])
        size += start - end
        before, after = text[-1][-1:] or " ", line[stop : stop + 1] or " "
        if before.isspace() and not (after.isspace() or after.isalnum()):  # no space before a punctuation mark
            while text and not (stripped := text[-1].rstrip()):
                size -= len(text.pop())
            if text:
                size -= len(text[-1]) - len(stripped)
                text[-1] = stripped
        elements.append(Element(size, size, line[start:stop], replaces=True, beside=(before, after)))
        end = stop + (before.isspace() and after.isspace())  # without a second space
    return "".join([*text, line[end:]]), elements


def _joined(spans: Iterable[Span]) -> list[Span]:
    joined = list[Span]()
    for start, stop in spans:
        if joined and joined[-1][1] == start:
            start, _ = joined.pop()
        joined.append((start, stop))
    return joined


def lines_to_restore(
    lines: Mapping[int, str], translations: Sequence[Sequence[Translation]], patterns: tuple[str, ...]
) -> dict[int, str]:
    """The lines of which a translation lacks protected text, by their indices."""
    return {
        i: line
        for i, line in lines.items()
        if not all(is_protected(line, translation.text, patterns) for translation in translations[i])
    }


def restore(
    lines: Mapping[int, str],
    translations: list[list[Translation]],
    patterns: tuple[str, ...],
    translate: Callable[[list[str]], Iterator[list[Translation]]],
) -> int:
    """Translate the lines whose translations lack protected text again, without that text, and restore it. Returns
    their number."""
    lacking = lines_to_restore(lines, translations, patterns)
    masked_lines = [masked(line, patterns) for line in lacking.values()]
    results = translate([text for text, _ in masked_lines])
    for (i, line), (text, elements), n_best in zip(lacking.items(), masked_lines, results, strict=True):
        translations[i] = [replace(one, text=unmasked(text, elements, one, line, patterns)) for one in n_best]
    return len(lacking)


def unmasked(text: str, elements: list[Element], translation: Translation, line: str, patterns: tuple[str, ...]) -> str:
    """The translation of `text`, the masked `line`, with the protected text of the line."""
    aligned = AlignedWords.from_translation(text, translation, elements=len(elements))
    spans = place_elements(elements, aligned, {})
    if not any(map(is_unspaced, translation.text)):  # it needs spaces where the line has none between words
        elements = [replace(element, beside=_spaced(*element.beside)) for element in elements]
    restored = with_elements(translation.text, elements, spans, {})
    if is_protected(line, restored, patterns):
        return restored
    # An element beside other characters may match as another text: put spaces around each.
    spaced = [replace(element, beside=(" ", " ")) for element in elements]
    restored = with_elements(translation.text, spaced, spans, {})
    if not is_protected(line, restored, patterns):
        log.warning("some text protected by decoding.keep is not in the translation of %.200r", line)
    return restored


def _spaced(before: str, after: str) -> tuple[str, str]:
    """The characters beside an element, with a space for a letter of a script without spaces."""
    return " " if is_unspaced(before) else before, " " if is_unspaced(after) else after
