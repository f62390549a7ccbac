"""A word lexicon from parallel text: words that translate one another, because they occur together far more often than
apart (Dice's coefficient), each with one partner (Melamed 2000, "Models of Translational Equivalence among Words").
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import product

from nmt.config.word_characters import CharacterKind, kind

MOST_PAIRS = 1_000_000  # of a text, which should be read: more cost time
_FEWEST, _MOST = 3, 3_000  # pairs that have a word; words in more than half of the pairs are left out too
_LEAST_DICE = 0.4
_LONGEST = 100  # words of a sentence
_MOST_COUNTS = 2**21  # word pairs that are counted; the rarest are left out (about 400 MB)


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """The start and stop of each word between spaces, without punctuation around it. Numbers, and text in scripts
    without spaces, such as Chinese, have none."""
    start = 0
    for part in text.split(" "):
        left, right = _word_in(part)
        if left < right:
            yield start + left, start + right
        start += len(part) + 1


@lru_cache(2**16)  # texts repeat words
def _word_in(part: str) -> tuple[int, int]:
    kinds = list(map(kind, part))
    inner = [i for i, letter in enumerate(kinds) if letter in (CharacterKind.WORD, CharacterKind.MARK)]
    is_word = inner and part[inner[0]].isalpha() and CharacterKind.ALONE not in kinds
    return (inner[0], inner[-1] + 1) if is_word else (0, 0)


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(text[slice(*span)] for span in word_spans(text)))


def learn_lexicon(read: Callable[[], Iterable[tuple[str, str]]]) -> dict[str, str]:
    """The translation of each word in its most frequent form, by the source word in lower case, the rarest first. The
    same pairs give the same lexicon. read: gives the pairs, and is called twice."""
    pairs, forms = 0, (Counter[str](), Counter[str]())
    for pair in read():
        pairs += 1
        for counter, text in zip(forms, pair, strict=True):
            counter.update(_words(text))
    counts, written = (Counter[str](), Counter[str]()), dict[str, str]()
    for form, _ in forms[1].most_common():
        written.setdefault(form.lower(), form)
    for counter, side in zip(forms, counts, strict=True):
        for form, count in counter.items():
            side[form.lower()] += count
    most, together, least = min(_MOST, pairs // 2), Counter[tuple[str, str]](), 1
    for pair in read():
        words = [_words(text.lower()) for text in pair]
        source, target = (
            [word for word in line if _FEWEST <= side[word] <= most] for line, side in zip(words, counts, strict=True)
        )
        if max(map(len, words)) <= _LONGEST:
            together.update(product(source, target))
        if len(together) > _MOST_COUNTS:
            together = Counter({words: count for words, count in together.items() if count > least})
            least += len(together) > _MOST_COUNTS // 2
    dice = {(s, t): 2 * n / (counts[0][s] + counts[1][t]) for (s, t), n in together.items() if n >= _FEWEST}
    best_target, best_source = dict[str, tuple[float, str]](), dict[str, tuple[float, str]]()
    for (s, t), value in dice.items():
        best_target[s] = max(best_target.get(s, (_LEAST_DICE, "")), (value, t))
        best_source[t] = max(best_source.get(t, (_LEAST_DICE, "")), (value, s))
    mutual = [(counts[0][s], s, t) for s, (_, t) in best_target.items() if t and best_source[t][1] == s]
    return {s: written[t] for _, s, t in sorted(mutual)}


def same_letters(word: str, other: str) -> int:
    """The number of letters with which both words begin."""
    shorter = min(len(word), len(other))
    return next((i for i in range(shorter) if word[i] != other[i]), shorter)


def are_forms(term: str, other: str) -> bool:
    """Whether two terms differ in the endings of their words at most, such as `Arzt` and `Ärzten`. Case and accents are
    ignored. The words have at most two letters each after the same beginning of at least four, or of three if one of
    them is the beginning of the other."""
    words, others = (
        "".join(x for x in unicodedata.normalize("NFD", text.casefold()) if not unicodedata.combining(x)).split()
        for text in (term, other)
    )
    for pair in zip(words, others, strict=False):
        same = same_letters(*pair)
        short, long = sorted(len(word) - same for word in pair)
        if long and (same < (4 if short else 3) or long > 2):
            return False
    return len(words) == len(others)
