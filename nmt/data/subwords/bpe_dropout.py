"""BPE-dropout (Provilkov, Emelianenko and Voita 2020, "BPE-Dropout: Simple and Effective Subword Regularization"): some
merges in each word are left out at random, so that a model sees the same word cut in many ways.

Byte-pair encoding begins with characters. In each step it merges the two neighbours whose subword was learned first.
With dropout, each possible merge is left out of a step with probability p, and the first remaining merge is done
(section 3, algorithm 1). A merge that was left out is possible again in the next step. A word is complete when a step
has no merges left.

So merges are considered one by one: each is left out, or it is done and the next step begins. The segmentation of a
word follows from the indices, in this order, of the merges that are left out. All segmentations form a tree: the root
leaves out no merge, and a child leaves out one more than its parent, after the others. Each step down the tree takes
one random number: how many merges are done before the next one is left out, which has a geometric distribution. Nodes
are cached, because text repeats words. Without the cache Python would be slow.

SentencePiece has BPE-dropout too. But there a merge that was left out never becomes possible again, so words are cut
into more pieces than in the paper. And since version 0.2.2 its random choices differ between processes, whatever the
seed.
"""

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from nmt.data.batches.token_store import FlatSequences
from nmt.data.subwords.vocabulary import EOS, UNK, Tokenizer
from nmt.data.subwords.word_encoding import END, joined_words, separates_words, words_of
from nmt.errors import NmtError

Indices = npt.NDArray[np.int64]

_MOST_NODES = 2**18  # cached nodes: about 100 MB
_MERGE_BITS = 24  # bits of a merge's index in the key of a node
_NONE = -np.inf  # the score of neighbours that are not merged
_CHECKED = 500  # subwords


class DropoutEncoder:
    """Cuts words into subwords at random. Raises NmtError if the vocabulary is not of byte-pair encoding."""

    def __init__(self, tokenizer: Tokenizer, dropout: float, most_nodes: int = _MOST_NODES) -> None:
        """dropout: p, with 0 ≤ p < 1. most_nodes: if the trees have more nodes, all are deleted."""
        self._tokenizer, self._dropout, self._most_nodes = tokenizer, dropout, most_nodes
        self._merges = Merges(tokenizer)
        if not self._merges:
            raise NmtError(
                f"vocabulary.bpe_dropout: {dropout:g}: the {len(tokenizer)} subwords of the vocabulary are single "
                "characters, and no merge can be left out: raise vocabulary.size, or give another model"
            )
        if not self._merges.suit(tokenizer):
            raise NmtError(
                f"vocabulary.bpe_dropout: {dropout:g}: the SentencePiece model does not use BPE: set it to "
                "0, or train the model with model_type=bpe"
            )
        self._by_word = separates_words(tokenizer)
        self._trees = _Trees(tokenizer, self._merges)

    def encode(self, lines: list[str], random: np.random.Generator) -> FlatSequences:
        """Return the subword ids of each line. They follow from the lines and the random numbers. Raises NmtError for a
        line that is not Unicode text."""
        words = words_of(lines) if self._by_word else None
        if words is None:
            words = list(chain.from_iterable(map(self._parts, lines)))
        if len(self._trees) > self._most_nodes:
            self._trees = _Trees(self._tokenizer, self._merges)
        nodes = self._trees.roots(words)
        ends = nodes == _Trees.END
        active = np.flatnonzero(self._trees.merges[nodes])  # the words of which another merge may be left out
        following = np.zeros(len(active), np.int64)  # the first of these merges
        while len(active):
            merges = following + self._done(random.random(len(active)))
            has_merge = merges < self._trees.merges[nodes[active]]
            active, merges = active[has_merge], merges[has_merge]
            nodes[active] = self._trees.children(nodes[active], merges)
            following = merges + 1
        return joined_words(self._trees.ids.pick(nodes), ends)

    def _parts(self, line: str) -> list[str]:
        """The words of a line, or the whole line if it cannot be split, and END. (Lines have no line feeds.)"""
        words = words_of([line]) if self._by_word else None
        return [line.replace(END, " "), END] if words is None else words[:-1]

    def _done(self, uniform: npt.NDArray[np.float64]) -> Indices:
        """Return how many merges are done before one is left out [n]: at least j with probability (1 - p)^j.
        uniform: random numbers from 0 to 1 [n]."""
        most = int(self._trees.merges.max()) + 1
        powers = np.full(most, 1 - self._dropout).cumprod()  # products are the same on every machine; powers are not
        return most - np.searchsorted(powers[::-1], uniform, side="right")


