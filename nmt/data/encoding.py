"""Text to ids: each pair becomes two sequences of subwords, and pairs that are too long are dropped."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.bpe_dropout import DropoutEncoder
from nmt.data.cleaning import Chunk, TrainingText, hashes_of, seen_pairs
from nmt.data.corpus import Pair, digest
from nmt.data.processes import mapped
from nmt.data.report import CorpusCounts, SideCounts, counts_from
from nmt.data.rules.examples import DropExamples
from nmt.data.rules.judge import Judgement, Rule
from nmt.data.sentences import has_several
from nmt.data.statistics import Statistics
from nmt.data.token_store import FlatSequences, TokenStore
from nmt.data.variation import vary
from nmt.data.vocabulary import UNK, Vocabulary
from nmt.data.word_encoding import WordEncoder
from nmt.device import usable_cores
from nmt.files.journal import Arrays, Journal

FIRST_CHUNKS = 16  # encoded before other processes start: that takes half a second
Lengths = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]
Encoders = tuple[WordEncoder, WordEncoder]  # of the source and of the target


def encode_pairs(pairs: list[Pair], vocabulary: Vocabulary, tags: Sequence[str] = ()) -> TokenStore:
    """The pairs as a token store in memory, with these tags before each source; none is dropped."""
    return _tagged(_encode(pairs, _encoders(vocabulary)), vocabulary.source.tags(tags))


def encode_text(
    text: TrainingText,
    vocabulary: Vocabulary,
    config: schema.Config,
    statistics: Statistics | None = None,
    unfinished: Path | None = None,
) -> Iterator[tuple[int, TokenStore, CorpusCounts]]:
    """Encode the training text chunk by chunk: the number of its corpus, its tokens, and its counts.

    With BPE-dropout or data.augment each pair comes `config.versions` times, one after the other, each time segmented
    or varied in another way. Which pairs are dropped is decided without both. Memory does not grow with the corpora,
    except for `SeenPairs`. statistics: to add the pairs to. unfinished: a file that holds what was encoded before the
    preparation was interrupted, and gets what is encoded now.
    """
    data, encoder, processes = text.data, ChunkEncoder(vocabulary, config), text.data.workers or usable_cores()
    seen = None if data.drop_duplicates else seen_pairs(data)
    tags = list(map(len, data.tags_of(data.train)))
    encoded = partial(mapped, encoder, processes=processes, alone=FIRST_CHUNKS, what="encodes text")
    jobs = _jobs(text)
    for chunk, found in _journal(unfinished).results(jobs, encoded) if unfinished else encoded(jobs):
        counts = chunk.counts + found.counts
        if seen is not None:
            new = seen[chunk.corpus].add_hashes(found.hashes)
            counts += CorpusCounts(kept_duplicates=int((~new).sum()))
        if statistics:
            statistics.corpora[chunk.corpus].examples.merge(found.examples)
            statistics.add(chunk.corpus, list(compress(chunk.pairs, found.kept.tolist())), found.plain)
            lengths = found.tokens.source.lengths.astype(np.int64) - 1 - tags[chunk.corpus]
            statistics.add_sources(lengths, found.several)
        yield chunk.corpus, found.tokens, counts


class Job(NamedTuple):
    """A chunk of pairs to encode."""

    number: int  # of the chunk in the training text
    corpus: int
    pairs: list[Pair]
    first: int  # the number of its first pair in the corpus

    def digest(self) -> bytes:
        """A hash of the pairs."""
        return digest(self.pairs)


def _jobs(text: TrainingText) -> Iterator[tuple[Chunk, Job]]:
    firsts = [0] * len(text.data.train)  # of each corpus: the pairs before a chunk
    for number, chunk in enumerate(text.chunks("encoding")):
        yield chunk, Job(number, chunk.corpus, chunk.pairs, firsts[chunk.corpus])
        firsts[chunk.corpus] += len(chunk.pairs)


class Encoded(NamedTuple):
    """A chunk of encoded pairs."""

    job: bytes  # its hash
    kept: npt.NDArray[np.bool_]  # [pairs]
    plain: TokenStore  # of the pairs kept, without tags and variation
    tokens: TokenStore  # what is trained on: each pair's versions, one after the other
    several: npt.NDArray[np.bool_]  # [tokens]: whether the source has several sentences
    counts: CorpusCounts
    examples: DropExamples
    hashes: npt.NDArray[np.uint64]  # of the pairs kept; none if duplicates were dropped before

    def pack(self) -> Arrays:
        """As arrays for a journal."""
        text = json.dumps({"counts": asdict(self.counts), "examples": self.examples.to_json()})
        stores = {"plain": self.plain} if self.tokens is self.plain else {"plain": self.plain, "tokens": self.tokens}
        sides = {f"{name}.{side}": sequences for name, one in stores.items() for side, sequences in one.sides.items()}
        return {
            "job": np.frombuffer(self.job, np.uint8),
            "kept": self.kept,
            "several": self.several,
            "hashes": self.hashes,
            "text": np.frombuffer(text.encode(), np.uint8),
            **{f"{name}.ids": sequences.ids for name, sequences in sides.items()},
            **{f"{name}.lengths": sequences.lengths for name, sequences in sides.items()},
        }

    @classmethod
    def unpack(cls, arrays: Arrays) -> "Encoded":
        """What `pack` gave."""

        def side(name: str) -> FlatSequences:
            return FlatSequences.end_to_end(arrays[f"{name}.ids"], arrays[f"{name}.lengths"])

        def store(name: str) -> TokenStore:
            return TokenStore(side(f"{name}.source"), side(f"{name}.target"))

        text, plain = json.loads(arrays["text"].tobytes()), store("plain")
        tokens = store("tokens") if "tokens.source.ids" in arrays else plain
        (counts,), examples = counts_from([text["counts"]]), DropExamples.from_json(text["examples"])
        flags = arrays["kept"], plain, tokens, arrays["several"]
        return cls(arrays["job"].tobytes(), *flags, counts, examples, arrays["hashes"])


def _journal(path: Path) -> Journal[Job, Encoded]:
    return Journal(path, Job.digest, Encoded.pack, Encoded.unpack)


class ChunkEncoder:
    """Encodes chunks of text as the settings want it. Other processes can do this too."""

    def __init__(self, vocabulary: Vocabulary, config: schema.Config) -> None:
        self._vocabulary, self._config = vocabulary, config
        self._encoders = _encoders(vocabulary)
        self._dropout = _dropout_encoders(vocabulary, config.vocabulary.bpe_dropout)
        self._tags = list(map(vocabulary.source.tags, config.data.tags_of(config.data.train)))

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkEncoder, (self._vocabulary, self._config)  # not the words that it knows by now

    def __call__(self, job: Job) -> Encoded:
        data = self._config.data
        every = _encode(job.pairs, self._encoders)
        full, short, kept = _within_limits(every, data)
        pairs, plain = list(compress(job.pairs, kept.tolist())), every.pick(np.flatnonzero(kept))
        counts = CorpusCounts(
            empty=int((~full).sum()),
            too_long=int((full & ~short).sum()),
            ratio=int((short & ~kept).sum()),
            kept_copies=sum(source == target for source, target in pairs),
        )
        tokens, several = self._versions(job, pairs, plain)
        return Encoded(
            job=job.digest(),
            kept=kept,
            plain=plain,
            tokens=_tagged(tokens, self._tags[job.corpus]),
            several=several,
            counts=counts + _count_text(pairs, plain),
            examples=_examples_of_dropped(job.pairs, every, data, (full, short, kept)),
            hashes=hashes_of([] if data.drop_duplicates else pairs),
        )

    def _versions(self, job: Job, pairs: list[Pair], plain: TokenStore) -> tuple[TokenStore, Masks]:
        """The tokens of a job's pairs in all versions, and which of their sources have several sentences. plain: the
        tokens without variation."""
        data, versions = self._config.data, self._config.versions
        several = _have_several(pairs, language := data.pair_of(data.train[job.corpus]).source)
        if not self._config.varies_text:
            return plain, several
        found, found_several = [], []
        for version in range(versions):
            new = varied(pairs, range(job.first, job.first + len(pairs)), job.corpus, version, data)
            if self._dropout:
                tokens = TokenStore(
                    *(
                        encoder.encode([pair[side] for pair in new], _random(job.number, version, side))
                        for side, encoder in enumerate(self._dropout)
                    )
                )
            else:
                tokens = _encode(new, self._encoders)
            fits = _fit(tokens, data.max_length)
            found.append(_choose(fits, tokens, plain))
            of_new = several if new is pairs else _have_several(new, language)
            found_several.append(np.where(fits, of_new, several))
        of_each_pair = np.arange(versions * len(pairs)).reshape(versions, -1).T.ravel()
        return TokenStore.joined(found).pick(of_each_pair), np.concatenate(found_several)[of_each_pair]


def varied(pairs: list[Pair], numbers: Sequence[int], corpus: int, version: int, data: schema.DataConfig) -> list[Pair]:
    """The pairs as data.augment varies them in this version. numbers: of each pair in its corpus; corpus: its
    number."""
    if not data.augment.changes_text:
        return pairs
    places = (corpus << 40) + np.asarray(numbers, np.int64)
    languages = data.pair_of(data.train[corpus])
    return vary(pairs, places, epoch=version, seed=0, settings=data.augment, languages=languages)


def _tagged(tokens: TokenStore, tags: list[int]) -> TokenStore:
    """With these tags before each source."""
    return TokenStore(tokens.source.after(tags), tokens.target) if tags else tokens


def _encoders(vocabulary: Vocabulary) -> Encoders:
    source = WordEncoder(vocabulary.source)
    return source, source if vocabulary.source is vocabulary.target else WordEncoder(vocabulary.target)


def _dropout_encoders(vocabulary: Vocabulary, dropout: float) -> tuple[DropoutEncoder, DropoutEncoder] | None:
    if not dropout:
        return None
    source = DropoutEncoder(vocabulary.source, dropout)
    return source, source if vocabulary.source is vocabulary.target else DropoutEncoder(vocabulary.target, dropout)


def _random(*names: int) -> np.random.Generator:
    """A generator of random numbers that follow from these numbers."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(names)))


