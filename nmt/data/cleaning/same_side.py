"""`data.clean.same_source` and `same_target`: at most so many pairs with one source, or with one target.

They choose among the pairs that all other rules keep, so they write the cleaned text again."""

from collections.abc import Iterator
from itertools import compress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.cleaning.cleaned_text import SHARD_CHUNKS, SIDES, CleanedText, Shard, written
from nmt.data.cleaning.cleaner import CleanChunk, RawChunk
from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.rules.near_duplicates import hashes
from nmt.data.cleaning.score_survey import Values
from nmt.data.cleaning.summary import CorpusCounts
from nmt.data.subwords.normalization import as_read


def best(texts: npt.NDArray[np.uint64], ranks: Values, most: int) -> npt.NDArray[np.bool_]:
    """Whether each pair is kept if at most `most` may have the same text: those with the highest ranks, and of equal
    ranks the first. texts: hashes [pairs]; ranks: [pairs], or [0] if all are equal."""
    order = np.lexsort((-ranks, texts) if len(ranks) else (texts,))  # stable
    is_first = np.append(True, texts[order[1:]] != texts[order[:-1]])[: len(order)]  # of its text
    places, kept = np.arange(len(order)), np.zeros(len(order), np.bool_)
    kept[order] = places - np.maximum.accumulate(np.where(is_first, places, 0)) < most
    return kept


def write_chosen(text: CleanedText, data: schema.DataConfig, clean: schema.CleaningConfig, folder: Path) -> None:
    """Write the shards of cleaned text to `folder` without the pairs that are too many. Corpora of the same languages
    are compared with each other. Raises NmtError if the text is damaged or cannot be written."""
    ranks = np.concatenate([shard.ranks for shard in text.shards])
    dropped_by = np.zeros(sum(sum(shard.kept) for shard in text.shards), np.int8)  # [pairs]: number of the rule
    limits: list[int | None] = [clean.same_source, clean.same_target]
    for side, most in enumerate(limits):
        if most is not None:
            remaining = np.flatnonzero(dropped_by == 0)
            kept = best(_hashes(text, side, data)[remaining], ranks[remaining] if len(ranks) else ranks, most)
            dropped_by[remaining[~kept]] = side + 1
    rules = {side + 1: f"same_{name}" for side, name in enumerate(SIDES) if limits[side] is not None}
    for shard in text.shards:
        numbers, dropped_by = np.split(dropped_by, [sum(shard.kept)])
        list(written(folder, _chosen(shard, text.folder, numbers, rules)))


def _hashes(text: CleanedText, side: int, data: schema.DataConfig) -> npt.NDArray[np.uint64]:
    """A hash of one side of each pair, which is compared as `hashes_of` compares both."""
    languages = [" ".join(data.pair_of(corpus)) for corpus in data.train]
    chunks = ((f"{languages[i]}\n{as_read(pair[side])}" for pair in pairs) for i, pairs in text.chunks())
    return np.concatenate([hashes(one.encode("utf-8", "surrogatepass") for one in chunk) for chunk in chunks])


def _chosen(shard: Shard, folder: Path, rule_of: npt.NDArray[np.int8], rules: dict[int, str]) -> Iterator[CleanChunk]:
    """The chunks of a shard without the dropped pairs. The first one has the counts of the shard. rule_of: the number
    of the rule that drops each pair, or 0."""
    counts, examples = shard.counts, shard.examples
    for i, pairs in enumerate(shard.chunks(folder)):
        numbers, rule_of = np.split(rule_of, [len(pairs)])
        for number, rule in rules.items():
            examples.add_dropped(rule, list(compress(pairs, (numbers == number).tolist())))
            counts += CorpusCounts(rules={rule: int((numbers == number).sum())})
        raw = RawChunk(shard.corpus, shard.index * SHARD_CHUNKS + i, [], {})
        yield CleanChunk(raw, list(compress(pairs, (numbers == 0).tolist())), counts, examples)
        counts, examples = CorpusCounts(), DropExamples()
