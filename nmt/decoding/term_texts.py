"""Target terms in a translation: where it has them, in which case they are written, and texts with replaced words."""

from collections.abc import Iterator, Mapping, Sequence

from nmt.config.word_characters import in_one_word
from nmt.data.subwords.letter_case import lowercase, titlecase, uppercase
from nmt.decoding.markup.elements import Span
from nmt.terms.glossary import FoundTerm

_BEFORE_SENTENCE = tuple(".!?…:。！？¿¡")
_OPENING = "\"'“”„‚‘«»‹›()[] "


def own_places(text: str, terms: Sequence[FoundTerm], language: str) -> dict[int, Span]:
    """The place of each term of which a translation has a target form as complete words, by the index of the term. A
    term that was found twice needs two places. Case is ignored, but the glossary's capitals must be there."""
    small, places, taken = _small(text, language), dict[int, Span](), set[int]()
    for i, found in enumerate(terms):
        spans = (span for form in found.term.targets for span in _occurrences(text, small, form, language))
        if free := [span for span in spans if taken.isdisjoint(range(*span))]:
            places[i] = min(free, key=lambda span: (span[0], -span[1]))
            taken.update(range(*places[i]))
    return places


def _occurrences(text: str, small: str, form: str, language: str) -> Iterator[Span]:
    wanted, has_capitals = _small(form, language), any(map(str.isupper, form))
    start = small.find(wanted)
    while start >= 0:
        stop = start + len(wanted)
        same_case = not has_capitals or text[start:stop] == form or text[start:stop].isupper()
        if same_case and not in_one_word(text, start) and (stop == len(text) or not in_one_word(text, stop)):
            yield start, stop
        start = small.find(wanted, start + 1)


def _small(text: str, language: str) -> str:
    """The text in small letters, with as many characters: İ would become two."""
    return text.lower() if text.isascii() and language != "tr" else lowercase(text.replace("İ", "i"), language)


def in_case(form: str, text: str, span: Span, found: FoundTerm, language: str) -> str:
    """A target form in the case that it has in place of a span of a text: with a capital at the start of a sentence,
    and in capitals where the line and its translation have capitals, but the glossary does not."""
    replaced, before = text[slice(*span)], text[: span[0]].rstrip(_OPENING)
    if found.found_as not in found.term.sources and found.found_as.isupper() and replaced.isupper() and replaced[1:]:
        return uppercase(form, language)
    starts = (not before or before.endswith(_BEFORE_SENTENCE)) and replaced[:1].isupper()
    return titlecase(form[:1], language) + form[1:] if starts and form.islower() else form


def edited(text: str, edits: Mapping[Span, str]) -> str:
    """The text with other texts in place of some spans."""
    for (start, stop), new in sorted(edits.items(), reverse=True):
        text = f"{text[:start]}{new}{text[stop:]}"
    return text
