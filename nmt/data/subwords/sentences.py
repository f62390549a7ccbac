"""Split text into sentences, and join texts to a line.

Rules find the positions where a sentence may end. sentencex, of the Wikimedia Foundation, decides which of these are
abbreviations (`Dr.`, `Fig.`, `usw.`), because it knows those of many languages. It is not used to split sentences:
these rules find more of them (docs/translating.md).
"""

import re
from collections.abc import Iterator, Sequence, Set
from functools import cache, lru_cache
from itertools import zip_longest

import sentencex

from nmt.config.language_codes import two_letters
from nmt.config.unspaced_scripts import CJK, UNSPACED

# Full stops, exclamation marks and question marks that end a sentence only before a space: `3.5`, `nmt.load`, `a?b`.
_SPACED = ".!?…‼⁇⁈⁉"
# Marks that end a sentence anywhere: Chinese and Japanese, Arabic, Urdu, Indian, Armenian, Ethiopian, Burmese, Khmer.
_ANYWHERE = "。！？｡؟۔।॥։።፧။។៕"
_STOPS = f"{_SPACED}{_ANYWHERE}፡"  # in Ethiopian text `፡፡` is a full stop, also written `::`
_CLOSING = "\"'”’»›)\\]}」』）】》〉"
# The end of a sentence with its closing quotes and the space after it. A match begins only at the first of several
# stops; otherwise a line of stops would take quadratic time. No sentence ends before a no-break space: `1. Oktober`,
# `St. Louis`.
_END = re.compile(
    rf"""(?:
      (?<![{_STOPS}]) (?: [{_SPACED}] [{_STOPS}]*+ | ፡፡ | (?<=[\u1200-\u137f])::)
        (?: [{_CLOSING}“‘] | [ \u00a0\u202f]»(?=\s) )* (?=\s) (?![\u00a0\u202f]\S)
      | (?<![{_STOPS}]) [{_STOPS}]* [{_ANYWHERE}] [{_STOPS}]* [{_CLOSING}]*
      | (?<=[{CJK}]) [?!]++ [{_CLOSING}]* (?=[{CJK}"“‘])
    )\s*""",
    re.VERBOSE,
)
_STOP = re.compile(f"[{_STOPS};:]")
# The end of `J.`, `z. B.`, `U.S.` and `EE. UU.`; not of a word whose last letter stands after a combining mark.
_INITIAL = re.compile(r"(?:^|[\s.,;:/(\[„“«‚‘\"–—-])([^\W\d_])\1?\.\Z")
_ORDINAL = re.compile(r"(?:^|[\s(\[–—-])(?:\d{1,3}|[IVXLC]+)\.\Z")
# Languages that write an ordinal number with a full stop: `29. Juli`, `XIX. Jahrhundert`.
_WITH_ORDINALS = {
    *("als", "az", "bs", "cs", "da", "de", "dsb", "et", "eu", "fi", "fo", "gsw", "hr", "hsb", "hu", "is", "lb", "lv"),
    *("nb", "nds", "nn", "no", "pl", "se", "sk", "sl", "sr", "tr"),
}
# Titles and short forms before a name that sentencex does not know: Swahili, Hindi and Marathi, Tamil, Gujarati,
# Telugu, Afrikaans, Irish, Icelandic. _OF_LETTERS matches short forms of letters with vowel signs, such as `યુ.એસ.`.
_TITLES = set(
    "Bw. Bi. Dk. Mhe. Bwana. डॉ. श्री. प्रा. सौ. कु. திரு. திருமதி. டாக்டர். ડૉ. ડો. શ્રી. డా. డాక్టర్. శ్రీ. mnr. mev. dr. prof. "
    "tUas. Uas. Frk. Hr. sr.".casefold().split()
)
_OF_LETTERS = re.compile(r"(?:[^\s.\d]{1,3}\.){2,}")
_WORD = re.compile(r"\S+")
_CAPITAL_NOUNS = {"bar", "de", "gsw", "lb", "nds"}  # languages that write `Der Mann` also within a sentence
_LONGEST_WORD = 24  # characters; longer words are not abbreviations
_LONGEST_BEFORE_NUMBER = 6  # characters of one that is used before numbers only, like `No. 5`, `Abb. 3`
_UNSPACED = re.compile(f"[{UNSPACED}]")
_OF_CJK = re.compile(f"[{CJK}]")


def sentences(text: str, language: str = "", first_words: Set[str] = frozenset()) -> Iterator[str]:
    """Yield the sentences of a text, each with the white space after it. Concatenated they are the text.

    A full stop ends no sentence after an abbreviation, after a single letter (an initial), after an ordinal number in a
    language that writes it this way, and before a lowercase letter, unless the whole text is in lower case.
    language: a code; by default English. first_words: words that begin a sentence even without a full stop before them.
    """
    start = 0
    for end in _ends(text, language, first_words):
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def has_several(text: str, language: str = "", first_words: Set[str] = frozenset()) -> bool:
    """Whether a text has more than one sentence. The arguments are those of `sentences`."""
    return next(_ends(text, language, first_words), None) is not None