class _Trees:
    """The segmentations of words. Nodes are numbered from 0. The merges of a node are all that it considers, done or
    not."""

    END = 0  # the node of the end of a line

    def __init__(self, tokenizer: Tokenizer, merges: "Merges") -> None:
        self._tokenizer, self._merges = tokenizer, merges
        self._roots, self._children = {END: self.END}, dict[int, int]()
        self._nodes: list[tuple[str, tuple[int, ...]]] = [("", ())]  # the normalized word, the merges left out
        self.merges: Indices = np.zeros(1, np.int64)  # the number of merges in each node [nodes]
        self.ids = FlatSequences.from_lists([[EOS]], len(tokenizer), end=False)

    def __len__(self) -> int:
        return len(self._nodes)

    def roots(self, words: list[str]) -> Indices:
        """The root of each word [words]."""
        if new := [word for word in dict.fromkeys(words) if word not in self._roots]:
            ids, normal = self._tokenizer.encode(new), self._tokenizer.normalize(new)
            cut = [self._merges.apply(word) for word in normal]
            # If SentencePiece cuts a word differently, as with user-defined symbols, no merge of it is left out.
            cut = [
                (expected, merges if expected == merged else 0)
                for expected, (merged, merges) in zip(ids, cut, strict=True)
            ]
            self._roots.update(zip(new, range(len(self), len(self) + len(new)), strict=True))
            self._add([(word, ()) for word in normal], cut)
        return np.fromiter(map(self._roots.__getitem__, words), np.int64, len(words))

    def children(self, nodes: Indices, merges: Indices) -> Indices:
        """The child of each node in which this merge is left out too [n]."""
        keys, positions = np.unique(nodes << _MERGE_BITS | merges, return_inverse=True)
        if new := [key for key in keys.tolist() if key not in self._children]:
            self._children.update(zip(new, range(len(self), len(self) + len(new)), strict=True))
            parents = [(self._nodes[key >> _MERGE_BITS], key & (1 << _MERGE_BITS) - 1) for key in new]
            added = [(word, (*left_out, merge)) for (word, left_out), merge in parents]
            self._add(added, [self._merges.apply(word, left_out) for word, left_out in added])
        return np.fromiter(map(self._children.__getitem__, keys.tolist()), np.int64, len(keys))[positions]

    def _add(self, nodes: list[tuple[str, tuple[int, ...]]], cut: list[tuple[list[int], int]]) -> None:
        self._nodes += nodes
        self.merges = np.append(self.merges, [merges for _, merges in cut])
        new = FlatSequences.from_lists([ids for ids, _ in cut], len(self._tokenizer), end=False)
        self.ids = FlatSequences.joined([self.ids, new])


class Merges:
    """The merges of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        pieces, scores = tokenizer.every_piece(), tokenizer.scores()
        are_text, are_bytes = tokenizer.are_text(), tokenizer.are_bytes()
        self._ids = {piece: i for i, piece in enumerate(pieces) if are_text[i]}
        self._scores = {piece: scores[i] for piece, i in self._ids.items()}
        self._bytes = {piece: i for i, piece in enumerate(pieces) if are_bytes[i]}

    def __len__(self) -> int:
        return sum(len(piece) > 1 for piece in self._ids)

    def apply(self, text: str, left_out: Sequence[int] = ()) -> tuple[list[int], int]:
        """Return the ids of a normalized text, and how many merges were considered. left_out: the indices of merges."""
        symbols, considered = list(text), 0
        scores = [self._score(*pair) for pair in pairwise(symbols)]
        skipped: dict[int, float] = {}  # the scores of the merges that are left out of this step, by position
        while scores and (best := max(scores)) > _NONE:
            i = scores.index(best)
            if considered in left_out:
                skipped[i], scores[i] = best, _NONE
            else:
                while skipped:
                    j, score = skipped.popitem()
                    scores[j] = score
                symbols[i] += symbols.pop(i + 1)
                del scores[i]
                for j in (i - 1, i):
                    if 0 <= j < len(scores):
                        scores[j] = self._score(symbols[j], symbols[j + 1])
            considered += 1
        return self._ids_of(symbols), considered

    def suit(self, tokenizer: Tokenizer) -> bool:
        """Whether the merges give the same ids as the tokenizer for most of its subwords."""
        long, short = ([piece for piece in self._ids if len(piece) >= length] for length in (3, 2))
        words = [piece.removeprefix("▁") for piece in long or short][:_CHECKED]
        merged = [self.apply(word)[0] for word in tokenizer.normalize(words)]
        return 2 * sum(map(list.__eq__, merged, tokenizer.encode(words))) >= max(1, len(words))

    def _score(self, left: str, right: str) -> float:
        return self._scores.get(left + right, _NONE)

    def _ids_of(self, symbols: list[str]) -> list[int]:
        ids: list[int] = []
        for symbol in symbols:
            if (piece_id := self._ids.get(symbol)) is not None:
                ids.append(piece_id)
            elif self._bytes:
                ids += (self._bytes[f"<0x{byte:02X}>"] for byte in symbol.encode())
            elif ids[-1:] != [UNK]:  # SentencePiece writes several unknown characters as one subword
                ids.append(UNK)
        return ids
