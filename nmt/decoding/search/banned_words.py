"""Finds banned words in outputs while they grow by subwords, for every segmentation into subwords or bytes.

Letters are compared without case. Accents are separate letters (Unicode's NFD), so that é is found both as one
character and as e followed by an accent. Full-width forms and ligatures equal the letters that they stand for.
"""

import codecs
import itertools
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from nmt.config.unspaced_scripts import is_unspaced
from nmt.data.subwords.vocabulary import EOS, Tokenizer
from nmt.decoding import unwritable
from nmt.decoding.search.automaton import Automaton

# The kinds of letters. They are also the symbols of letters that are not in the words.
_SEPARATOR, _SPACED, _UNSPACED, _MARK = range(4)
_ROWS_KEPT = 1000  # cached results of `completing`; each has a byte for every subword
# Invisible characters: the soft hyphen, and variation selectors.
_INVISIBLE = {"\u00ad", *map(chr, range(0xFE00, 0xFE10)), *map(chr, range(0xE0100, 0xE01F0))}


class BannedWords:
    """Finds words (or phrases) as complete words, in any case; any character but a letter or digit ends a word.

    Letters of scripts without spaces between words (see `unspaced_scripts.py`) are words by themselves: a word that
    ends with such a letter is complete at once. Any other word is complete if the next letter does not continue it,
    that is, if it is not an accent, a digit, or a letter of a script with spaces.

    The automaton reads the symbols of letters, and a boundary wherever a word may begin or end. A state is a number:
    node + nodes × the bytes (as a number) of an incomplete character at the end. The last node is node 0 of the
    automaton after a letter that a letter of a script with spaces would continue.
    """

    def __init__(self, words: Sequence[str], spellings: Sequence[bytes], eos: int):
        """spellings: the text of each subword, in the order of the ids: UTF-8, or one byte of a character."""
        self.eos, self.start = eos, 0
        self._symbol: dict[str, int] = {}  # of each letter in the words
        forms = dict[str, None]()  # without duplicates
        for word in words:
            forms |= {unicodedata.normalize("NFC", word): None, unicodedata.normalize("NFD", word): None}
        self._build([self._pattern(form) for form in forms])
        self._spelled = [self._symbols(spelling.decode("utf-8", "replace")) for spelling in spellings]
        # A byte that cannot begin a character writes U+FFFD, a separator. A byte that begins one writes nothing yet.
        single_bytes = ((i, spelling[0]) for i, spelling in enumerate(spellings) if len(spelling) == 1)
        self._bytes = {i: byte for i, byte in single_bytes if byte >= 0x80}
        self._first_bytes = [token for token, byte in self._bytes.items() if 0xC2 <= byte <= 0xF4]
        for token in self._first_bytes:
            self._spelled[token] = []
        # For each position in a subword: the tokens that have a symbol at it, and these symbols.
        self._columns: list[tuple[np.ndarray, np.ndarray]] = []
        for i in range(max(map(len, self._spelled), default=0)):
            tokens = [token for token, symbols in enumerate(self._spelled) if len(symbols) > i]
            self._columns.append((np.array(tokens), np.array([self._spelled[token][i] for token in tokens])))
        self.completing = lru_cache(_ROWS_KEPT)(self._completing)

    def after(self, state: int, token: int) -> int:
        """The state after one more token."""
        return self._read(state, token)[0]

    def are_in(self, tokens: Sequence[int]) -> bool:
        """Whether tokens, as a text of their own, have such a word."""
        state = self.start
        for token in (*tokens, self.eos):
            completing = self.completing(state)
            if completing is not None and completing[token]:
                return True
            state = self.after(state, token)
        return False

    def _completing(self, state: int) -> Tensor | None:
        """The tokens that would complete a word after this state, [V] of bool; None if there are none.

        A byte that begins a character is one of them if all characters that begin with it would complete a word.
        """
        incomplete, node = divmod(state, len(self._complete))
        completing = np.zeros(len(self._spelled), dtype=bool)
        if incomplete:  # a token that does not continue the character turns it into U+FFFD, a separator
            after_separator = self.completing(int(self._next[node, _SEPARATOR]))
            if after_separator is not None:
                completing |= after_separator.numpy()
            completing |= self._complete[node]
            byte_tokens = [token for token, byte in self._bytes.items() if byte < 0xC0]
        else:
            nodes = np.full(len(self._spelled), node)
            for tokens, symbols in self._columns:
                old_nodes = nodes[tokens]
                completing[tokens] |= self._completes[old_nodes, symbols]
                nodes[tokens] = self._next[old_nodes, symbols]
            byte_tokens = self._first_bytes if self._complete[node] else []
        for token in byte_tokens:
            completing[token] = self._read(state, token)[1]
        completing[self.eos] = self._complete[node]
        return torch.from_numpy(completing) if completing.any() else None

    def _read(self, state: int, token: int) -> tuple[int, bool]:
        """The state after a token, and whether the token completes a word, or every token after it would."""
        incomplete, node = divmod(state, len(self._complete))
        byte = self._bytes.get(token)
        if byte is None:
            symbols, pending = [_SEPARATOR, *self._spelled[token]] if incomplete else self._spelled[token], b""
        else:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            decoder.setstate((incomplete.to_bytes(3, "big").lstrip(b"\0"), 0))
            symbols = self._symbols(decoder.decode(bytes([byte])))
            pending = decoder.getstate()[0]
        completed = False
        for symbol in symbols:
            completed |= bool(self._completes[node, symbol])
            node = int(self._next[node, symbol])
        if pending and self._complete[node]:
            completed |= not _may_continue_word(pending)
        return node + len(self._complete) * int.from_bytes(pending, "big"), completed

    def _symbols(self, text: str) -> list[int]:
        return [self._symbol.get(letter, _kind(letter)) for letter in _letters(text)]

    def _pattern(self, word: str) -> list[int]:
        """The word's symbols. Successive separators become one; those around the word are left out."""
        pattern: list[int] = []
        for letter in _letters(word):
            kind = _kind(letter)
            if kind == _SEPARATOR:
                if pattern and pattern[-1] != _SEPARATOR:
                    pattern.append(_SEPARATOR)
            elif pattern or kind != _MARK:  # a word does not begin with an accent
                pattern.append(self._symbol.setdefault(letter, len(self._symbol) + _MARK + 1))
        return pattern[:-1] if pattern[-1:] == [_SEPARATOR] else pattern

    def _build(self, patterns: Sequence[Sequence[int]]) -> None:
        """Build the tables. By node and symbol: `_next`, the node after the symbol, and `_completes`, whether the
        symbol completes a word. By node: `_complete`, whether a word is complete unless the next letter continues
        it."""
        kinds = np.array([_SEPARATOR, _SPACED, _UNSPACED, _MARK, *map(_kind, self._symbol)])
        symbols, boundary = np.arange(len(kinds)), len(kinds)
        automaton = Automaton(_with_boundaries(pattern, kinds, boundary) for pattern in patterns if pattern)
        count = len(automaton.next)
        is_end = np.zeros(count, dtype=bool)  # whether a pattern ends at a node
        is_end[[path[-1] for path in automaton.paths]] = True
        table = np.zeros((count, boundary + 1), dtype=np.int64)
        for node, following in enumerate(automaton.next):
            table[node, list(following)] = list(following.values())
        for node, suffix in automaton.suffixes:
            is_end[node] |= is_end[suffix]

        # Whether a letter of a script with spaces, or an accent, would continue the word that a node is in.
        in_word = np.zeros(count + 1, dtype=bool)
        in_word[table[:, symbols[kinds == _SPACED]]] = True
        for node in range(1, count):
            in_word[table[node, symbols[kinds == _MARK]]] |= in_word[node]
        in_word[0], in_word[count] = False, True
        continues = in_word[:, None] & np.isin(kinds, (_SPACED, _MARK))

        nodes = np.append(np.arange(count), 0)
        bounded = table[nodes, boundary]  # the node after a boundary
        reached = table[np.where(continues, nodes[:, None], bounded[:, None]), symbols]
        self._complete = is_end[bounded]
        self._completes = self._complete[:, None] & ~continues | is_end[reached]
        into_word = continues | (kinds == _SPACED)
        self._next = np.where((reached == 0) & into_word, count, reached)
        separators = np.setdiff1d(table[:, _SEPARATOR], [0])
        self._next[separators, _SEPARATOR] = separators  # successive separators count as one


