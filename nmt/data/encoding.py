"""Text to ids: each pair becomes two sequences of subwords, and pairs that are too long are dropped."""

from collections.abc import Iterator, Sequence
from itertools import compress, count

import numpy as np

from nmt.config import schema
from nmt.data.cleaning import SeenPairs, TrainingText, count_repeats
from nmt.data.corpus import Pair
from nmt.data.report import CorpusCounts, SideCounts
from nmt.data.rules.examples import DropExamples
from nmt.data.rules.judge import Judgement, Rule
from nmt.data.statistics import Statistics
from nmt.data.token_store import FlatSequences, TokenStore
from nmt.data.variation import vary
from nmt.data.vocabulary import UNK, Vocabulary
from nmt.device import usable_cores

IdLists = tuple[list[list[int]], list[list[int]]]  # of sources and of targets, without EOS


def encode_pairs(pairs: list[Pair], vocabulary: Vocabulary) -> TokenStore:
    """The pairs as a token store in memory; none is dropped."""
    return _in_memory(_encode(pairs, vocabulary, threads=1), vocabulary)


def encode_text(
    text: TrainingText, vocabulary: Vocabulary, config: schema.Config, statistics: Statistics | None = None
) -> Iterator[tuple[int, TokenStore, CorpusCounts]]:
    """Encode the training text chunk by chunk: the number of its corpus, its tokens, and its counts. The statistics, if
    given, get each pair once.

    With BPE-dropout or data.augment all chunks come `config.versions` times, each time segmented or varied in another
    way. Which pairs are dropped is decided without both, and only the first time is counted. Memory does not grow with
    the corpora, except for `SeenPairs`.
    """
    data, dropout, threads = text.data, config.vocabulary.bpe_dropout, text.data.workers or usable_cores()
    tags = [vocabulary.source.tag(one.tag) if one.tag else None for one in data.train]
    seen, seeds = None if data.drop_duplicates else SeenPairs(), count(1)
    for version in range(config.versions):
        numbers = [0] * len(data.train)  # of each corpus: the pairs before a chunk
        for chunk in text.chunks("encoding"):
            first = numbers[chunk.corpus]
            numbers[chunk.corpus] += len(chunk.pairs)
            examples = statistics.corpora[chunk.corpus].examples if statistics and version == 0 else None
            pairs, plain, dropped = _drop_long(chunk.pairs, _encode(chunk.pairs, vocabulary, threads), data, examples)
            ids, tokens, counts = plain, _in_memory(plain, vocabulary), CorpusCounts()
            if statistics and version == 0:
                statistics.add(chunk.corpus, pairs, tokens)
            if config.varies_text:
                new = varied(pairs, range(first, first + len(pairs)), chunk.corpus, version, data)
                drawn = (
                    _segment_randomly(new, vocabulary, dropout, seeds) if dropout else _encode(new, vocabulary, threads)
                )
                ids = _unless_too_long(drawn, plain, data.max_length)
            if (tag := tags[chunk.corpus]) is not None:
                ids = [[tag, *source] for source in ids[0]], ids[1]
            if ids is not plain:
                tokens = _in_memory(ids, vocabulary)
            if version == 0:
                counts = chunk.counts + dropped + count_repeats(pairs, seen) + _count_text(pairs, tokens)
            yield chunk.corpus, tokens, counts


def varied(pairs: list[Pair], numbers: Sequence[int], corpus: int, version: int, data: schema.DataConfig) -> list[Pair]:
    """The pairs as data.augment varies them in this version. numbers: of each pair in its corpus; corpus: its
    number."""
    if not data.augment.changes_text:
        return pairs
    places = (corpus << 40) + np.asarray(numbers, np.int64)
    languages = data.source_language, data.target_language
    return vary(pairs, places, epoch=version, seed=0, settings=data.augment, languages=languages)


def _encode(pairs: list[Pair], vocabulary: Vocabulary, threads: int) -> IdLists:
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    return vocabulary.source.encode(sources, threads), vocabulary.target.encode(targets, threads)


def _drop_long(
    pairs: list[Pair], ids: IdLists, data: schema.DataConfig, examples: DropExamples | None
) -> tuple[list[Pair], IdLists, CorpusCounts]:
    """The pairs within data.max_length and data.max_length_ratio, their ids, and the counts of the others. Adds to the
    examples of what is dropped."""
    lengths = np.array([list(map(len, side)) for side in ids], np.int64)  # [2, pairs]
    full = lengths.min(axis=0, initial=2**62) > 0  # a tokenizer's normalization can remove all characters of a line
    shorter, longer = lengths[:, full].min(axis=0, initial=2**62), lengths[:, full].max(axis=0, initial=0)
    most, ratio = data.max_length, np.inf if data.max_length_ratio is None else data.max_length_ratio
    dropped_by = np.where(longer > most, 0, np.where(longer > ratio * shorter, 1, -1))
    rules = Rule("max_length", most, None), Rule("max_length_ratio", ratio, None)
    judgement = Judgement(rules, np.array([longer, longer / shorter], np.float32), dropped_by)
    if examples is not None:
        examples.add_dropped("empty", list(compress(pairs, (~full).tolist())))
        examples.add(list(compress(pairs, full.tolist())), judgement)
    too_long, different = (int((dropped_by == number).sum()) for number in (0, 1))
    dropped = CorpusCounts(empty=int((~full).sum()), too_long=too_long, ratio=different)
    full[full] = judgement.kept
    kept: list[bool] = full.tolist()
    return list(compress(pairs, kept)), (list(compress(ids[0], kept)), list(compress(ids[1], kept))), dropped


def _segment_randomly(pairs: list[Pair], vocabulary: Vocabulary, dropout: float, seeds: Iterator[int]) -> IdLists:
    """The pairs encoded with BPE-dropout."""

    def segment(side: int) -> list[list[int]]:
        tokenizer = (vocabulary.source, vocabulary.target)[side]
        return tokenizer.sample([pair[side] for pair in pairs], dropout, next(seeds))

    return segment(0), segment(1)


def _unless_too_long(new: IdLists, plain: IdLists, max_length: int) -> IdLists:
    """The new ids; for a pair with a side that is empty now, or longer than max_length, the plain ones."""
    fits = [all(0 < len(side) <= max_length for side in pair) for pair in zip(*new, strict=True)]
    source, target = (
        [mine if fit else its for mine, its, fit in zip(new[side], plain[side], fits, strict=True)] for side in (0, 1)
    )
    return source, target


def _in_memory(ids: IdLists, vocabulary: Vocabulary) -> TokenStore:
    return TokenStore(*map(FlatSequences.of, ids, (len(vocabulary.source), len(vocabulary.target))))


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