def _ends(text: str, language: str, first_words: Set[str]) -> Iterator[int]:
    """Yield the end of each sentence except the last, with the space after it."""
    ends = _marked_ends(text, language)
    if first_words and not first_words.isdisjoint(text.split()[1:]):
        return iter(sorted({*ends, *_unmarked_ends(text, two_letters(language), first_words)}))
    return ends


def _unmarked_ends(text: str, language: str, first_words: Set[str]) -> list[int]:
    """The ends of sentences without a full stop: before a first word between lowercase words, if the word before it is
    not a first word too. So there is no end in `the Children`, in `The Hague` and in a title."""
    words, nouns = list(_WORD.finditer(text)), language in _CAPITAL_NOUNS
    return [
        word.start()
        for before, word, after in zip(words, words[1:], words[2:], strict=False)
        if word[0] in first_words
        and before[0][-1].isalpha()
        and before[0].title() not in first_words
        and (nouns or after[0][0].islower())
    ]


def _marked_ends(text: str, language: str) -> Iterator[int]:
    """As `_ends`, for sentences that end with a full stop or another mark."""
    if not _STOP.search(text, 0, len(text) - 1):  # most lines have one sentence: the next steps take longer
        return
    language, small = two_letters(language), None
    for mark in (_greek_end() if language == "el" else _END).finditer(text):
        if mark.end() == len(text) or not mark.start():
            continue
        if small is None:
            small = text.islower()
        if not _goes_on(text, mark, small) and not _is_abbreviation(text, mark, language):
            yield mark.end()


@cache  # only Greek text needs it
def _greek_end() -> re.Pattern[str]:
    """As `_END`, and the semicolon, which is the question mark."""
    return re.compile(rf";[{_CLOSING}]*(?=\s)\s*|{_END.pattern}", re.VERBOSE)


def _goes_on(text: str, end: re.Match[str], small: bool) -> bool:
    """Whether the sentence continues after a stop: with a lowercase letter, or in Japanese after a quotation."""
    stops, after = end[0].rstrip(), text[end.end()]
    if stops[-1] in '」』”"' and after == "と":
        return True
    goes_on = stops[0] in ".…" or stops[-1] in _CLOSING  # `Why? why not?` has two sentences
    return goes_on and not small and after.islower() and after.title() != after  # Georgian has no capitals


def _is_abbreviation(text: str, end: re.Match[str], language: str) -> bool:
    if end[0].strip() != ".":
        return False
    stop = end.start() + 1
    before = text[max(0, stop - _LONGEST_WORD) : stop]
    if _INITIAL.search(before) or (language in _WITH_ORDINALS and _ORDINAL.search(before)):
        return True
    word = before.split()[-1].lstrip("\"'“”„‘’‚«»‹›([{")
    following = text[end.end() : end.end() + _LONGEST_WORD].split(maxsplit=1)[0].strip("\"'“”„‘’‚«»‹›()[]{}")
    if word.casefold() in _TITLES or _OF_LETTERS.fullmatch(word):
        return True
    if not following or not word or len(word) >= _LONGEST_WORD or _is_acronym(word, following):
        return False
    if following[0].isdigit():  # sentencex never ends a sentence before a digit
        short = word[0].isupper() and len(word) <= _LONGEST_BEFORE_NUMBER
        return _is_known(word, following if short else "X", language)
    return _is_known(word, following, language)


def _is_acronym(word: str, following: str) -> bool:
    """Whether a word is an acronym like `NATO`, which sentencex takes for an abbreviation in some languages."""
    return len(word) > 3 and word.isupper() and following[0].isalpha() and not following.isupper()


@lru_cache(10_000)
def _is_known(word: str, following: str, language: str) -> bool:
    """Whether sentencex takes a word with a full stop for an abbreviation. following: the next word."""
    text = f"{word} {following}".encode(errors="replace").decode()  # it takes no surrogates
    [first, *_] = sentencex.segment(language or "en", text)
    return len(first) > len(word) + 1


def join_texts(texts: Sequence[str], spaces: Sequence[str] = ()) -> str:
    """Join texts to one line. spaces: the white space between their sources; `spaces[i]` comes before `texts[i + 1]`.

    Two texts are separated by as much white space as their sources, at least one space. There is no space next to
    Chinese or Japanese. Next to another script without spaces between words (Thai, Khmer, …) no space is added.
    """
    line, space = "", ""
    for text, after in zip_longest(texts, spaces, fillvalue=""):
        if line and text:
            line += _between(line[-1], text[0], space)
        if text:
            line, space = line + text, ""
        space = max(space, after, key=len)
    return line


def join_sentences(texts: Sequence[str]) -> str:
    """Join texts to one line as sentences: with a space between two of them, but not next to Chinese or Japanese."""
    return join_texts(texts, [" "] * len(texts))


def _between(before: str, after: str, space: str) -> str:
    """The white space between two texts that end and begin with these characters."""
    if _OF_CJK.match(before) or _OF_CJK.match(after):
        return ""
    if not space and (_UNSPACED.match(before) or _UNSPACED.match(after)):
        return ""
    return " " * max(1, len(space))
