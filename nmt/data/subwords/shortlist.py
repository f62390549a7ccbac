"""Which target subwords translate which source subword, learned from parallel text with IBM model 1 (Brown et al. 1993,
section 4.2). An engine that computes the output layer for these alone, instead of the whole vocabulary, is faster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.batches.token_store import TokenStore
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from nmt.errors import NmtError

_BEST, _FREQUENT = 100, 1_000  # target subwords of each source subword; those in every shortlist
_ITERATIONS = 5
_LONGEST = 100  # subwords of a source or a target that is learned from
_MOST, _AT_ONCE = 100_000_000, 4_000_000  # pairs of subwords: about a minute and 1.5 GB; of a chunk

Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Shortlist:
    """The target subwords of source subword i are targets[offsets[i]:offsets[i + 1]], sorted.

    EOS ends every source, so its row has the subwords that every output may contain. targets: int32 [entries];
    offsets: int32 [source subwords + 1].
    """

    offsets: Integers
    targets: Integers

    def row(self, source: int) -> Integers:
        """The ids of the target subwords of a source subword."""
        return self.targets[self.offsets[source] : self.offsets[source + 1]]

    def allowed(self, source: Sequence[int]) -> Integers:
        """The ids of all target subwords of a source, sorted."""
        return np.unique(np.concatenate([self.row(i) for i in {*source, EOS}]))

    def covered(self, pairs: TokenStore) -> tuple[float, float]:
        """The share of the target subwords that are in the shortlist of their source, and the mean size of these
        shortlists."""
        found = subwords = size = 0
        for source, target in zip(*pairs.pairs(np.arange(len(pairs))), strict=True):
            allowed = self.allowed(source.tolist())
            found, subwords = found + int(np.isin(target[:-1], allowed).sum()), subwords + len(target) - 1
            size += len(allowed)
        return found / max(1, subwords), size / max(1, len(pairs))

    def check(self, name: str, vocabulary: Vocabulary) -> None:
        """Raises NmtError if the shortlist does not belong to the vocabulary. name: of the model file, for messages."""
        ends = [0, len(self.targets)]
        fits = self.offsets.shape == (len(vocabulary.source) + 1,) and self.offsets[[0, -1]].tolist() == ends
        fits = fits and bool((self.offsets[1:] >= self.offsets[:-1]).all())  # a difference could overflow
        if not fits or (self.targets < 0).any() or (self.targets >= len(vocabulary.target)).any():
            raise NmtError(f"{name}: its shortlist does not belong to its vocabulary: not a complete nmt model file")


def learn(pairs: TokenStore, vocabulary: Vocabulary) -> Shortlist:
    """The 100 most probable target subwords of each source subword, and the same subword, which is a copied name. In
    the row of EOS, also the 1,000 most frequent ones, bytes, and single characters of ASCII. pairs: without tags, each
    sequence with EOS."""
    width = len(vocabulary.target)
    sources, targets, probabilities = _model_1(pairs, width)
    best = np.lexsort((-probabilities, sources))  # the sources are sorted already
    first = np.searchsorted(sources, np.arange(len(vocabulary.source)))  # of each source subword
    most_probable = np.arange(len(sources)) - first[sources] < _BEST
    frequent = np.argsort(-np.bincount(pairs.target.ids, minlength=width), kind="stable")[:_FREQUENT]
    pieces, are_bytes = vocabulary.target.every_piece(), vocabulary.target.are_bytes()
    letters = [piece.removeprefix("▁") for piece in pieces]
    short = [i for i, text in enumerate(letters) if are_bytes[i] or (text.isascii() and len(text) <= 1)]
    always = np.unique([*frequent, PAD, UNK, BOS, EOS, *short])
    ids = {piece: i for i, piece in enumerate(pieces)}
    copied = [(i, ids[piece]) for i, piece in enumerate(vocabulary.source.every_piece()) if piece in ids]
    rows = [sources[most_probable] * np.int64(width) + targets[best[most_probable]], EOS * width + always]
    entries = np.unique(np.concatenate([*rows, [source * width + target for source, target in copied]]))
    offsets = np.searchsorted(entries // width, np.arange(len(vocabulary.source) + 1))
    return Shortlist(offsets.astype(np.int32), (entries % width).astype(np.int32))


def _model_1(pairs: TokenStore, width: int) -> tuple[Integers, Integers, NDArray[np.float64]]:
    """The pairs of a source and a target subword that occur together, and P(target | source) of each. EOS of the source
    is the empty word. width: target subwords."""
    lengths = pairs.source.lengths, pairs.target.lengths
    chosen = np.flatnonzero((lengths[0] <= _LONGEST) & (lengths[1] <= _LONGEST) & (lengths[1] > 1))
    sizes = lengths[0][chosen].astype(np.int64) * (lengths[1][chosen] - 1)
    step = int(sizes.sum()) // _MOST + 1  # of a text with long sentences, not all pairs are used
    ends = np.flatnonzero(np.diff(sizes[::step].cumsum() // _AT_ONCE)) + 1
    parts = np.split(chosen[::step], ends) if len(chosen) else []
    types, found = np.empty(0, np.int64), list[tuple[Integers, Integers]]()
    for part in parts:  # np.unique, which hashes, takes 20 times as long
        types = np.sort(np.append(types, _products(pairs.pick(part), width)[0]))
        types = types[np.append(True, types[1:] != types[:-1])]
    for part in parts:
        keys, starts = _products(pairs.pick(part), width)
        order, indices = np.argsort(keys), np.empty(len(keys), np.int32)
        indices[order] = np.searchsorted(types, keys[order])  # in order: that uses the caches
        found.append((indices, starts))
    sources, targets, probabilities = *(part.astype(np.int32) for part in np.divmod(types, width)), np.ones(len(types))
    del types  # a quarter of a GB
    for _ in range(_ITERATIONS):
        counts = np.zeros(len(sources))
        for places, starts in found:
            weights = probabilities[places]
            weights /= np.repeat(np.add.reduceat(weights, starts), np.diff(starts, append=len(places)))
            np.add.at(counts, places, weights)
        np.divide(counts, np.bincount(sources, counts)[sources], out=probabilities)
    return sources, targets, probabilities


def _products(pairs: TokenStore, width: int) -> tuple[Integers, Integers]:
    """Each target subword, without EOS, beside each source subword of its pair, as source · width + target; and where
    the products of each target subword start."""
    source, target, lengths = pairs.source, pairs.target, pairs.target.lengths - 1
    words, in_pair = np.delete(target.ids, target.offsets[1:] - 1), np.repeat(np.arange(len(target)), lengths)
    repeats = source.lengths[in_pair]
    starts = np.append(0, repeats[:-1].cumsum(dtype=np.int64))
    positions = np.arange(repeats.sum()) + np.repeat(source.offsets[in_pair] - starts, repeats)
    return source.ids[positions].astype(np.int64) * width + np.repeat(words, repeats), starts
