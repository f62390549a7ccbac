"""Text to ids: each pair becomes two sequences of subwords, and pairs that are too long are dropped."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from nmt.data.subwords.term_marks import Mark, TermMarker, visible, with_tags
from nmt.data.subwords.variation import vary
from nmt.data.subwords.vocabulary import UNK, Vocabulary
from nmt.data.subwords.word_encoding import WordEncoder
from nmt.machine import usable_cores

# Shards that begin with one of these chunks are encoded before other processes start. Starting takes half a second.
FIRST_CHUNKS = 16
Lengths = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]
Encoders = tuple[WordEncoder, WordEncoder]  # of the source and of the target


def encode_pairs(
    pairs: list[Pair], vocabulary: Vocabulary, tags: Sequence[str] = (), target_tags: Sequence[str] = ()
) -> TokenStore:
    """Encode pairs into a token store in memory, with these tags before each source and each target. No pair is
    dropped."""
    ids = vocabulary.source.tags(tags), vocabulary.target.tags(target_tags)
    return _tagged(_encode(pairs, _encoders(vocabulary)), *ids)


def encode_text(
    text: CleanedText,
    vocabulary: Vocabulary,
    config: schema.Config,
    folder: Path,
    statistics: Sequence[CorpusStatistics],
    marker: TermMarker | None = None,
) -> Iterator[tuple[int, TokenStore, CorpusCounts]]:
    """Encode the text shard by shard. Yields the index of the corpus, the tokens and the counts of each shard.

    With BPE-dropout or data.augment each pair is stored in `config.versions` versions, one after the other, each
    segmented or varied in a different way. Which pairs are dropped does not depend on either. Memory does not grow with
    the corpora, except for `SeenPairs`. folder: encoded shards are written here, and reused if they exist. statistics:
    of each corpus; the statistics of its shards are added. marker: for data.augment.terms.
    """
    data, processes = config.data, config.data.workers or usable_cores()
    encoder = ShardEncoder(text.folder, folder, vocabulary, config, marker)
    seen = None if data.drop_duplicates else seen_pairs(data)
    jobs = list(_jobs(text))
    first = sum(job.chunk < FIRST_CHUNKS for job in jobs)
    for shard, _ in mapped(encoder, ((job.shard, job) for job in jobs), processes, first, task="encodes text"):
        encoded, counts = EncodedShard.read(folder / shard.name), shard.counts
        if seen is not None:
            new = seen[shard.corpus].add_hashes(encoded.hashes)
            counts += CorpusCounts(kept_duplicates=int((~new).sum()))
        statistics[shard.corpus].merge(encoded.statistics)
        yield shard.corpus, encoded.tokens, counts + encoded.counts


class ShardJob(NamedTuple):
    """A shard to encode."""

    shard: Shard
    chunk: int  # index of its first chunk in the whole text
    first: int  # index of its first pair in the corpus
    total: int  # pairs of the corpus


def _jobs(text: CleanedText) -> Iterator[ShardJob]:
    totals = [sum(sum(shard.kept) for shard in text.shards if shard.corpus == n) for n in range(len(text.notes))]
    chunk, firsts = 0, [0] * len(totals)
    for shard in text.shards:
        yield ShardJob(shard, chunk, firsts[shard.corpus], totals[shard.corpus])
        chunk += len(shard.kept)
        firsts[shard.corpus] += sum(shard.kept)


class ShardEncoder:
    """Encodes shards of cleaned text into files. It can be pickled, for other processes."""

    def __init__(
        self, text: Path, folder: Path, vocabulary: Vocabulary, config: schema.Config, marker: TermMarker | None
    ) -> None:
        """text: the folder of the cleaned text. folder: the folder of the encoded shards."""
        self._text, self._folder, self._vocabulary, self._config = text, folder, vocabulary, config
        self._marker, self._encoder = marker, ChunkEncoder(vocabulary, config, marker)
        self._tags = list(map(len, config.data.tags_of(config.data.train)))

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardEncoder, (self._text, self._folder, self._vocabulary, self._config, self._marker)

    def __call__(self, job: ShardJob) -> None:
        shard, first = job.shard, job.first
        if EncodedShard.exists(self._folder / shard.name):
            return
        chunks, statistics = list[Encoded](), StatisticsCounter(self._vocabulary)
        for i, pairs in enumerate(shard.chunks(self._text), start=job.chunk):
            encoded = self._encoder(EncodingJob(i, shard.corpus, pairs, first))
            kept = list(compress(pairs, encoded.kept.tolist()))
            sampled = sampled_evenly(first + np.flatnonzero(encoded.kept), job.total, min(SAMPLE, job.total))
            statistics.add(kept, encoded.plain)
            statistics.add_examples(encoded.examples, list(compress(kept, sampled.tolist())), encoded.marked)
            lengths = encoded.tokens.source.lengths.astype(np.int64) - 1 - self._tags[shard.corpus]
            statistics.add_sources(lengths, encoded.several)
            chunks.append(encoded)
            first += len(pairs)
        EncodedShard(
            tokens=TokenStore.joined([chunk.tokens for chunk in chunks]),
            hashes=np.concatenate([chunk.hashes for chunk in chunks]),
            counts=sum((chunk.counts for chunk in chunks), CorpusCounts()),
            statistics=statistics.result(),
        ).write(self._folder / shard.name)


class EncodingJob(NamedTuple):
    """A chunk of pairs to encode."""

    chunk: int  # index of the chunk in the whole text
    corpus: int
    pairs: list[Pair]
    first: int  # index of its first pair in the corpus


class Encoded(NamedTuple):
    """A chunk of encoded pairs."""

    kept: npt.NDArray[np.bool_]  # [pairs]
    plain: TokenStore  # the kept pairs without tags and variation
    tokens: TokenStore  # for training: the versions of each pair, one after the other
    several: npt.NDArray[np.bool_]  # [tokens]: whether the source has several sentences
    counts: CorpusCounts
    examples: DropExamples
    marked: list[Pair]  # the pairs of the first version with marked terms, as text
    hashes: npt.NDArray[np.uint64]  # of the kept pairs; empty if duplicates were dropped before


class ChunkEncoder:
    """Encodes chunks of text according to the settings."""

    def __init__(self, vocabulary: Vocabulary, config: schema.Config, marker: TermMarker | None = None) -> None:
        self._config, self._encoders, self._marker = config, _encoders(vocabulary), marker
        self._dropout = _dropout_encoders(vocabulary, config.vocabulary.bpe_dropout)
        data, sides = config.data, (vocabulary.source, vocabulary.target)
        tags = [list(map(tokenizer.tags, data.tags_of(data.train, side))) for side, tokenizer in enumerate(sides)]
        self._tags = list(zip(*tags, strict=True))

    def __call__(self, job: EncodingJob) -> Encoded:
        data = self._config.data
        every = _encode(job.pairs, self._encoders)
        full, short, kept = _within_limits(every, data)
        pairs, plain = list(compress(job.pairs, kept.tolist())), every.pick(np.flatnonzero(kept))
        tokens, several, marked = self._versions(job, pairs, plain)
        counts = CorpusCounts(
            empty=int((~full).sum()),
            too_long=int((full & ~short).sum()),
            ratio=int((short & ~kept).sum()),
            kept_copies=sum(source == target for source, target in pairs),
            marked=len(marked),
        )
        return Encoded(
            kept=kept,
            plain=plain,
            tokens=_tagged(tokens, *self._tags[job.corpus]),
            several=several,
            counts=counts + _count_text(pairs, plain),
            examples=_examples_of_dropped(job.pairs, every, data, (full, short, kept)),
            marked=marked,
            hashes=hashes_of([] if data.drop_duplicates else pairs),
        )

    def _versions(self, job: EncodingJob, pairs: list[Pair], plain: TokenStore) -> tuple[TokenStore, Masks, list[Pair]]:
        """The tokens of a job's pairs in all versions, whether each source has several sentences, and the pairs of the
        first version with marked terms. plain: the tokens without variation."""
        data, versions = self._config.data, self._config.versions
        several = _have_several(pairs, language := data.pair_of(data.train[job.corpus]).source)
        if not self._config.varies_text:
            return plain, several, []
        stores, several_by_version, marked = [], [], list[Pair]()
        for version in range(versions):
            new = varied(pairs, range(job.first, job.first + len(pairs)), job.corpus, version, data)
            marks = dict[int, list[Mark]]()
            if self._marker is not None:
                new, marks = self._marker.marked(new, (job.corpus << 40) + job.first + np.arange(len(pairs)), version)
            tokens = (
                self._encode_with_dropout(new, job.chunk, version) if self._dropout else _encode(new, self._encoders)
            )
            if marks:
                sources = with_tags(self._encoders[0].tokenizer, tokens.source, [pair[0] for pair in new], marks)
                tokens = replace(tokens, source=sources)
            fits = _fit(tokens, data.max_length)
            if not version:
                marked = [(visible(new[i][0], line), new[i][1]) for i, line in marks.items() if fits[i]]
            stores.append(_choose(fits, tokens, plain))
            new_several = several if new is pairs else _have_several(new, language)
            several_by_version.append(np.where(fits, new_several, several))
        by_pair = np.arange(versions * len(pairs)).reshape(versions, -1).T.ravel()
        return TokenStore.joined(stores).pick(by_pair), np.concatenate(several_by_version)[by_pair], marked

    def _encode_with_dropout(self, pairs: list[Pair], chunk: int, version: int) -> TokenStore:
        assert self._dropout is not None
        sides = []
        for side, encoder in enumerate(self._dropout):
            sides.append(encoder.encode([pair[side] for pair in pairs], generator(chunk, version, side)))
        return TokenStore(*sides)


def varied(pairs: list[Pair], indices: Sequence[int], corpus: int, version: int, data: schema.DataConfig) -> list[Pair]:
    """The pairs as data.augment varies them in this version. indices: the index of each pair in its corpus. corpus: the
    index of the corpus."""
    if not data.augment.changes_text:
        return pairs
    identifiers = (corpus << 40) + np.asarray(indices, np.int64)
    languages = data.pair_of(data.train[corpus])
    return vary(pairs, identifiers, epoch=version, seed=0, settings=data.augment, languages=languages)


def _tagged(tokens: TokenStore, source: list[int], target: list[int]) -> TokenStore:
    """The tokens with these tags before each source and each target."""
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
    """Return three masks [pairs]: pairs with subwords on both sides; of these, pairs within data.max_length; of these,
    pairs within data.max_length_ratio."""
    shorter, longer = _shorter_and_longer(tokens)
    full = shorter > 0  # a tokenizer's normalization can remove all characters of a line
    short = full & (longer <= data.max_length)
    return full, short, short if data.max_length_ratio is None else short & (longer <= data.max_length_ratio * shorter)


def _examples_of_dropped(
    pairs: list[Pair], tokens: TokenStore, data: schema.DataConfig, within: tuple[Masks, Masks, Masks]
) -> DropExamples:
    """Examples of pairs beyond the limits and of pairs near to them. within: from `_within_limits`."""
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
    """Whether each pair has 1 to max_length subwords on both sides [pairs]."""
    shorter, longer = _shorter_and_longer(tokens)
    return (shorter > 0) & (longer <= max_length)


def _choose(takes_first: Masks, first: TokenStore, second: TokenStore) -> TokenStore:
    """The pairs of `first` where `takes_first` is true [pairs], and the pairs of `second` elsewhere."""
    indices = np.arange(len(first))
    return TokenStore.joined([first, second]).pick(np.where(takes_first, indices, indices + len(first)))


def _have_several(pairs: list[Pair], language: str) -> Masks:
    """Whether each source has several sentences [pairs]."""
    return np.array([has_several(source, language) for source, _ in pairs], bool)


def _count_text(pairs: list[Pair], tokens: TokenStore) -> CorpusCounts:
    def count_side(lines: list[str], sequences: FlatSequences) -> SideCounts:
        return SideCounts(
            words=sum(len(line.split()) for line in lines),
            characters=sum(map(len, lines)),
            subwords=len(sequences.ids) - len(lines),
            longest=int(sequences.lengths.max(initial=1)) - 1,
            unknown=int(np.count_nonzero(sequences.ids == UNK)),
        )

    source = count_side([source for source, _ in pairs], tokens.source)
    return CorpusCounts(source=source, target=count_side([target for _, target in pairs], tokens.target))