def _encode(pairs: list[Pair], encoders: Encoders) -> TokenStore:
    source, target = encoders
    return TokenStore(source.encode([pair[0] for pair in pairs]), target.encode([pair[1] for pair in pairs]))


def _within_limits(tokens: TokenStore, data: schema.DataConfig) -> tuple[Masks, Masks, Masks]:
    """Which pairs have subwords on both sides, which of these are within data.max_length, and which of those are within
    data.max_length_ratio, each [pairs]."""
    shorter, longer = _shorter_and_longer(tokens)
    full = shorter > 0  # a tokenizer's normalization can remove all characters of a line
    short = full & (longer <= data.max_length)
    return full, short, short if data.max_length_ratio is None else short & (longer <= data.max_length_ratio * shorter)


def _examples_of_dropped(
    pairs: list[Pair], tokens: TokenStore, data: schema.DataConfig, within: tuple[Masks, Masks, Masks]
) -> DropExamples:
    """Examples of the pairs that are beyond the limits, and of those near to them. within: of `_within_limits`."""
    full, short, kept = within
    shorter, longer = (lengths[full] for lengths in _shorter_and_longer(tokens))
    examples = DropExamples()
    examples.add_dropped("empty", list(compress(pairs, ~full)))
    rules = Rule("max_length", data.max_length, None), Rule("max_length_ratio", data.max_length_ratio or np.inf, None)
    scores = np.array([longer, longer / shorter], np.float32)
    dropped_by = np.where(kept, -1, np.where(short, 1, 0))[full]
    examples.add(list(compress(pairs, full)), Judgement(rules, scores, dropped_by))
    return examples


