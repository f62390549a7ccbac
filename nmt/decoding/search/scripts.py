"""Scripts that are written without spaces between words."""

import unicodedata

# First words of the Unicode names of letters that are written without spaces between words; Korean has spaces,
# but its particles follow a word without one.
_UNSPACED = {
    *("CJK", "IDEOGRAPHIC", "BOPOMOFO", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL"),
    *("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "TAI", "NEW", "BALINESE", "JAVANESE"),  # NEW TAI LUE
}


def is_unspaced(letter: str) -> bool:
    """Whether a word may begin or end next to this letter without a space: Chinese, Japanese, Korean, Thai, …"""
    return unicodedata.category(letter)[0] == "L" and unicodedata.name(letter, "").partition(" ")[0] in _UNSPACED