def banned_words(target: Tokenizer, words: tuple[str, ...]) -> BannedWords | None:
    """What finds the words of decoding.banned in outputs; None if there are none. A warning names those that the target
    vocabulary changes."""
    if not words:
        return None
    unwritable.warn("decoding.banned", words, target)
    return BannedWords(words, target.spellings, EOS)


def _with_boundaries(pattern: Sequence[int], kinds: np.ndarray, boundary: int) -> list[int]:
    """The pattern with a boundary before each symbol that does not continue a word, and after a word at the end."""
    bounded: list[int] = []
    in_word = False
    for symbol in pattern:
        kind = kinds[symbol]
        if not (in_word and kind in (_SPACED, _MARK)):
            bounded.append(boundary)
        bounded.append(symbol)
        in_word = kind == _SPACED or (in_word and kind == _MARK)
    return [*bounded, boundary] if in_word else bounded


def _letters(text: str) -> str:
    """The text in the form in which letters are compared. It is converted character by character, because a subword may
    end anywhere."""
    return "".join(map(_folded, text))


def _folded(character: str) -> str:
    if character in _INVISIBLE:
        return ""
    category, form = unicodedata.category(character), character
    if category[0] == "L" or category == "Nd":  # but not ™, which is not part of a word
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
def _may_continue_word(first_bytes: bytes) -> bool:
    """Whether some character that begins with these bytes continues the word before it."""
    missing = (2 if first_bytes[0] < 0xE0 else 3 if first_bytes[0] < 0xF0 else 4) - len(first_bytes)
    if missing > 2:
        return True  # of so many characters, some do
    for rest in itertools.product(range(0x80, 0xC0), repeat=missing):
        character = (first_bytes + bytes(rest)).decode("utf-8", "ignore")
        if character and (character in _INVISIBLE or _kind(_folded(character)[0]) in (_SPACED, _MARK)):
            return True
    return False
