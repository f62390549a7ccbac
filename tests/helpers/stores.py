"""Token stores in memory, and the batches of their pairs."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nmt.data.batching import Batches
from nmt.data.vocabulary import EOS

length = st.integers(1, 40)
corpus = st.lists(st.tuples(length, length), min_size=1, max_size=60)


class Store:
    """A token store in memory that remembers which pairs were read, one array a call."""

    def __init__(self, lengths: list[tuple[int, int]] | np.ndarray) -> None:
        random = np.random.default_rng(0)
        sides = np.array(lengths, np.int32).reshape(-1, 2).T
        self.source, self.target = (SimpleNamespace(lengths=side) for side in sides)
        self.rows = [[np.append(random.integers(4, 99, n - 1), EOS).astype(np.uint16) for n in side] for side in sides]
        self.read: list[list[int]] = []

    def __len__(self) -> int:
        return len(self.rows[0])

    def pairs(self, indices: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        self.read.append([int(i) for i in indices])
        source, target = ([side[i] for i in indices] for side in self.rows)
        return source, target


def make(store: Store, batch_tokens: int, **changes: Any) -> Batches:
    settings: dict[str, Any] = {"micro_batch_tokens": None, "seed": 1, "pool_pairs": 1000, "over_budget": "skip"}
    return Batches(store, batch_tokens=batch_tokens, **(settings | changes))
