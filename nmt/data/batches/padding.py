"""Padded micro-batches: one row for each sentence of a side, filled up to the longest one."""

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
    target_places: Tensor  # int64 [N]: where tokens are in the flattened target
    corpora: Tensor | None = None  # int64 [N]: the corpus of each token, if there are several
    # With token cutoff, what each of P passes reads: source and target with CUT for tokens that are cut off.
    read_source: Tensor | None = None  # int64 [P, B, S]
    read_target: Tensor | None = None  # int64 [P, B, T]

    @classmethod
    def of(
        cls,
        source: Tensor,
        target: Tensor,
        corpora: Integers | None = None,
        read_source: Tensor | None = None,
        read_target: Tensor | None = None,
    ) -> "Batch":
        """Finds the target's tokens, on the CPU: a GPU would have to wait for their number. corpora: of each row."""
        places = (target.flatten() != PAD).nonzero()[:, 0]
        of_tokens = None if corpora is None else torch.from_numpy(corpora.astype(np.int64))[places // target.shape[1]]
        return cls(source, target, places, of_tokens, read_source, read_target)

    def pinned(self) -> "Batch":
        """The same in page-locked memory, from which it is copied to a GPU asynchronously."""
        return self._each(Tensor.pin_memory)

    def to(self, device: torch.device) -> "Batch":
        """The same on this device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        return Batch(*(None if each is None else change(each) for each in vars(self).values()))  # type: ignore[arg-type]


def collate_pairs(
    source: Sequence[Integers],
    target: Sequence[Integers],
    corpora: Integers | None = None,
    cuts: CutTokens | None = None,
) -> Batch:
    """Pad pairs of id sequences. corpora: of each, if there are several; cuts: of these pairs."""
    read = () if cuts is None else (_read(collate(rows), cut) for rows, cut in zip((source, target), cuts, strict=True))
    return Batch.of(collate(source), collate(target), corpora, *read)


def _read(ids: Tensor, cut: npt.NDArray[np.bool_]) -> Tensor:
    """Padded ids [B, L] as each pass reads them, [P, B, L]. cut: [P, tokens]."""
    read = ids.repeat(len(cut), 1, 1)
    read[(ids != PAD).expand_as(read)] = torch.from_numpy(np.where(cut, CUT, ids[ids != PAD].numpy()).ravel())
    return read


def collate(rows: Sequence[npt.NDArray[Any]]) -> Tensor:
    """Rows of ids as one int64 tensor [B, longest], padded with PAD; [0, 1] for no rows."""
    lengths = np.array([len(row) for row in rows], np.int64)
    padded = np.full((len(rows), lengths.max(initial=1)), PAD, np.int64)
    if rows:
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    return torch.from_numpy(padded)