def _shorter_and_longer(tokens: TokenStore) -> tuple[Lengths, Lengths]:
    """The lengths of each pair's shorter and longer side in subwords, without EOS, both [pairs]."""
    source, target = (side.lengths.astype(np.int64) - 1 for side in (tokens.source, tokens.target))
    return np.minimum(source, target), np.maximum(source, target)


def _fit(tokens: TokenStore, max_length: int) -> Masks:
    """Which pairs have subwords on both sides, and on none of them more than max_length."""
    shorter, longer = _shorter_and_longer(tokens)
    return (shorter > 0) & (longer <= max_length)


def _choose(first: Masks, one: TokenStore, other: TokenStore) -> TokenStore:
    """The pairs of one store where `first` is true [pairs], and of the other elsewhere."""
    numbers = np.arange(len(one))
    return TokenStore.joined([one, other]).pick(np.where(first, numbers, numbers + len(one)))


def _have_several(pairs: list[Pair], language: str) -> Masks:
    """Which sources have several sentences [pairs]."""
    return np.array([has_several(source, language) for source, _ in pairs], bool)


def _count_text(pairs: list[Pair], tokens: TokenStore) -> CorpusCounts:
    def of_side(lines: list[str], sequences: FlatSequences) -> SideCounts:
        return SideCounts(
            words=sum(len(line.split()) for line in lines),
            characters=sum(map(len, lines)),
            subwords=len(sequences.ids) - len(lines),
            longest=int(sequences.lengths.max(initial=1)) - 1,
            unknown=int(np.count_nonzero(sequences.ids == UNK)),
        )

    source = of_side([source for source, _ in pairs], tokens.source)
    return CorpusCounts(source=source, target=of_side([target for _, target in pairs], tokens.target))
