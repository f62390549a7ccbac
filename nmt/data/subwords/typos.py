"""Words as people mistype them."""

import re

from nmt.data.draws import Draws
from nmt.data.subwords.copied_items import VERBATIM

WORDS_PER_TYPO = 10
# Letters of the alphabets that are typed letter by letter: Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic.
_LETTERS = (
    "a-zA-Z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u0373\u0386-\u0481\u048a-\u052f\u0531-\u0556\u0561-\u0587"
    "\u05d0-\u05ea\u0620-\u064a\u1e00-\u1fff"
)
# In words of at least four of them, which are no part of a URL, an e-mail address or a placeholder, without digits.
_WORD = re.compile(rf"{VERBATIM}|(?<!\w)([{_LETTERS}]{{4,}})(?!\w)")
# The keys beside each key of an English keyboard.
_NEIGHBOURS = {
    "q": "wa", "w": "qeas", "e": "wrsd", "r": "etdf", "t": "ryfg", "y": "tugh", "u": "yihj", "i": "uojk", "o": "ipkl",
    "p": "ol", "a": "qwsz", "s": "weadzx", "d": "ersfxc", "f": "rtdgcv", "g": "tyfhvb", "h": "yugjbn", "j": "uihknm",
    "k": "iojlm", "l": "opk", "z": "asx", "x": "zcsd", "c": "xvdf", "v": "cbfg", "b": "vngh", "n": "bmhj", "m": "njk",
}  # fmt: skip


def add_typos(text: str, draws: Draws, translation: str = "") -> str:
    """Add a typo to one word of the text, and to about one more for each ten words. A text without a word of four
    alphabetic letters is not changed. Words that the translation also contains, such as names, get no typo: a model
    would learn to change what it should copy."""
    words = [match.span(1) for match in _WORD.finditer(text) if match[1] and match[1] not in translation]
    if not words:
        return text
    chosen = sorted({draws.below(len(words)) for _ in range(1 + len(words) // WORDS_PER_TYPO)})
    parts, done = [], 0
    for start, end in (words[i] for i in chosen):
        parts += [text[done:start], mistype(text[start:end], draws)]
        done = end
    return "".join([*parts, text[done:]])


def mistype(word: str, draws: Draws) -> str:
    """Add one typo to a word of at least four letters: two letters are swapped, or one is left out, typed twice, or
    replaced by a neighbour on the keyboard. The first letter is not changed."""
    i = 1 + draws.below(len(word) - 2)  # not the last letter, which has no next letter to be swapped with
    before, letter, following, after = word[:i], word[i], word[i + 1], word[i + 2 :]
    near = _NEIGHBOURS.get(letter.lower())
    match draws.below(4):
        case 0 if letter != following:
            return f"{before}{following}{letter}{after}"
        case 1:
            return f"{before}{letter}{letter}{following}{after}"
        case 2 if near:
            key = draws.choice(near)
            return f"{before}{key.upper() if letter.isupper() else key}{following}{after}"
    return f"{before}{following}{after}"
