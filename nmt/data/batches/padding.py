"""Padded micro-batches: one row for each sentence of a side, padded to the longest one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.data.batches.token_cutoff import CUT, CutTokens
from nmt.data.batches.token_store import Integers
from nmt.data.subwords.vocabulary import PAD


@dataclass(frozen=True)
class Batch:
    """One micro-batch on one device, padded. B may be 0: see `Step`."""

    source: Tensor  # int64 [B, S], rows end in EOS, then PAD
    target: Tensor  # int64 [B, T], rows end in EOS, then PAD
    target_places: Tensor  # int64 [N]: the positions of tokens in the flattened target
    corpora: Tensor | None = None  # int64 [N]: the corpus of each token, if there are several
    # With token cutoff: source and target as each of P passes reads them, with CUT for tokens that are cut off.
    read_source: Tensor | None = None  # int64 [P, B, S]
    read_target: Tensor | None = None  # int64 [P, B, T]

    @classmethod
    def from_padded(
        cls,
        source: Tensor,
        target: Tensor,
        corpora: Integers | None = None,
        read_source: Tensor | None = None,
        read_target: Tensor | None = None,
    ) -> "Batch":
        """Finds the tokens of the padded target on the CPU. On a GPU this would wait for the result. corpora: the
        corpus of each row."""
        positions = (target.flatten() != PAD).nonzero()[:, 0]
        token_corpora = None
        if corpora is not None:
            token_corpora = torch.from_numpy(corpora.astype(np.int64))[positions // target.shape[1]]
        return cls(source, target, positions, token_corpora, read_source, read_target)

    def pinned(self) -> "Batch":
        """The same batch in page-locked memory, which can be copied to a GPU asynchronously."""
        return self._each(Tensor.pin_memory)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on this device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        return Batch(*(None if each is None else change(each) for each in vars(self).values()))  # type: ignore[arg-type]


def collate_pairs(
    source: Sequence[Integers],
    target: Sequence[Integers],
    corpora: Integers | None = None,
    cuts: CutTokens | None = None,
) -> Batch:
    """Pad pairs of id sequences. corpora: the corpus of each pair, if there are several; cuts: their tokens to cut
    off."""
    read = () if cuts is None else (_read(collate(rows), cut) for rows, cut in zip((source, target), cuts, strict=True))
    return Batch.from_padded(collate(source), collate(target), corpora, *read)


def _read(ids: Tensor, cut: npt.NDArray[np.bool_]) -> Tensor:
    """Padded ids [B, L] as each pass reads them, [P, B, L]. cut: [P, tokens]."""
    read = ids.repeat(len(cut), 1, 1)
    read[(ids != PAD).expand_as(read)] = torch.from_numpy(np.where(cut, CUT, ids[ids != PAD].numpy()).ravel())
    return read


def collate(rows: Sequence[npt.NDArray[Any]]) -> Tensor:
    """Pad rows of ids with PAD. Returns an int64 tensor [B, longest]; [0, 1] if there are no rows."""
    lengths = np.array([len(row) for row in rows], np.int64)
    padded = np.full((len(rows), lengths.max(initial=1)), PAD, np.int64)
    if rows:
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    return torch.from_numpy(padded)
