"""Encode lines word by word. The subwords of each word are cached, because text repeats words.

No subword of our vocabularies contains a space except at its beginning. So the words of a line can be encoded one by
one with the same result.
"""

from itertools import chain

import numpy as np
import numpy.typing as npt

from nmt.data.batches.token_store import FlatSequences
from nmt.data.subwords.vocabulary import EOS, Tokenizer
from nmt.errors import NmtError

_MOST_CHARACTERS = 2**22  # of the cached words: about 60 MB
_SPACE = "\u2581"  # how SentencePiece writes a space
END = "\n"  # stands for the end of a line between the words of lines


class WordEncoder:
    """Gives the same subwords as `tokenizer.encode`. It is faster for many lines."""

    def __init__(self, tokenizer: Tokenizer, most_characters: int = _MOST_CHARACTERS) -> None:
        """most_characters: if the cached words have more characters, the cache is cleared."""
        self.tokenizer, self.most_characters = tokenizer, most_characters
        self._by_word = separates_words(tokenizer)
        self._known = _Words()
        self._words = self._only_end()  # the subwords of each cached word

    def encode(self, lines: list[str]) -> FlatSequences:
        """Each line's subword ids. Raises NmtError for a line that is not Unicode text."""
        if self._by_word and (split := words_of(lines)) is not None:
            try:
                return self._by_words(split)
            except NmtError:
                self._forget()  # SentencePiece names the line
        return FlatSequences.from_lists(self.tokenizer.encode(lines), len(self.tokenizer))

    def _by_words(self, split: list[str]) -> FlatSequences:
        if self._known.characters > self.most_characters:
            self._forget()
        words = np.fromiter(map(self._known.__getitem__, split), np.int64, len(split))
        self._encode_new()
        return joined_words(self._words.pick(words), words == _Words.END)

    def _encode_new(self) -> None:
        """Encode the words that have an index but no subwords yet."""
        if new := self._known.new:
            ids = self.tokenizer.encode(new)
            encoded = FlatSequences.from_lists(ids, len(self.tokenizer), end=False)
            self._words = FlatSequences.joined([self._words, encoded])
            self._known.new = []

    def _forget(self) -> None:
        self._known, self._words = _Words(), self._only_end()

    def _only_end(self) -> FlatSequences:
        return FlatSequences.from_lists([[EOS]], len(self.tokenizer), end=False)


class _Words(dict[str, int]):
    """The index of each word. A new word gets the next index."""

    END = 0  # of END

    def __init__(self) -> None:
        super().__init__({END: self.END})
        self.new: list[str] = []  # words that are not encoded yet
        self.characters = 0  # of all words

    def __missing__(self, word: str) -> int:
        self[word] = index = len(self)
        self.new.append(word)
        self.characters += len(word)
        return index


def words_of(lines: list[str]) -> list[str] | None:
    """The words of all lines, with END after each line; None if the characters of a line do not allow this."""
    text = f" {END} ".join([*lines, ""])
    # With some normalizations the character ▁ in a text becomes a space, also at the end of a word.
    return text.split(" ") if _SPACE not in text and text.count(END) == len(lines) else None


def joined_words(words: FlatSequences, ends: npt.NDArray[np.bool_]) -> FlatSequences:
    """Join the subwords of words to lines. ends: whether each word is the end of a line [words]."""
    offsets = words.offsets[1:][ends]
    return FlatSequences(words.ids, np.append(np.int64(0), offsets), np.diff(offsets, prepend=0).astype(np.int32))


def separates_words(tokenizer: Tokenizer) -> bool:
    """Whether the subwords of a line are the subwords of its words: each word begins with its own space, and no subword
    has a space elsewhere."""
    if tokenizer.punctuation or any(_SPACE in piece[1:] for piece in tokenizer.every_piece()):
        return False
    line, *words = tokenizer.encode([" a  b ", "a", "b"])
    return line == list(chain.from_iterable(words)) and all(tokenizer.pieces(ids[:1])[0][0] == _SPACE for ids in words)
