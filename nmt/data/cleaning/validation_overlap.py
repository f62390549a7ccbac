"""Overlap of validation text and training text. A model that was trained on its validation text has too good scores
there, and the wrong checkpoint is chosen as the best."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nmt.config import schema
from nmt.config.language_pairs import LanguagePair
from nmt.data.cleaning.rules.examples import shortened
from nmt.data.cleaning.rules.near_duplicates import folded_texts
from nmt.data.sources.corpus import Pair
from nmt.errors import NmtError
from nmt.files import atomic

MOST = 10  # examples of each kind
# More overlap than this is not due to chance. Short sentences, such as greetings, occur in all text of some kinds, and
# in a validation set of 20 pairs a single pair is 5%.
_CHANCE_SHARE, _CHANCE_PAIRS = 0.01, 10


Direction = Literal["same", "opposite"]


class OverlappingPair(NamedTuple):
    """A validation pair whose source is in the training text too."""

    source: str
    target: str
    trained: str  # its first target in the training text
    corpus: int  # the index of the first training corpus that has it


@dataclass(frozen=True)
class Overlap:
    """The overlap of one validation set with the training text, after data.clean and before pairs are dropped for their
    length. Texts are the same if their `folded_texts` are equal. Text of the opposite direction is compared with its
    sides exchanged."""

    total: int  # pairs of the validation set
    pairs: int  # validation pairs that are training pairs too
    sources: int  # other validation pairs whose source is in the training text, with another target
    by_corpus: tuple[tuple[int, int], ...]  # in each training corpus: how many of these pairs, and of their sources
    pair_examples: tuple[OverlappingPair, ...]  # the first training pairs
    source_examples: tuple[OverlappingPair, ...]  # the first pairs that have another target in training
    folded: int = 0  # of `pairs`: those that differ in case, accents, punctuation or white space

    @property
    def too_many_pairs(self) -> bool:
        """Whether more pairs are in both than chance explains."""
        return self._too_many(self.pairs)

    @property
    def too_many_sources(self) -> bool:
        """Whether more sources are in both than chance explains."""
        return self._too_many(self.sources)

    def _too_many(self, count: int) -> bool:
        return count > max(_CHANCE_PAIRS, _CHANCE_SHARE * self.total)


class OverlapSearch:
    """Looks for validation text in training text, chunk by chunk."""

    def __init__(self, held_out: Sequence[Sequence[Pair]], compared: Sequence[Sequence[Direction | None]]) -> None:
        """held_out: the pairs of each validation set. compared: for each validation set, how each training corpus is
        compared with it; see the function `compared`."""
        self._held_out, self._compared = held_out, compared
        sides = ([folded_texts([pair[side] for pair in pairs]) for side in (0, 1)] for pairs in held_out)
        self._keys = [list(zip(*texts, strict=True)) for texts in sides]
        self._sources = [{source for source, _ in keys} for keys in self._keys]
        self._pairs = [set(keys) for keys in self._keys]
        self._texts = [set(pairs) for pairs in held_out]
        # By validation set and training corpus: the common pairs and the common sources.
        self._in_corpora = [[(set[Pair](), set[str]()) for _ in corpora] for corpora in compared]
        # By common pair, and by common source: the target of the first training pair that has it, and its corpus.
        self._first_pairs: list[dict[Pair, tuple[str, int]]] = [{} for _ in held_out]
        self._first_sources: list[dict[str, tuple[str, int]]] = [{} for _ in held_out]
        self._exact_pairs = [set[Pair]() for _ in held_out]

    def add(self, corpus: int, pairs: Sequence[Pair]) -> None:
        """Compare training pairs with all validation sets. corpus: the index of the training corpus."""
        source_keys: dict[Direction, list[str]] = {}
        for i, sources in enumerate(self._sources):
            direction = self._compared[i][corpus]
            if direction is None:
                continue
            turned = [(target, source) for source, target in pairs] if direction == "opposite" else pairs
            if direction not in source_keys:
                source_keys[direction] = folded_texts([source for source, _ in turned])
            with_source = [
                (pair, key) for pair, key in zip(turned, source_keys[direction], strict=True) if key in sources
            ]
            targets = folded_texts([target for (_, target), _ in with_source])
            for (pair, source), target in zip(with_source, targets, strict=True):
                self._add(i, corpus, pair, (source, target))

    def _add(self, index: int, corpus: int, pair: Pair, key: Pair) -> None:
        """Add a training pair whose source is in a validation set. index: of the validation set. key: the folded texts
        of the pair."""
        common_pairs, common_sources = self._in_corpora[index][corpus]
        common_sources.add(key[0])
        self._first_sources[index].setdefault(key[0], (pair[1], corpus))
        if key in self._pairs[index]:
            common_pairs.add(key)
            self._first_pairs[index].setdefault(key, (pair[1], corpus))
        if pair in self._texts[index]:
            self._exact_pairs[index].add(pair)

    def overlaps(self) -> list[Overlap]:
        """The overlap of each validation set."""
        return list(map(self._overlap, range(len(self._held_out))))

    def _overlap(self, index: int) -> Overlap:
        first_pairs, first_sources = self._first_pairs[index], self._first_sources[index]
        held_out = list(zip(self._held_out[index], self._keys[index], strict=True))
        pairs = {pair: key for pair, key in held_out if key in first_pairs}
        # The training text has these sources with another target.
        others = {pair: key for pair, key in held_out if key not in first_pairs and key[0] in first_sources}
        by_corpus = []
        for common_pairs, common_sources in self._in_corpora[index]:
            pair_count = sum(key in common_pairs for _, key in held_out)
            by_corpus.append((pair_count, sum(key[0] in common_sources for _, key in held_out)))
        return Overlap(
            total=len(held_out),
            pairs=sum(pair in pairs for pair, _ in held_out),
            sources=sum(pair in others for pair, _ in held_out),
            by_corpus=tuple(by_corpus),
            pair_examples=tuple(_common(pair, *first_pairs[key]) for pair, key in islice(pairs.items(), MOST)),
            source_examples=tuple(_common(pair, *first_sources[key[0]]) for pair, key in islice(others.items(), MOST)),
            folded=sum(pair in pairs and pair not in self._exact_pairs[index] for pair, _ in held_out),
        )


def _common(pair: Pair, trained: str, corpus: int) -> OverlappingPair:
    return OverlappingPair(shortened(pair[0]), shortened(pair[1]), shortened(trained), corpus)


def compared(data: schema.DataConfig) -> list[list[Direction | None]]:
    """For each validation set, how each training corpus is compared with it; None: not at all. A corpus of the opposite
    direction is compared, because a model of both directions has seen these sentences. A corpus of other languages is
    not: it has another target for the same source."""
    return [[_direction(data.pair_of(held), data.pair_of(corpus)) for corpus in data.train] for held in data.held_out]


def _direction(held_out: LanguagePair, trained: LanguagePair) -> Direction | None:
    if held_out == trained:
        return "same"
    return "opposite" if held_out == LanguagePair(trained.target, trained.source) else None


def check(overlaps: Sequence[Overlap], data: schema.DataConfig) -> None:
    """Raise NmtError if too many pairs of a validation set are training pairs, unless the settings allow it."""
    for overlap, corpus in zip(overlaps, data.held_out, strict=True):
        if overlap.too_many_pairs and {"error": True, "warn": False}[data.validation_in_training]:
            raise NmtError(
                f"{_common_pairs(overlap, corpus, data)}: scores on them tell nothing about other text: remove them "
                "from data.train, or set data.validation_in_training: warn"
            )


def problems(overlaps: Sequence[Overlap], data: schema.DataConfig) -> Iterator[str]:
    """Yield the texts of warnings."""
    for overlap, corpus in zip(overlaps, data.held_out, strict=True):
        if overlap.pairs:
            yield f"{_common_pairs(overlap, corpus, data)}: scores on them tell nothing about other text"
        if overlap.too_many_sources:
            yield (
                f"data.validation, {corpus.label}: {overlap.sources:,} of {overlap.total:,} sources "
                f"({overlap.sources / overlap.total:.1%}) are in data.train too, with another target"
            )


def _common_pairs(overlap: Overlap, held_out: schema.Corpus, data: schema.DataConfig) -> str:
    most = max(range(len(data.train)), key=lambda corpus: overlap.by_corpus[corpus][0])
    where = f", most of them in {data.train[most].label}" if len(data.train) > 1 else ""
    folded = ""
    if overlap.folded:
        folded = f" ({overlap.folded:,} of them differ only in case, accents, punctuation or spaces)"
    return (
        f"data.validation, {held_out.label}: {overlap.pairs:,} of {overlap.total:,} pairs "
        f"({overlap.pairs / overlap.total:.1%}) are training pairs too{folded}{where}"
    )


def write(path: Path, overlaps: Sequence[Overlap]) -> None:
    """Write overlaps to a file. Raises OSError if that is not possible."""
    atomic.write_text(path, json.dumps([asdict(overlap) for overlap in overlaps], indent=1) + "\n")


def read(path: Path, sets: int) -> tuple[Overlap, ...]:
    """Read what `write` wrote for `sets` validation sets. Raises NmtError if the file is damaged or missing."""
    try:
        overlaps = tuple(_from_json(row) for row in json.loads(path.read_text(encoding="utf-8")))
        if len(overlaps) != sets:
            raise ValueError(f"{len(overlaps)} validation sets, not {sets}")
        return overlaps
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NmtError(f"{path}: damaged ({error}): delete the file to make it again") from error


def _from_json(row: dict[str, Any]) -> Overlap:
    examples = {
        name: tuple(OverlappingPair(*common) for common in row[name]) for name in ("pair_examples", "source_examples")
    }
    counts = tuple((pairs, sources) for pairs, sources in row["by_corpus"])
    return Overlap(**{**row, **examples, "by_corpus": counts})
