"""`data.clean.same_source` and `same_target`: at most so many pairs with one source, or with one target.

They choose among the pairs that all other rules keep. So they need all cleaned text, and write it again."""

from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.cleaning.cleaned_text import SHARD_CHUNKS, Shard, shards_in, written
from nmt.data.cleaning.cleaner import CleanChunk, RawChunk
from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.rules.near_duplicates import hashes
from nmt.data.cleaning.score_survey import Values
from nmt.data.cleaning.summary import CorpusCounts
from nmt.data.sources.corpus import Pair
from nmt.data.subwords.normalization import as_read


def best(texts: npt.NDArray[np.uint64], ranks: Values | None, most: int) -> npt.NDArray[np.bool_]:
    """Which pairs are kept if at most `most` pairs have the same text: those with the highest ranks, and of equal ranks
    the first. texts: hashes [pairs]; ranks: [pairs], None: all are equal."""
    order = np.lexsort((texts,) if ranks is None else (-ranks, texts))  # stable
    ordered = texts[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])  # of each text
    numbers = np.arange(len(ordered)) - np.repeat(begins, np.diff(np.append(begins, len(ordered))))
    kept = np.zeros(len(texts), np.bool_)
    kept[order[numbers < most]] = True
    return kept


def write_chosen(data: schema.DataConfig, clean: schema.CleaningConfig, unfinished: Path, folder: Path) -> None:
    """Write the shards of cleaned text in `unfinished` to `folder` without the pairs that are too many. Corpora of the
    same languages are compared with each other. Raises NmtError if the text is damaged or cannot be written."""
    shards = shards_in(unfinished)
    limits = {"same_source": (0, clean.same_source), "same_target": (1, clean.same_target)}
    rules = {rule: (side, most) for rule, (side, most) in limits.items() if most is not None}
    texts: dict[str, list[npt.NDArray[np.uint64]]] = {rule: [] for rule in rules}
    for shard in shards:
        languages = " ".join(data.pair_of(data.train[shard.corpus]))
        for pairs in shard.chunks(unfinished):
            for rule, (side, _) in rules.items():
                texts[rule].append(_hashes([pair[side] for pair in pairs], languages))
    each = [ranks for shard in shards if (ranks := shard.ranks(unfinished)) is not None]
    ranks = np.concatenate(each) if each else None
    dropped_by = np.full(sum(sum(shard.kept) for shard in shards), "", "U11")
    for rule, (_, most) in rules.items():
        left = np.flatnonzero(dropped_by == "")
        kept = best(np.concatenate(texts.pop(rule))[left], None if ranks is None else ranks[left], most)
        dropped_by[left[~kept]] = rule
    first = 0
    for shard in shards:
        for _ in written(folder, _chosen(shard, unfinished, dropped_by[first : first + sum(shard.kept)], list(rules))):
            pass
        first += sum(shard.kept)


def _hashes(texts: Sequence[str], languages: str) -> npt.NDArray[np.uint64]:
    """As `hashes_of` compares pairs, but of one side."""
    return hashes(f"{languages}\n{as_read(text)}".encode("utf-8", "surrogatepass") for text in texts)


def _chosen(
    shard: Shard, unfinished: Path, dropped_by: npt.NDArray[np.str_], rules: Sequence[str]
) -> Iterator[CleanChunk]:
    """The chunks of a shard without the dropped pairs. The first one has the counts of the shard."""
    counts, examples, first = shard.counts, shard.examples, 0
    for i, pairs in enumerate(shard.chunks(unfinished)):
        reasons, first = dropped_by[first : first + len(pairs)], first + len(pairs)
        for rule in rules:
            examples.add_dropped(rule, list(compress(pairs, (reasons == rule).tolist())))
        counts += CorpusCounts(rules={rule: int((reasons == rule).sum()) for rule in rules})
        kept: list[Pair] = list(compress(pairs, (reasons == "").tolist()))
        raw = RawChunk(shard.corpus, shard.index * SHARD_CHUNKS + i, [], {})
        yield CleanChunk(raw, kept, counts, examples)
        counts, examples = CorpusCounts(), DropExamples()
