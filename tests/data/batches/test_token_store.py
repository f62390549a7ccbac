"""What is read from a token store is what was written, whatever the threads, chunks and filters."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt.config import schema
from nmt.config.schema import Corpus, DataConfig
from nmt.data.batches import token_store
from nmt.data.batches.token_store import FlatSequences, TokenStore
from nmt.data.cleaning import cleaned_text
from nmt.data.cleaning.statistics import CorpusStatistics
from nmt.data.cleaning.summary import CorpusCounts
from nmt.data.cleaning.training_text import TrainingText
from nmt.data.sources.corpus import Pair, fingerprint
from nmt.data.subwords import encoding, vocabulary
from nmt.data.subwords.encoding import encode_text
from nmt.data.subwords.vocabulary import EOS, Tokenizer, Vocabulary
from nmt.errors import NmtError

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]


def random_pairs(count: int, seed: int = 0) -> list[Pair]:
    random_ = random.Random(seed)
    sides = [" ".join(random_.choices(WORDS, k=random_.randint(1, 12))) for _ in range(2 * count)]
    return list(zip(sides[::2], sides[1::2], strict=True))


def tokenizer(size: int = 300, **changed: Any) -> Tokenizer:
    lines = [side for pair in random_pairs(300) for side in pair]
    return vocabulary.learn(lines, schema.VocabularyConfig(size=size, **changed))


SHARED = Vocabulary(*[tokenizer()] * 2)
SEPARATE = Vocabulary(tokenizer(), tokenizer(size=60, byte_fallback=False))


def write_pairs(folder: Path, name: str, pairs: list[Pair]) -> Corpus:
    path = folder / f"{name}.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return Corpus(file=str(path))


def data(*corpora: Corpus, **changed: Any) -> DataConfig:
    limits = {"max_length_ratio": None} | changed
    return DataConfig(source_language="en", target_language="de", train=corpora, **limits)


def write(folder: Path, text: DataConfig, subwords: Vocabulary, dropout: float = 0.0, samples: int = 1) -> None:
    settings = schema.VocabularyConfig(bpe_dropout=dropout, bpe_dropout_samples=samples)
    config = schema.Config(run_dir="run", data=text, vocabulary=settings)
    work = folder.parent / f"{folder.name}-work"
    training = TrainingText(text, [fingerprint(corpus, text, "train") for corpus in text.train], work)
    statistics = [CorpusStatistics() for _ in text.train]
    token_store.write(folder, encode_text(training.cleaned, subwords, config, work, statistics))


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., tuple[TokenStore, tuple[CorpusCounts, ...]]]:
    """A function from lists of pairs, one a corpus, and settings of `data` to the store and its counts."""

    def built(
        *corpora: list[Pair], subwords: Vocabulary = SHARED, dropout: tuple[float, int] = (0.0, 1), **changed: Any
    ) -> tuple[TokenStore, tuple[CorpusCounts, ...]]:
        written = [write_pairs(tmp_path, f"corpus{i}", pairs) for i, pairs in enumerate(corpora)]
        folder = tmp_path / f"store{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        write(folder, data(*written, **changed), subwords, *dropout)
        return token_store.load(folder)

    return built


def rows(store: TokenStore) -> list[tuple[list[int], list[int]]]:
    sources, targets = store.pairs(np.arange(len(store)))
    return [(source.tolist(), target.tolist()) for source, target in zip(sources, targets, strict=True)]


def texts(store: TokenStore, subwords: Vocabulary = SHARED) -> list[Pair]:
    sources, targets = zip(*rows(store), strict=True)
    return list(zip(subwords.source.decode(sources), subwords.target.decode(targets), strict=True))


# --------------------------------------------------------------------------- written = read


@pytest.mark.parametrize("subwords", [SHARED, SEPARATE])
def test_what_is_read_is_what_was_written(build: Callable[..., Any], subwords: Vocabulary) -> None:
    pairs = random_pairs(1000)
    store, counts = build(pairs, subwords=subwords)
    plain = [
        (subwords.source.encode([source])[0] + [EOS], subwords.target.encode([target])[0] + [EOS])
        for source, target in pairs
    ]
    assert rows(store) == plain
    assert store.source.lengths.tolist() == [len(source) for source, _ in plain]
    assert store.target.lengths.tolist() == [len(target) for _, target in plain]
    assert texts(store, subwords) == pairs
    assert counts[0].kept == len(store) == len(pairs)


def test_chunks_and_shards_change_nothing(build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = random_pairs(200) * 2
    named = {"drop_duplicates": True, "max_length": 30}
    whole, counts = build(pairs, **named)
    assert counts[0].duplicates == len(pairs) - len(set(pairs)) >= 200
    assert counts[0].too_long > 0
    monkeypatch.setattr(encoding, "FIRST_CHUNKS", 1000)  # in this process: others are in test_cleaned_text
    for chunk, shard in ((3, 16), (50, 1)):
        monkeypatch.setattr(cleaned_text, "CHUNK_PAIRS", chunk)
        monkeypatch.setattr(cleaned_text, "SHARD_CHUNKS", shard)
        split, split_counts = build(pairs, **named)
        assert split_counts == counts
        for whole_side, split_side in ((whole.source, split.source), (whole.target, split.target)):
            for part in ("ids", "offsets", "lengths"):
                np.testing.assert_array_equal(getattr(whole_side, part), getattr(split_side, part))


def test_large_vocabularies_take_wider_ids(tmp_path: Path) -> None:
    for size, dtype in ((2**16, "<u2"), (2**16 + 1, "<u4")):
        (folder := tmp_path / str(size)).mkdir()
        side = FlatSequences.from_lists([[5, size - 1]], size)
        token_store.write(folder, [(0, TokenStore(side, side), CorpusCounts(1))])
        found, _ = token_store.load(folder)
        assert found.source.ids.dtype == np.dtype(dtype) and rows(found) == [([5, size - 1, EOS],) * 2]


# --------------------------------------------------------------------------- filters


def test_every_reason_is_counted_once_in_order(build: Callable[..., Any]) -> None:
    pairs = [
        ("alpha beta", "beta alpha"),  # stays
        ("", ""),  # empty rather than a copy
        ("  \u3000", "alpha"),  # white space alone
        ("\u200b", "alpha"),  # normalization leaves nothing
        ("mu", "mu"),  # copy
        ("mu", "mu"),  # copy rather than a duplicate
        ("alpha beta", "beta alpha"),  # duplicate
        (" ".join(WORDS * 9), "alpha"),  # too long rather than a ratio
        ("alpha", " ".join(WORDS)),  # ratio
        ("beta", "alpha"),  # stays
    ]
    limits = {"drop_copies": True, "drop_duplicates": True, "max_length": 99, "max_length_ratio": 3.0}
    store, [first, second] = build(pairs, [pairs[-1], ("eta", "iota")], **limits)
    assert texts(store) == [pairs[0], pairs[-1], ("eta", "iota")]
    reasons = [first.empty, first.copies, first.duplicates, first.too_long, first.ratio]
    assert (first.read, first.kept, *reasons) == (10, 2, 3, 2, 1, 1, 1)
    assert (second.read, second.duplicates, second.kept) == (2, 1, 1)


def test_limits_leave_what_just_reaches_them(build: Callable[..., Any]) -> None:
    pairs = random_pairs(300, seed=5)
    lengths = [(len(SHARED.source.encode([s])[0]), len(SHARED.target.encode([t])[0])) for s, t in pairs]
    store, [count] = build(pairs, max_length=12, max_length_ratio=2.0)
    short = [max(both) <= 12 for both in lengths]
    even = [max(both) <= 2 * min(both) for both in lengths]
    assert texts(store) == [pair for pair, *fine in zip(pairs, short, even, strict=True) if all(fine)]
    assert count.too_long == short.count(False)
    assert count.ratio == sum(is_short and not is_even for is_short, is_even in zip(short, even, strict=True))
    assert (12, True) in {(max(both), max(both) <= 2 * min(both)) for both in lengths}  # the limit itself was met
    assert any(max(both) == 2 * min(both) for both in lengths)


# --------------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("source.ids", "cut"), ("source.offsets", "missing"), ("meta.json", "[]"),
    ],
)  # fmt: skip
def test_damaged_store_is_not_opened(tmp_path: Path, part: str, damage: str) -> None:
    write(tmp_path, data(write_pairs(tmp_path, "corpus", random_pairs(20))), SHARED)
    path = tmp_path / part
    if damage == "missing":
        path.unlink()
    elif damage == "longer":
        path.write_bytes(path.read_bytes() + bytes(8))
    elif damage in ("cut", "empty"):
        path.write_bytes(path.read_bytes()[: 0 if damage == "empty" else -4])
    else:
        path.write_text(damage)
    with pytest.raises(NmtError, match=r"damaged token store .*delete the folder"):
        token_store.load(tmp_path)


# --------------------------------------------------------------------------- BPE-dropout


def test_bpe_dropout_cuts_the_same_text_in_other_ways(build: Callable[..., Any]) -> None:
    pairs = random_pairs(60)
    plain, counted = build(pairs[:40], pairs[40:])
    store, counts = build(pairs[:40], pairs[40:], dropout=(0.2, 3))
    assert len(store) == 3 * len(plain) == 180
    assert texts(store) == [text for text in texts(plain) for _ in range(3)]
    ways = [rows(store)[version::3] for version in range(3)]
    assert all(one != other for one, other in ((ways[0], ways[1]), (ways[1], ways[2]), (ways[0], rows(plain))))
    assert 1.05 < len(store.source.ids) / 3 / len(plain.source.ids) < 2, "merges are left out, not all of them"
    assert [count.kept for count in counts] == [count.kept for count in counted] == [40, 20]
    again, _ = build(pairs[:40], pairs[40:], dropout=(0.2, 3))
    assert rows(again) == rows(store)
