"""Text to ids: each pair becomes two sequences of subwords, and pairs that are too long are dropped."""

from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.batches.token_store import FlatSequences, TokenStore
from nmt.data.cleaning.cleaned_text import CleanedText, Shard, sampled_evenly
from nmt.data.cleaning.cleaner import hashes_of, seen_pairs
from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.rules.judge import Judgement, Rule
from nmt.data.cleaning.statistics import SAMPLE, CorpusStatistics, StatisticsCounter
from nmt.data.cleaning.summary import CorpusCounts, SideCounts
from nmt.data.draws import generator
from nmt.data.processes import mapped
from nmt.data.sources.corpus import Pair
from nmt.data.subwords.bpe_dropout import DropoutEncoder
from nmt.data.subwords.encoded_shard import EncodedShard
from nmt.data.subwords.sentences import has_several
from nmt.data.subwords.variation import vary
from nmt.data.subwords.vocabulary import UNK, Vocabulary
from nmt.data.subwords.word_encoding import WordEncoder
from nmt.machine import usable_cores

FIRST_CHUNKS = 16  # shards that begin with these are encoded before other processes start: that takes half a second
Lengths = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]
Encoders = tuple[WordEncoder, WordEncoder]  # of the source and of the target


def encode_pairs(
    pairs: list[Pair], vocabulary: Vocabulary, tags: Sequence[str] = (), target_tags: Sequence[str] = ()
) -> TokenStore:
    """The pairs as a token store in memory, with these tags before each source and each target; none is dropped."""
    ids = vocabulary.source.tags(tags), vocabulary.target.tags(target_tags)
    return _tagged(_encode(pairs, _encoders(vocabulary)), *ids)


def encode_text(
    text: CleanedText,
    vocabulary: Vocabulary,
    config: schema.Config,
    folder: Path,
    statistics: Sequence[CorpusStatistics],
) -> Iterator[tuple[int, TokenStore, CorpusCounts]]:
    """Encode the text shard by shard: the number of its corpus, its tokens, and its counts.

    With BPE-dropout or data.augment each pair comes `config.versions` times, one after the other, each time segmented
    or varied in another way. Which pairs are dropped is decided without both. Memory does not grow with the corpora,
    except for `SeenPairs`. folder: in it each encoded shard is written, and found if it is there; statistics: of each
    corpus, to add those of the shards to.
    """
    data, processes = config.data, config.data.workers or usable_cores()
    encoder = ShardEncoder(text.folder, folder, vocabulary, config)
    seen = None if data.drop_duplicates else seen_pairs(data)
    jobs = list(_jobs(text))
    first = sum(job.chunk < FIRST_CHUNKS for job in jobs)
    for shard, _ in mapped(encoder, ((job.shard, job) for job in jobs), processes, first, what="encodes text"):
        encoded, counts = EncodedShard.read(folder / shard.name), shard.counts
        if seen is not None:
            new = seen[shard.corpus].add_hashes(encoded.hashes)
            counts += CorpusCounts(kept_duplicates=int((~new).sum()))
        statistics[shard.corpus].merge(encoded.statistics)
        yield shard.corpus, encoded.tokens, counts + encoded.counts


class ShardJob(NamedTuple):
    """A shard to encode."""

    shard: Shard
    chunk: int  # the number of its first chunk in all of the text
    first: int  # of its first pair in the corpus
    total: int  # pairs of the corpus


def _jobs(text: CleanedText) -> Iterator[ShardJob]:
    totals = [sum(sum(shard.kept) for shard in text.shards if shard.corpus == n) for n in range(len(text.notes))]
    chunk, firsts = 0, [0] * len(totals)
    for shard in text.shards:
        yield ShardJob(shard, chunk, firsts[shard.corpus], totals[shard.corpus])
        chunk += len(shard.kept)
        firsts[shard.corpus] += sum(shard.kept)


class ShardEncoder:
    """Encodes shards of cleaned text into files. Other processes can do this too."""

    def __init__(self, text: Path, folder: Path, vocabulary: Vocabulary, config: schema.Config) -> None:
        """text: the folder of the cleaned text; folder: that of the encoded shards."""
        self._text, self._folder, self._vocabulary, self._config = text, folder, vocabulary, config
        self._encoder = ChunkEncoder(vocabulary, config)
        self._tags = list(map(len, config.data.tags_of(config.data.train)))

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardEncoder, (self._text, self._folder, self._vocabulary, self._config)

    def __call__(self, job: ShardJob) -> None:
        shard, first = job.shard, job.first
        if EncodedShard.exists(self._folder / shard.name):
            return
        encoded, statistics = list[Encoded](), StatisticsCounter(self._vocabulary)
        for number, pairs in enumerate(shard.chunks(self._text)):
            found = self._encoder(EncodingJob(job.chunk + number, shard.corpus, pairs, first))
            kept = list(compress(pairs, found.kept.tolist()))
            sampled = sampled_evenly(first + np.flatnonzero(found.kept), job.total, min(SAMPLE, job.total))
            statistics.add(kept, found.plain)
            statistics.add_examples(found.examples, list(compress(kept, sampled.tolist())))
            lengths = found.tokens.source.lengths.astype(np.int64) - 1 - self._tags[shard.corpus]
            statistics.add_sources(lengths, found.several)
            encoded.append(found)
            first += len(pairs)
        EncodedShard(
            tokens=TokenStore.joined([chunk.tokens for chunk in encoded]),
            hashes=np.concatenate([chunk.hashes for chunk in encoded]),
            counts=sum((chunk.counts for chunk in encoded), CorpusCounts()),
            statistics=statistics.result(),
        ).write(self._folder / shard.name)


