"""Text to ids: each pair becomes two sequences of subwords, and pairs that are too long are dropped."""

from collections.abc import Iterator, Sequence
from itertools import compress, count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.cleaning import Chunk, TrainingText, hashes_of, seen_pairs
from nmt.data.corpus import Pair
from nmt.data.processes import mapped
from nmt.data.report import CorpusCounts, SideCounts
from nmt.data.rules.examples import DropExamples
from nmt.data.rules.judge import Judgement, Rule
from nmt.data.statistics import Statistics
from nmt.data.token_store import FlatSequences, TokenStore
from nmt.data.variation import vary
from nmt.data.vocabulary import UNK, Vocabulary
from nmt.data.word_encoding import WordEncoder
from nmt.device import usable_cores

FIRST_CHUNKS = 16  # encoded before other processes start: that takes half a second
Lengths = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]
Encoders = tuple[WordEncoder, WordEncoder]  # of the source and of the target


def encode_pairs(pairs: list[Pair], vocabulary: Vocabulary, tags: Sequence[str] = ()) -> TokenStore:
    """The pairs as a token store in memory, with these tags before each source; none is dropped."""
    return _tagged(_encode(pairs, _encoders(vocabulary)), vocabulary.source.tags(tags))


def encode_text(
    text: TrainingText, vocabulary: Vocabulary, config: schema.Config, statistics: Statistics | None = None
) -> Iterator[tuple[int, TokenStore, CorpusCounts]]:
    """Encode the training text chunk by chunk: the number of its corpus, its tokens, and its counts. The statistics, if
    given, get each pair once.

    With BPE-dropout or data.augment all chunks come `config.versions` times, each time segmented or varied in another
    way. Which pairs are dropped is decided without both, and only the first time is counted. Memory does not grow with
    the corpora, except for `SeenPairs`.
    """
    data, seeds = text.data, count(1)
    seen = None if data.drop_duplicates else seen_pairs(data)

    def jobs() -> Iterator[tuple[Chunk, Job]]:
        for version in range(config.versions):
            numbers = [0] * len(data.train)  # of each corpus: the pairs before a chunk
            for chunk in text.chunks("encoding"):
                first = numbers[chunk.corpus]
                numbers[chunk.corpus] += len(chunk.pairs)
                yield chunk, Job(chunk.corpus, chunk.pairs, first, version, (next(seeds), next(seeds)))

    encoder, processes = ChunkEncoder(vocabulary, config), data.workers or usable_cores()
    for chunk, encoded in mapped(encoder, jobs(), processes, FIRST_CHUNKS, "encodes text"):
        counts = CorpusCounts()
        if encoded.first is not None:
            counts = chunk.counts + encoded.first.counts
            if seen is not None:
                new = seen[chunk.corpus].add_hashes(encoded.first.hashes)
                counts += CorpusCounts(kept_duplicates=int((~new).sum()))
            if statistics:
                statistics.corpora[chunk.corpus].examples.merge(encoded.first.examples)
                statistics.add(chunk.corpus, list(compress(chunk.pairs, encoded.first.kept)), encoded.first.plain)
        yield chunk.corpus, encoded.tokens, counts


class Job(NamedTuple):
    """A chunk of pairs to encode."""

    corpus: int
    pairs: list[Pair]
    first: int  # the number of its first pair in the corpus
    version: int
    seeds: tuple[int, int]  # of the segmentation of each side


class FirstTime(NamedTuple):
    """What is counted in the first version of the text alone."""

    kept: list[bool]  # [pairs]
    plain: TokenStore  # of the pairs kept, without tags and variation
    counts: CorpusCounts
    examples: DropExamples
    hashes: npt.NDArray[np.uint64]  # of the pairs kept; none if duplicates were dropped before


class Encoded(NamedTuple):
    """A chunk of encoded pairs."""

    tokens: TokenStore
    first: FirstTime | None  # in the first version of the text


class ChunkEncoder:
    """Encodes chunks of text as the settings want it. Other processes can do this too."""

    def __init__(self, vocabulary: Vocabulary, config: schema.Config) -> None:
        self._vocabulary, self._config = vocabulary, config
        self._encoders = _encoders(vocabulary)
        self._tags = list(map(vocabulary.source.tags, config.data.tags_of(config.data.train)))

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkEncoder, (self._vocabulary, self._config)  # not the words that it knows by now

    def __call__(self, job: Job) -> Encoded:
        data, dropout = self._config.data, self._config.vocabulary.bpe_dropout
        every = _encode(job.pairs, self._encoders)
        full, short, kept = _within_limits(every, data)
        pairs, plain = list(compress(job.pairs, kept)), every.pick(np.flatnonzero(kept))
        tokens = plain
        if self._config.varies_text:
            new = varied(pairs, range(job.first, job.first + len(pairs)), job.corpus, job.version, data)
            if dropout:
                drawn = _segment_randomly(new, self._vocabulary, dropout, job.seeds)
            else:
                drawn = _encode(new, self._encoders)
            tokens = _unless_too_long(drawn, plain, data.max_length)
        tokens = _tagged(tokens, self._tags[job.corpus])
        if job.version:
            return Encoded(tokens, None)
        counts = CorpusCounts(
            empty=int((~full).sum()),
            too_long=int((full & ~short).sum()),
            ratio=int((short & ~kept).sum()),
            kept_copies=sum(source == target for source, target in pairs),
        )
        examples = _examples_of_dropped(job.pairs, every, data, (full, short, kept))
        hashes = hashes_of([] if data.drop_duplicates else pairs)
        return Encoded(tokens, FirstTime(kept.tolist(), plain, counts + _count_text(pairs, plain), examples, hashes))


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
    return source, source if vocabulary.shared else WordEncoder(vocabulary.target)


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


def _segment_randomly(pairs: list[Pair], vocabulary: Vocabulary, dropout: float, seeds: tuple[int, int]) -> TokenStore:
    """The pairs encoded with BPE-dropout. seeds: of each side."""

    def segment(side: int) -> FlatSequences:
        tokenizer = (vocabulary.source, vocabulary.target)[side]
        return FlatSequences.of(tokenizer.sample([pair[side] for pair in pairs], dropout, seeds[side]), len(tokenizer))

    return TokenStore(segment(0), segment(1))


def _unless_too_long(new: TokenStore, plain: TokenStore, max_length: int) -> TokenStore:
    """The new tokens; for a pair with a side that is empty now, or longer than max_length, the plain ones."""
    shorter, longer = _shorter_and_longer(new)
    both = TokenStore(FlatSequences.joined(new.source, plain.source), FlatSequences.joined(new.target, plain.target))
    numbers = np.arange(len(new))
    return both.pick(np.where((shorter > 0) & (longer <= max_length), numbers, numbers + len(new)))


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
