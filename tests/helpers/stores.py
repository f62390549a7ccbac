"""Token stores in memory, and the batches of their pairs."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nmt.data.batches.batching import Batches, BatchOrder, Budget
from nmt.data.subwords.vocabulary import EOS
from nmt.distributed.ranks import Ranks

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
    """changes: fields of the budget and of the order, `rank` and `world_size`; the rest as `Batches` takes it."""

    def given(kind: type, settings: dict[str, Any]) -> Any:
        names = [field.name for field in dataclasses.fields(kind)]
        return kind(**settings | {name: changes.pop(name) for name in names if name in changes})

    budget, order = given(Budget, {"batch_tokens": batch_tokens}), given(BatchOrder, {"seed": 1, "pool_pairs": 1000})
    return Batches(store, budget, order, Ranks(changes.pop("rank", 0), changes.pop("world_size", 1)), **changes)
