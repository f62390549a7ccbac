"""Scripts that are written without spaces between words, as ranges for a class of a regular expression."""

import re
import unicodedata

# Thai, Lao, Tibetan, Burmese, Khmer, Tai Le, New Tai Lue, Tai Tham, Balinese, Javanese, Cham, Tai Viet.
SOUTHEAST_ASIAN = "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\uaadf"
# Chinese characters, kana and bopomofo, with their punctuation; full-width forms.
CJK = "\u2e80-\u312f\u3190-\u9fff\uf900-\ufaff\uff00-\uff9f\uffe0-\uffef\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"
UNSPACED = SOUTHEAST_ASIAN + CJK
# Korean has spaces, but its particles follow a word without one.
HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\uffa0-\uffdf"

_LETTER = re.compile(f"[{UNSPACED}{HANGUL}]")


def is_unspaced(letter: str) -> bool:
    """Whether a word may begin or end next to this letter without a space: Chinese, Japanese, Korean, Thai, …"""
    return _LETTER.match(letter) is not None and unicodedata.category(letter)[0] == "L"
