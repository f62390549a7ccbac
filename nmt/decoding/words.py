"""Finding words in outputs that grow by subwords, however the words are cut: an automaton over letters.

The states of Aho and Corasick (1975), one letter at a time; what a subword does to a state is looked up in a
row over the whole vocabulary, made when a search first comes to that state.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_BOUNDARY, _OTHER = 0, 1  # symbols: what is no letter, and letters that no word has
_SPACE = "▁"  # as SentencePiece writes it


class Words:
    """Words (or phrases) to find as whole words, whatever their case; what is no letter or digit ends a word."""

    def __init__(self, words: Sequence[str], pieces: Sequence[str], eos: int):
        """pieces: the vocabulary's subwords, as text, in the order of their ids."""
        self.eos = eos
        self.symbols: dict[str, int] = {}
        patterns = [self._pattern(word) for word in words]
        self._build(patterns)
        spelled = [[self._symbol(letter) for letter in _letters(piece)] for piece in pieces]
        self.spelled = np.full((len(pieces), max(map(len, spelled), default=0)), -1)  # -1 behind a piece
        for row, symbols in zip(self.spelled, spelled, strict=True):
            row[: len(symbols)] = symbols
        self.rows: dict[int, tuple[np.ndarray, Tensor | None]] = {}
        self.start = int(self.next[0, _BOUNDARY])

    def completing(self, state: int) -> Tensor | None:
        """The tokens that would complete a word from here, [V] of bool; None: there are none."""
        return self._row(state)[1]

    def after(self, state: int, token: int) -> int:
        """The state that a token leads to."""
        return int(self._row(state)[0][token])

    def _row(self, state: int) -> tuple[np.ndarray, Tensor | None]:
        if state not in self.rows:
            states = np.full(len(self.spelled), state)
            completing = np.zeros(len(self.spelled), dtype=bool)
            for symbols in self.spelled.T:
                there = symbols >= 0
                completing |= there & self.complete[states] & (symbols == _BOUNDARY)
                states = np.where(there, self.next[states, symbols], states)
            completing[self.eos] = self.complete[state]
            self.rows[state] = states, torch.from_numpy(completing) if completing.any() else None
        return self.rows[state]

    def _pattern(self, word: str) -> list[int]:
        """A boundary and the word's symbols; several boundaries in a row are one."""
        symbols = [_BOUNDARY, *(self._symbol(letter, new=True) for letter in _letters(word))]
        kept = [symbol for i, symbol in enumerate(symbols) if symbol != _BOUNDARY or i == 0 or symbols[i - 1]]
        return kept[:-1] if kept[-1] == _BOUNDARY else kept

    def _symbol(self, letter: str, new: bool = False) -> int:
        if unicodedata.category(letter)[0] not in "LMN":
            return _BOUNDARY
        if new:
            self.symbols.setdefault(letter, len(self.symbols) + 2)
        return self.symbols.get(letter, _OTHER)

    def _build(self, patterns: Sequence[Sequence[int]]) -> None:
        """next [states, symbols], and complete [states]: at its last letter a word is there, if it ends here."""
        children: list[dict[int, int]] = [{}]
        complete, last = [False], [_OTHER]
        for pattern in patterns:
            node = 0
            for symbol in pattern:
                if symbol not in children[node]:
                    children[node][symbol] = len(children)
                    children.append({})
                    complete.append(False)
                    last.append(symbol)
                node = children[node][symbol]
            complete[node] = complete[node] or len(pattern) > 1
        self.next = np.zeros((len(children), len(self.symbols) + 2), dtype=np.int64)
        fallback = np.zeros(len(children), dtype=np.int64)
        queue = [0]
        for node in queue:  # breadth first: what a node falls back to is finished before it
            complete[node] = complete[node] or complete[fallback[node]]
            if node:
                self.next[node] = self.next[fallback[node]]
                if last[node] == _BOUNDARY:  # several boundaries in a row are one
                    self.next[node, _BOUNDARY] = node
            for symbol, child in children[node].items():
                fallback[child] = self.next[fallback[node], symbol] if node else 0
                self.next[node, symbol] = child
                queue.append(child)
        self.complete = np.array(complete)


def _letters(text: str) -> str:
    return unicodedata.normalize("NFC", text.replace(_SPACE, " ")).casefold()
