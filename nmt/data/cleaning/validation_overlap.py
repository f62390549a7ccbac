"""What validation text and training text have in common: a model that was trained on its validation text scores too
well there, and the best checkpoint is not the best one."""

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
# Where more is in common, it is no chance: short sentences, such as greetings, are in all text of some kinds, and in a
# validation set of 20 pairs a single one is 5%.
_CHANCE_SHARE, _CHANCE_PAIRS = 0.01, 10


Direction = Literal["same", "opposite"]


class OverlappingPair(NamedTuple):
    """A validation pair whose source is in the training text too."""

    source: str
    target: str
    trained: str  # the target there, or the first one
    corpus: int  # the number of the first training corpus that has it


@dataclass(frozen=True)
class Overlap:
    """What one validation set has in common with the training text, after data.clean and before pairs are dropped for
    their length. Text is the same if `folded_texts` says so; that of the opposite direction has its sides exchanged."""

    total: int  # pairs of the validation set
    pairs: int  # those of them that are training pairs
    sources: int  # those of the others whose source is in the training text, with another target
    by_corpus: tuple[tuple[int, int], ...]  # in each training corpus: how many of these pairs, and of their sources
    pair_examples: tuple[OverlappingPair, ...]  # the first training pairs
    source_examples: tuple[OverlappingPair, ...]  # the first ones that have another target in training
    folded: int = 0  # of the pairs: those that are training pairs but for case, accents, punctuation or white space

    @property
    def too_many_pairs(self) -> bool:
        """Whether more pairs are in both than chance explains."""
        return self._too_many(self.pairs)

    @property
    def too_many_sources(self) -> bool:
        """The same of sources alone."""
        return self._too_many(self.sources)

    def _too_many(self, number: int) -> bool:
        return number > max(_CHANCE_PAIRS, _CHANCE_SHARE * self.total)


class OverlapSearch:
    """Looks for validation text in training text, chunk by chunk."""

    def __init__(self, held_out: Sequence[Sequence[Pair]], compared: Sequence[Sequence[Direction | None]]) -> None:
        """held_out: the pairs of each validation set; compared: with which training corpora each is compared, and
        how."""
        self._held_out, self._compared = held_out, compared
        self._keys = [list(zip(*map(folded_texts, _sides(pairs)), strict=True)) for pairs in held_out]
        self._sources = [{source for source, _ in keys} for keys in self._keys]
        self._pairs = [set(keys) for keys in self._keys]
        self._texts = [set(pairs) for pairs in held_out]
        # In each training corpus: the pairs and the sources that are there.
        self._in_corpora = [[(set[Pair](), set[str]()) for _ in corpora] for corpora in compared]
        # Of pairs and of sources: the target of the first training pair that has it, and its corpus.
        self._found: list[dict[Pair, tuple[str, int]]] = [{} for _ in held_out]
        self._found_sources: list[dict[str, tuple[str, int]]] = [{} for _ in held_out]
        self._found_exactly = [set[Pair]() for _ in held_out]

    def add(self, corpus: int, pairs: Sequence[Pair]) -> None:
        """Compare training pairs. corpus: its number."""
        keys_of_sources: dict[Direction, list[str]] = {}
        for number, sources in enumerate(self._sources):
            direction = self._compared[number][corpus]
            if direction is None:
                continue
            turned = [(target, source) for source, target in pairs] if direction == "opposite" else pairs
            if direction not in keys_of_sources:
                keys_of_sources[direction] = folded_texts([source for source, _ in turned])
            with_source = [
                (pair, key) for pair, key in zip(turned, keys_of_sources[direction], strict=True) if key in sources
            ]
            targets = folded_texts([target for (_, target), _ in with_source])
            for (pair, source), target in zip(with_source, targets, strict=True):
                self._add(number, corpus, pair, (source, target))

    def _add(self, number: int, corpus: int, pair: Pair, key: Pair) -> None:
        """A training pair whose source is in the validation set of this number. key: its folded texts."""
        pairs_there, sources_there = self._in_corpora[number][corpus]
        sources_there.add(key[0])
        self._found_sources[number].setdefault(key[0], (pair[1], corpus))
        if key in self._pairs[number]:
            pairs_there.add(key)
            self._found[number].setdefault(key, (pair[1], corpus))
        if pair in self._texts[number]:
            self._found_exactly[number].add(pair)

    def overlaps(self) -> list[Overlap]:
        """What was found, of each validation set."""
        return [self._overlap(number) for number in range(len(self._held_out))]

    def _overlap(self, number: int) -> Overlap:
        found, sources = self._found[number], self._found_sources[number]
        held_out = list(zip(self._held_out[number], self._keys[number], strict=True))
        pairs = {pair: key for pair, key in held_out if key in found}
        # Whatever target training has for these, it is another one.
        others = {pair: key for pair, key in held_out if key not in found and key[0] in sources}
        return Overlap(
            total=len(held_out),
            pairs=sum(pair in pairs for pair, _ in held_out),
            sources=sum(pair in others for pair, _ in held_out),
            by_corpus=tuple(
                (sum(key in pairs_there for _, key in held_out), sum(key[0] in sources_there for _, key in held_out))
                for pairs_there, sources_there in self._in_corpora[number]
            ),
            pair_examples=tuple(_common(pair, *found[key]) for pair, key in islice(pairs.items(), MOST)),
            source_examples=tuple(_common(pair, *sources[key[0]]) for pair, key in islice(others.items(), MOST)),
            folded=sum(pair in pairs and pair not in self._found_exactly[number] for pair, _ in held_out),
        )


def _sides(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    return [source for source, _ in pairs], [target for _, target in pairs]


def _common(pair: Pair, trained: str, corpus: int) -> OverlappingPair:
    return OverlappingPair(shortened(pair[0]), shortened(pair[1]), shortened(trained), corpus)


def compared(data: schema.DataConfig) -> list[list[Direction | None]]:
    """For each validation set, how each training corpus is compared with it. One of the opposite direction is: a model
    of both has seen these sentences. Text of other languages, with another target for the same source, says nothing."""
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
    """What is worth a warning."""
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
    """Write them to a file. Raises OSError if that is not possible."""
    atomic.write_text(path, json.dumps([asdict(overlap) for overlap in overlaps], indent=1) + "\n")


def read(path: Path, sets: int) -> tuple[Overlap, ...]:
    """What `write` wrote for `sets` validation sets. Raises NmtError if the file is damaged or missing."""
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
