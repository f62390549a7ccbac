"""Parts of a line that stand in its translation as they are, and as often: placeholders, URLs, e-mail addresses.

A model that has learned to copy them does so. Others translate a line with them badly, and without them as any other:
there they are taken out, and put back between the words of the translation; see nmt.decoding.markup.placement.
"""

from nmt.data.copied_items import kept_pattern
from nmt.decoding.markup.aligned_words import AlignedWords
from nmt.decoding.markup.placement import Element, joined, place
from nmt.decoding.translation import Translation


def taken_out(line: str, patterns: tuple[str, ...]) -> tuple[str, list[Element]]:
    """A line without its items, and these with their places there."""
    text, elements, end = "", list[Element](), 0
    for item in kept_pattern(patterns).finditer(line):
        text += line[end : item.start()]
        beside = line[item.end() :][:1]
        apart = text[-1:].strip() == "", beside.strip() == ""
        if apart[0] and beside and not (beside.isspace() or beside.isalnum()):
            text = text.rstrip()  # no space before a punctuation mark
        follows = apart == (False, True)  # such as `</b>`
        elements.append(Element(len(text), len(text), item[0], replaces=True, apart=apart, ends=follows))
        end = item.end() + all(apart)  # without a second space
    return text + line[end:], elements


def put_back(line: str, elements: list[Element], translation: Translation) -> str:
    """The translation of such a line with its items."""
    places = place(elements, AlignedWords.of(line, translation), {})
    return joined(translation.text, elements, places, {})
