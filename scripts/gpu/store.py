"""The training data of the checks: a store of random pairs with the lengths of WMT, and the demo's corpus."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from gpu.sizes import VOCABULARY
from nmt.data.batches import token_store
from nmt.data.batches.token_store import FlatSequences, TokenStore
from nmt.data.cleaning.summary import CorpusCounts
from nmt.data.subwords.vocabulary import EOS
from nmt.files import atomic

_PAIRS, _FEW = 60_000, 2_000
LONGEST = 256
_SCRIPTS = Path(__file__).parents[1]


def pairs(store: Path, *, small: bool = False) -> TokenStore:
    """A store of random ids, which is made once. The target repeats the source with other ids, so that a model can
    learn it."""
    count = _FEW if small else _PAIRS
    folder = store / f"pairs-{count}"
    with atomic.locked(store, lambda: None):
        if not folder.exists():
            with atomic.new_folder(folder) as unfinished:
                token_store.write(unfinished, [(0, _random_pairs(count), CorpusCounts())])
    return token_store.load(folder)[0]


def _random_pairs(count: int) -> TokenStore:
    random = np.random.default_rng(1)
    lengths = random.lognormal(mean=3.15, sigma=0.6, size=count)  # a mean of 28 subwords
    source = np.clip(lengths, 1, LONGEST - 1).astype(np.int32)
    target = np.clip(lengths * random.normal(1.05, 0.15, count), 1, LONGEST - 1).astype(np.int32)
    frequencies = 1 / np.arange(1, VOCABULARY - 3)
    shares = np.cumsum(frequencies / frequencies.sum())
    longest = np.maximum(source, target)
    ids = np.minimum(np.searchsorted(shares, random.random(int(longest.sum()))), VOCABULARY - 5)
    starts = np.append(0, longest.cumsum()[:-1])
    return TokenStore(_side(ids, starts, source), _side((ids * 7 + 3) % (VOCABULARY - 4), starts, target))


def _side(ids: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> FlatSequences:
    """One side of all pairs: `lengths` ids from `starts`, then EOS."""
    offsets = np.append(np.int64(0), (lengths + 1).cumsum(dtype=np.int64))
    flat = np.full(int(offsets[-1]), EOS, "<u2")
    positions = np.arange(len(flat)) - np.repeat(offsets[:-1], lengths + 1)
    is_text = positions < np.repeat(lengths, lengths + 1)
    flat[is_text] = ids[(np.repeat(starts, lengths + 1) + positions)[is_text]] + 4  # after the special subwords
    return FlatSequences(flat, offsets, (lengths + 1).astype("<i4"))


def demo(store: Path) -> Path:
    """The folder of the demo's corpus of short sentences from a small grammar, which is made once."""
    folder = store / "demo"
    with atomic.locked(store, lambda: None):
        if not folder.exists():
            with atomic.new_folder(folder) as unfinished:
                command = [sys.executable, _SCRIPTS / "make_demo_corpus.py", unfinished, "--train", "20000"]
                command += ["--validation", "50"]
                subprocess.run(command, check=True)
    return folder
