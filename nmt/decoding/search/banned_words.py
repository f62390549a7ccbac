"""Finding words in outputs that grow by subwords, whatever subwords or bytes they are written with.

The automaton of Aho and Corasick (1975) over letters. What a subword does to a state is looked up in a row over the
whole vocabulary, made when a search first comes to that state.

Letters are compared without case. Accents are letters of their own here (Unicode's NFD), so that é is found as one
character and as e with an accent behind it; full-width forms and ligatures are the letters that they stand for.
"""

import codecs
import itertools
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from nmt.decoding.search.scripts import is_unspaced

# Kinds of characters, and the symbols of those that are in none of the words.
_SEPARATOR, _SPACED, _UNSPACED, _MARK = range(4)
_ROWS_KEPT = 1000  # by state, each with a byte for every subword
# Seen by no reader: the soft hyphen, and what chooses between pictures of the same character.
_INVISIBLE = {"\u00ad", *map(chr, range(0xFE00, 0xFE10)), *map(chr, range(0xE0100, 0xE01F0))}


class Words:
    """Words (or phrases) to find as whole words, whatever their case; what is no letter or digit ends a word.

    Letters of scripts without spaces between words (see `scripts.py`) are words by themselves: a word that
    ends with such a letter is there as soon as this is written. Other words are there once something follows that does
    not go on with them: anything but letters of scripts with spaces, digits and accents.

    A state is a node of the automaton, and the bytes of a character that has begun but is not complete: as a number,
    node + nodes × those bytes. The first node is the beginning of a text; the second is where nothing of a word has
    been read and a letter of a script with spaces would go on with another word.
    """

    def __init__(self, words: Sequence[str], spellings: Sequence[bytes], eos: int):
        """spellings: what each subword writes, in the order of their ids: UTF-8, or one byte of a character."""
        self.eos, self.start = eos, 0
        self._symbol: dict[str, int] = {}  # of the letters in the words
        forms = [unicodedata.normalize(form, word) for word in words for form in ("NFC", "NFD")]
        self._build([self._pattern(word) for word in dict.fromkeys(forms)])
        self._spelled = [self._symbols(spelling.decode("utf-8", "replace")) for spelling in spellings]
        # A byte with which no character begins writes U+FFFD, a separator; one that begins a character waits.
        self._bytes = {i: one[0] for i, one in enumerate(spellings) if len(one) == 1 and one[0] >= 0x80}
        self._beginning = [token for token, byte in self._bytes.items() if 0xC2 <= byte <= 0xF4]
        for token in self._beginning:
            self._spelled[token] = []
        # By place in a subword: the tokens that have a symbol there, and these symbols.
        self._columns: list[tuple[np.ndarray, np.ndarray]] = []
        for place in range(max(map(len, self._spelled), default=0)):
            tokens = [token for token, symbols in enumerate(self._spelled) if len(symbols) > place]
            self._columns.append((np.array(tokens), np.array([self._spelled[token][place] for token in tokens])))
        self.completing = lru_cache(_ROWS_KEPT)(self._completing)

    def after(self, state: int, token: int) -> int:
        """The state that a token leads to."""
        return self._read(state, token)[0]

    def _completing(self, state: int) -> Tensor | None:
        """The tokens that would complete a word from here, [V] of bool; None: there are none.

        So would a byte that begins a character if all such characters do: nothing could follow it.
        """
        begun, node = divmod(state, len(self._complete))
        if begun:  # what does not go on with the character leaves U+FFFD in its place, a separator
            found = self.completing(int(self._next[node, _SEPARATOR]))
            completing = np.zeros(len(self._spelled), dtype=bool) if found is None else found.numpy().copy()
            completing |= self._complete[node]
            going_on = [token for token, byte in self._bytes.items() if byte < 0xC0]
        else:
            nodes = np.full(len(self._spelled), node)
            completing = np.zeros(len(self._spelled), dtype=bool)
            for tokens, symbols in self._columns:
                at = nodes[tokens]
                completing[tokens] |= self._completes[at, symbols]
                nodes[tokens] = self._next[at, symbols]
            going_on = self._beginning if self._complete[node] else []
        for token in going_on:
            completing[token] = self._read(state, token)[1]
        completing[self.eos] = self._complete[node]
        return torch.from_numpy(completing) if completing.any() else None

    def _read(self, state: int, token: int) -> tuple[int, bool]:
        """The state that a token leads to, and whether it completes a word on the way, or cannot but do so next."""
        begun, node = divmod(state, len(self._complete))
        byte = self._bytes.get(token)
        if byte is None:
            symbols, waiting = [_SEPARATOR, *self._spelled[token]] if begun else self._spelled[token], b""
        else:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            decoder.setstate((begun.to_bytes(3, "big").lstrip(b"\0"), 0))
            symbols = self._symbols(decoder.decode(bytes([byte])))
            waiting = decoder.getstate()[0]
        completed = False
        for symbol in symbols:
            completed |= bool(self._completes[node, symbol])
            node = int(self._next[node, symbol])
        if waiting and self._complete[node]:
            completed |= not _may_go_on(waiting)
        return node + len(self._complete) * int.from_bytes(waiting, "big"), completed

    def _symbols(self, text: str) -> list[int]:
        return [self._symbol.get(letter, _kind(letter)) for letter in _letters(text)]

    def _pattern(self, word: str) -> list[int]:
        """The word's symbols; several separators in a row are one, and none stands around it."""
        pattern: list[int] = []
        for letter in _letters(word):
            kind = _kind(letter)
            if kind == _SEPARATOR:
                pattern += [_SEPARATOR] * (pattern[-1:] not in ([], [_SEPARATOR]))
            elif pattern or kind != _MARK:  # an accent on nothing is none
                pattern.append(self._symbol.setdefault(letter, len(self._symbol) + _MARK + 1))
        return pattern[:-1] if pattern[-1:] == [_SEPARATOR] else pattern

    def _build(self, patterns: Iterable[Sequence[int]]) -> None:
        """By node and symbol: `next`, the node that it leads to, and `completes`, whether a word is there then.
        By node: `complete`, whether a word is there, should the next letter not go on with it."""
        kinds = [_SEPARATOR, _SPACED, _UNSPACED, _MARK, *map(_kind, self._symbol)]
        children: list[dict[int, int]] = [{}, {}]
        last, spaced, word = [_SEPARATOR, _SPACED], [False, True], [False, False]
        for pattern in filter(None, patterns):
            node = 0
            for symbol in pattern:
                if symbol not in children[node]:
                    children[node][symbol] = len(children)
                    children.append({})
                    last.append(symbol)
                    spaced.append(spaced[node] if kinds[symbol] == _MARK else kinds[symbol] == _SPACED)
                    word.append(False)
                node = children[node][symbol]
            word[node] = True
        self._next = np.zeros((len(children), len(kinds)), dtype=np.int64)
        # Where nothing of a word has been read: behind a letter of a script with spaces, such letters begin no word.
        for symbol, kind in enumerate(kinds):
            self._next[0, symbol] = children[0].get(symbol, int(kind == _SPACED))
            self._next[1, symbol] = 1 if kind in (_SPACED, _MARK) else self._next[0, symbol]
        fallback = np.zeros(len(children), dtype=np.int64)
        queue = list(children[0].values())
        fallback[queue] = [int(spaced[node]) for node in queue]
        for node in queue:  # breadth first: what a node falls back to is finished before it
            word[node] = word[node] or word[fallback[node]]
            self._next[node] = self._next[fallback[node]]
            if last[node] == _SEPARATOR:  # several in a row are one
                self._next[node, _SEPARATOR] = node
            for symbol, child in children[node].items():
                fallback[child] = self._next[fallback[node], symbol]
                self._next[node, symbol] = child
                queue.append(child)
        goes_on = np.isin(kinds, (_SPACED, _MARK))
        self._complete = np.array(word) & np.array(spaced)
        self._completes = self._complete[:, None] & ~goes_on | (np.array(word) & ~self._complete)[self._next]


