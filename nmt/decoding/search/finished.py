"""Finished sentences of a batch, and when they leave it. Shapes: B sentences still searched."""

from collections.abc import Callable

import torch
from torch import Tensor

from nmt.device import LateCopy, from_host, runs_ahead

DROP_SHARE = 8  # finished sentences leave the batch together, once they are at least 1 in 8


class FinishedSentences:
    """Decides when finished sentences leave the batch. Until then they have no effect.

    Dropping sentences copies the model's state of the others, which takes too long for one sentence in a hundred.

    A GPU would be idle if the program read the result of each step before it queued the next step. So on a GPU the
    program reads the flags of a step during the next one, and sentences leave one step later than on a CPU.
    """

    def __init__(self, max_lengths: Tensor, device: torch.device, size: Callable[[int], int] | None = None):
        """max_lengths [B]: the most tokens of an output before EOS; size: the size that a batch of so many sentences
        must have. To fill it, finished sentences stay."""
        self.longest, self.device, self._size = int(max_lengths.max()), device, size
        self._flags: LateCopy | None = None  # flags of the step before
        self._stayed: list[int] | None = None  # indices of the flags whose sentences are still in the batch; None: all

    def split(self, finished: Tensor, length: int) -> tuple[Tensor, Tensor] | None:
        """The indices of the sentences that leave and of those that stay, on the device; None: none leaves.

        finished [B]: flags after the step that continued outputs of `length` tokens.
        """
        if length >= self.longest:  # no need to read the flags: only EOS may follow
            everything = torch.arange(len(finished), device=self.device)
            return everything, everything[:0]
        if self._size is not None or runs_ahead(self.device):
            return self._split_by_the_step_before(finished)
        if int(finished.sum()) * DROP_SHARE < len(finished):
            return None
        return finished.nonzero()[:, 0], (~finished).nonzero()[:, 0]

    def _split_by_the_step_before(self, finished: Tensor) -> tuple[Tensor, Tensor] | None:
        before, self._flags = self._flags, LateCopy(finished)
        if before is None:
            return None
        flags = before.wait()
        if self._stayed is not None:
            flags = [flags[i] for i in self._stayed]
        self._stayed = None
        if sum(flags) * DROP_SHARE < len(flags):
            return None
        over = [i for i, flag in enumerate(flags) if flag]
        if self._size is not None:
            unfinished = len(flags) - len(over)
            over = over[self._size(unfinished) - unfinished :]
            if not over:
                return None
        leave = set(over)
        self._stayed = [i for i in range(len(flags)) if i not in leave]
        leaving, staying = (from_host(torch.tensor(i, dtype=torch.long), self.device) for i in (over, self._stayed))
        return leaving, staying
