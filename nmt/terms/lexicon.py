"""A word lexicon from parallel text: words that translate one another, because they occur together far more often than
apart (Dice's coefficient; Melamed 2000, "Models of Translational Equivalence among Words": one partner for each word).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from nmt.config.word_characters import CharacterKind, kind

MOST_PAIRS = 1_000_000  # that should be read; more pairs find rarer words, and take longer
_FEWEST, _LARGEST_SHARE = 3, 0.1  # pairs that have a word; words in a larger share of the pairs are left out
_LEAST_DICE = 0.4
_LONGEST = 100  # words of a sentence
_MOST_COUNTS = 2**23  # counts of word pairs that are kept: the rare ones are left out when there are more

Integers = npt.NDArray[np.int64]


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """The start and stop of each word that is separated by spaces and begins with a letter, without the punctuation
    around it. Texts in scripts without spaces, such as Chinese, have none."""
    start = 0
    for part in text.split(" "):
        left, right = _word_in(part)
        if left < right:
            yield start + left, start + right
        start += len(part) + 1


@lru_cache(2**16)  # texts repeat words
def _word_in(part: str) -> tuple[int, int]:
    """The start and stop of the word between spaces; equal if there is none."""
    kinds = list(map(kind, part))
    inner = [i for i, letter in enumerate(kinds) if letter in (CharacterKind.WORD, CharacterKind.MARK)]
    if not inner or CharacterKind.ALONE in kinds or not part[inner[0]].isalpha():
        return 0, 0
    return inner[0], inner[-1] + 1


def words_of(text: str) -> list[str]:
    """The words of `word_spans`, each once."""
    return [word for word in dict.fromkeys(map(_word, text.split(" "))) if word]


@lru_cache(2**16)
def _word(part: str) -> str:
    return part[slice(*_word_in(part))]


def learn_lexicon(read: Callable[[], Iterable[tuple[str, str]]]) -> dict[str, str]:
    """The translations of words: source word in lower case → target word in its most frequent form, the rarest first.

    read: gives the pairs, twice. Each word has one partner, with which it has the highest Dice coefficient on both
    sides. The memory is bounded; the same pairs give the same result.
    """
    pairs, forms = 0, (Counter[str](), Counter[str]())
    for pair in read():
        pairs += 1
        for counter, text in zip(forms, pair, strict=True):
            counter.update(words_of(text))
    sides = [_Words(counter, max(2 * _FEWEST, int(pairs * _LARGEST_SHARE))) for counter in forms]
    keys, counts, new, size = np.empty(0, np.int64), np.empty(0, np.int64), list[Integers](), 0
    for pair in read():
        source, target = (side.indices(words_of(text)) for side, text in zip(sides, pair, strict=True))
        new.append((source[:, None] * len(sides[1].words) + target).ravel())
        size += len(new[-1])
        if size > _MOST_COUNTS:
            keys, counts = _counted(keys, counts, new)
            new, size = [], 0
    keys, counts = _counted(keys, counts, new)
    source, target = np.divmod(keys, max(1, len(sides[1].words)))
    dice = 2 * counts / (sides[0].counts[source] + sides[1].counts[target])
    order = np.lexsort((keys, dice))  # the last one counts: ties are broken in the same way everywhere
    best = [np.full(len(side.words), -1) for side in sides]
    best[0][source[order]] = best[1][target[order]] = order
    mutual = (best[0][source] == best[1][target]) & (dice >= _LEAST_DICE) & (counts >= _FEWEST)
    found = [(int(counts[i]), sides[0].words[source[i]], sides[1].form(target[i])) for i in np.flatnonzero(mutual)]
    return {source: target for _, source, target in sorted(found)}


class _Words:
    """The words of a side, in lower case, that are neither very rare nor very frequent."""

    def __init__(self, forms: Counter[str], most: int) -> None:
        """forms: in how many pairs each form of a word is."""
        self._forms = dict[str, str]()  # the most frequent form of each word
        counts = Counter[str]()
        for form, count in forms.most_common():
            counts[form.lower()] += count
            self._forms.setdefault(form.lower(), form)
        self.words = [word for word, count in counts.items() if _FEWEST <= count <= most]
        self.counts = np.array([counts[word] for word in self.words], np.int64)
        self._indices = {word: i for i, word in enumerate(self.words)}

    def indices(self, words: Sequence[str]) -> Integers:
        """The indices of the words of a sentence. [0] for a long sentence."""
        found = {i for word in words if (i := self._indices.get(word.lower())) is not None}
        return np.array(sorted(found) if len(words) <= _LONGEST else [], np.int64)

    def form(self, index: int) -> str:
        return self._forms[self.words[index]]


def _counted(keys: Integers, counts: Integers, new: Sequence[Integers]) -> tuple[Integers, Integers]:
    """The counts of keys with one more for each of the new ones. If there are too many keys, rare ones are left out."""
    every, where = np.unique(np.concatenate([keys, *new]), return_inverse=True)
    totals = np.ones(len(where), np.int64)
    totals[: len(counts)] = counts
    totals = np.bincount(where, totals, len(every)).astype(np.int64)
    least = 1
    while np.count_nonzero(totals >= least) > _MOST_COUNTS:
        least += 1
    kept = totals >= least
    return every[kept], totals[kept]