def _letters(text: str) -> str:
    """A text in the form in which letters are compared; each character by itself, as subwords part them anywhere."""
    return "".join(map(_folded, text))


def _folded(character: str) -> str:
    if character in _INVISIBLE:
        return ""
    category, form = unicodedata.category(character), character
    if category[0] == "L" or category == "Nd":  # not ™, which is no part of a word
        form = unicodedata.normalize("NFKC", character)
        if form[0] == " ":
            form = character
    if is_unspaced(form[0]):
        return form
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", form).casefold())


def _kind(letter: str) -> int:
    if is_unspaced(letter):
        return _UNSPACED
    category = unicodedata.category(letter)[0]
    return _MARK if category == "M" else _SPACED if category in "LN" else _SEPARATOR


@lru_cache(10_000)
def _may_go_on(begun: bytes) -> bool:
    """Whether a character that begins with these bytes may go on with a word before it."""
    missing = (2 if begun[0] < 0xE0 else 3 if begun[0] < 0xF0 else 4) - len(begun)
    if missing > 2:
        return True  # of so many characters some do
    for rest in itertools.product(range(0x80, 0xC0), repeat=missing):
        character = (begun + bytes(rest)).decode("utf-8", "ignore")
        if character and (character in _INVISIBLE or _kind(_folded(character)[0]) in (_SPACED, _MARK)):
            return True
    return False
