"""Changes by the subwords of a side in its text: invisible characters that are removed or become a space, and lines
that a model cannot write exactly, because encoding and decoding changes them."""

from collections import Counter

import numpy as np
import numpy.typing as npt

from nmt.data.cleaning.rules.characters import TextLines
from nmt.data.subwords.normalization import CONTROLS, INVISIBLE, MEANINGLESS, is_meant, plain
from nmt.data.subwords.vocabulary import Tokenizer

_UNSEEN = INVISIBLE | CONTROLS
_UNKNOWN, _SAME, _CHANGES = 0, 1, 2  # of a character


class TextChanges:
    """Counts changes. Differences in NFC and in the number of spaces do not count."""

    def __init__(self, tokenizer: Tokenizer, *, written: bool) -> None:
        """written: whether a model writes this side; otherwise only the invisible characters are counted."""
        self._tokenizer, self._written = tokenizer, written
        self.removed = Counter[str]()  # invisible characters
        self.lines = Counter[bool]()  # by whether a model can write them as they are
        self.lost = Counter[str]()  # characters of those that it cannot write
        self._kinds = np.zeros(0x110000, np.int8)  # of each character that has occurred so far

    def add(self, lines: TextLines, present: npt.NDArray[np.int64]) -> None:
        """present: the characters of the lines [distinct]."""
        self.lines[True] += len(lines.texts)
        new = present[self._kinds[present] == _UNKNOWN]
        self._kinds[new] = np.where(self._change(new), _CHANGES, _SAME)
        if (self._kinds[present] == _CHANGES).any():
            marked = np.flatnonzero(self._kinds[lines.codes] == _CHANGES)
            self._compare([lines.texts[i] for i in np.unique(lines.line_of(marked)).tolist()])

    def _change(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether each character may change, judged by itself: [codes]."""
        characters = list(map(chr, codes.tolist()))
        texts = [f"a{character}a" for character in characters]
        changes = [
            (character in _UNSEEN and character not in back) or (self._written and plain(text) != back)
            for character, text, back in zip(characters, texts, self._tokenizer.written(texts), strict=True)
        ]
        return np.array(changes, np.bool_)

    def _compare(self, texts: list[str]) -> None:
        for text, back in zip(texts, self._tokenizer.written(texts), strict=True):
            if self._written and _seen(text) != _seen(back):
                self.lines.update({True: -1, False: 1})
                self.lost.update(Counter(plain(text)) - Counter(back))
            else:
                self.removed.update(Counter(character for character in text if character in _UNSEEN) - Counter(back))


def _seen(text: str) -> str:
    """The text without invisible characters that have no meaning in it. A joiner between Persian letters has a meaning:
    a vocabulary that was not learned from this text may lose it."""
    kept = (
        character
        for character in text
        if character not in INVISIBLE or (character not in MEANINGLESS and is_meant(character, text))
    )
    return plain("".join(" " if character in CONTROLS else character for character in kept))
