"""The data of the checks: a store of random pairs with the lengths of WMT, the demo's corpus, and random text."""

import random
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np

from gpu.sizes import SMALL_VOCABULARY, VOCABULARY
from nmt.config.schema import VocabularyConfig
from nmt.data.batches import token_store
from nmt.data.batches.token_store import FlatSequences, TokenStore
from nmt.data.cleaning.summary import CorpusCounts
from nmt.data.subwords import vocabulary
from nmt.data.subwords.vocabulary import EOS, Tokenizer
from nmt.files import atomic

_PAIRS, _FEW = 60_000, 2_000
LONGEST = 256
_SCRIPTS = Path(__file__).parents[1]


def pairs(store: Path, *, small: bool = False) -> TokenStore:
    """A store of random ids, which is made once. The target repeats the source with other ids, so that a model can
    learn it."""
    count, size = (_FEW, SMALL_VOCABULARY) if small else (_PAIRS, VOCABULARY)
    folder = store / f"pairs-{count}-{size}"
    with atomic.locked(store, lambda: None):
        if not folder.exists():
            with atomic.new_folder(folder) as unfinished:
                token_store.write(unfinished, [(0, _random_pairs(count, size), CorpusCounts())])
    return token_store.load(folder)[0]


def _random_pairs(count: int, size: int) -> TokenStore:
    """Pairs of random ids of a vocabulary of this size."""
    drawn = np.random.default_rng(1)
    lengths = drawn.lognormal(mean=3.15, sigma=0.6, size=count)  # a mean of 28 subwords
    source = np.clip(lengths, 1, LONGEST - 1).astype(np.int32)
    target = np.clip(lengths * drawn.normal(1.05, 0.15, count), 1, LONGEST - 1).astype(np.int32)
    frequencies = 1 / np.arange(1, size - 3)
    shares = np.cumsum(frequencies / frequencies.sum())
    longest = np.maximum(source, target)
    ids = np.minimum(np.searchsorted(shares, drawn.random(int(longest.sum()))), size - 5)
    starts = np.append(0, longest.cumsum()[:-1])
    return TokenStore(_side(ids, starts, source), _side((ids * 7 + 3) % (size - 4), starts, target))


def _side(ids: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> FlatSequences:
    """One side of all pairs: `lengths` ids from `starts`, then EOS."""
    offsets = np.append(np.int64(0), (lengths + 1).cumsum(dtype=np.int64))
    flat = np.full(int(offsets[-1]), EOS, "<u2")
    positions = np.arange(len(flat)) - np.repeat(offsets[:-1], lengths + 1)
    is_text = positions < np.repeat(lengths, lengths + 1)
    flat[is_text] = ids[(np.repeat(starts, lengths + 1) + positions)[is_text]] + 4  # after the special subwords
    return FlatSequences(flat, offsets, (lengths + 1).astype("<i4"))


def demo(store: Path, pairs: int = 20_000) -> Path:
    """The folder of the demo's corpus of short sentences from a small grammar, which is made once."""
    folder = store / f"demo-{pairs}"
    with atomic.locked(store, lambda: None):
        if not folder.exists():
            with atomic.new_folder(folder) as unfinished:
                command = [sys.executable, _SCRIPTS / "make_demo_corpus.py", unfinished, "--train", str(pairs)]
                command += ["--validation", "50"]
                subprocess.run(command, check=True)
    return folder


def random_lines(count: int, *, small: bool = False) -> list[str]:
    """Lines of 24 random words on average, which are 25 subwords; small: a few words."""
    chosen, words, (least, most) = random.Random(1), _words(small), (1, 2) if small else (12, 36)
    return [" ".join(chosen.choices(words, k=chosen.randint(least, most))) for _ in range(count)]


def subwords(store: Path, *, small: bool = False) -> Tokenizer:
    """A vocabulary that was learned from the words of `random_lines` once; 32,000 subwords."""
    size = SMALL_VOCABULARY if small else VOCABULARY
    folder = store / f"subwords-{size}"
    with atomic.locked(store, lambda: None):
        if not folder.exists():
            words = _words(small)
            text = [" ".join(words[i : i + 12]) for i in range(0, len(words), 12)]
            with atomic.new_folder(folder) as unfinished:
                (unfinished / "subwords").write_bytes(vocabulary.learn(text, VocabularyConfig(size=size)).proto)
    return vocabulary.load(folder / "subwords")


def _words(small: bool) -> list[str]:
    """Random words of one to four syllables."""
    chosen = random.Random(1)
    syllables = ["".join(pair) for pair in product("bdfgklmnprstvz", ("a", "e", "i", "o", "u", "ei"))]
    return ["".join(chosen.choices(syllables, k=chosen.randint(1, 4))) for _ in range(200 if small else 33_000)]
