"""Whether two words can be forms of one word."""

import unicodedata

_LEAST = 4  # letters that both words begin with; fewer if they are one of the words
_LONGEST_ENDING = 2  # of the word with the shorter ending, after the same beginning


def are_forms(term: str, other: str) -> bool:
    """Whether two terms differ in the endings of their words at most, such as `Arzt` and `Ärzten`. Case and accents are
    ignored. The endings may not be longer than the beginning that both words have."""
    words, others = term.split(), other.split()
    return len(words) == len(others) and all(map(_are_forms, words, others))


def _are_forms(word: str, other: str) -> bool:
    short, long = sorted((_letters(word), _letters(other)), key=len)
    same = next((i for i, (x, y) in enumerate(zip(short, long, strict=False)) if x != y), len(short))
    least = _LEAST if same < len(short) else _LEAST - 1
    return short == long or (same >= least and len(short) - same <= _LONGEST_ENDING and len(long) - same <= same)


def _letters(word: str) -> str:
    return "".join(x for x in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(x))