class EncodingJob(NamedTuple):
    """A chunk of pairs to encode."""

    number: int  # of the chunk in all of the text
    corpus: int
    pairs: list[Pair]
    first: int  # the number of its first pair in the corpus


class Encoded(NamedTuple):
    """A chunk of encoded pairs."""

    kept: npt.NDArray[np.bool_]  # [pairs]
    plain: TokenStore  # of the pairs kept, without tags and variation
    tokens: TokenStore  # what is trained on: each pair's versions, one after the other
    several: npt.NDArray[np.bool_]  # [tokens]: whether the source has several sentences
    counts: CorpusCounts
    examples: DropExamples
    hashes: npt.NDArray[np.uint64]  # of the pairs kept; none if duplicates were dropped before


class ChunkEncoder:
    """Encodes chunks of text as the settings want it."""

    def __init__(self, vocabulary: Vocabulary, config: schema.Config) -> None:
        self._config, self._encoders = config, _encoders(vocabulary)
        self._dropout = _dropout_encoders(vocabulary, config.vocabulary.bpe_dropout)
        data, sides = config.data, (vocabulary.source, vocabulary.target)
        of_sides = [list(map(side.tags, data.tags_of(data.train, number))) for number, side in enumerate(sides)]
        self._tags = list(zip(*of_sides, strict=True))

    def __call__(self, job: EncodingJob) -> Encoded:
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
            kept=kept,
            plain=plain,
            tokens=_tagged(tokens, *self._tags[job.corpus]),
            several=several,
            counts=counts + _count_text(pairs, plain),
            examples=_examples_of_dropped(job.pairs, every, data, (full, short, kept)),
            hashes=hashes_of([] if data.drop_duplicates else pairs),
        )

    def _versions(self, job: EncodingJob, pairs: list[Pair], plain: TokenStore) -> tuple[TokenStore, Masks]:
        """The tokens of a job's pairs in all versions, and which of their sources have several sentences. plain: the
        tokens without variation."""
        data, versions = self._config.data, self._config.versions
        several = _have_several(pairs, language := data.pair_of(data.train[job.corpus]).source)
        if not self._config.varies_text:
            return plain, several
        of_versions, several_of_versions = [], []
        for version in range(versions):
            new = varied(pairs, range(job.first, job.first + len(pairs)), job.corpus, version, data)
            if self._dropout:
                tokens = TokenStore(
                    *(
                        encoder.encode([pair[side] for pair in new], generator(job.number, version, side))
                        for side, encoder in enumerate(self._dropout)
                    )
                )
            else:
                tokens = _encode(new, self._encoders)
            fits = _fit(tokens, data.max_length)
            of_versions.append(_choose(fits, tokens, plain))
            of_new = several if new is pairs else _have_several(new, language)
            several_of_versions.append(np.where(fits, of_new, several))
        of_each_pair = np.arange(versions * len(pairs)).reshape(versions, -1).T.ravel()
        return TokenStore.joined(of_versions).pick(of_each_pair), np.concatenate(several_of_versions)[of_each_pair]


def varied(pairs: list[Pair], numbers: Sequence[int], corpus: int, version: int, data: schema.DataConfig) -> list[Pair]:
    """The pairs as data.augment varies them in this version. numbers: of each pair in its corpus; corpus: its
    number."""
    if not data.augment.changes_text:
        return pairs
    places = (corpus << 40) + np.asarray(numbers, np.int64)
    languages = data.pair_of(data.train[corpus])
    return vary(pairs, places, epoch=version, seed=0, settings=data.augment, languages=languages)


def _tagged(tokens: TokenStore, source: list[int], target: list[int]) -> TokenStore:
    """With these tags before each source and each target."""
    sides = zip((tokens.source, tokens.target), (source, target), strict=True)
    return TokenStore(*(side.after(tags) if tags else side for side, tags in sides))


def _encoders(vocabulary: Vocabulary) -> Encoders:
    source = WordEncoder(vocabulary.source)
    return source, source if vocabulary.source is vocabulary.target else WordEncoder(vocabulary.target)


def _dropout_encoders(vocabulary: Vocabulary, dropout: float) -> tuple[DropoutEncoder, DropoutEncoder] | None:
    if not dropout:
        return None
    source = DropoutEncoder(vocabulary.source, dropout)
    return source, source if vocabulary.source is vocabulary.target else DropoutEncoder(vocabulary.target, dropout)


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


def _choose(takes_first: Masks, first: TokenStore, second: TokenStore) -> TokenStore:
    """The pairs of one store where `first` is true [pairs], and of the other elsewhere."""
    numbers = np.arange(len(first))
    return TokenStore.joined([first, second]).pick(np.where(takes_first, numbers, numbers + len(first)))


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
