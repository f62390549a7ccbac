"""Searches on the CPU as on a GPU, where results are read one step late."""

import pytest

from nmt.decoding.search import beam, finished, logits_processors
from nmt.models.transformer import cache


def read_late(patch: pytest.MonkeyPatch) -> None:
    """Search as on a GPU, on the CPU."""
    for module in (beam, finished, logits_processors, cache):
        patch.setattr(module, "runs_ahead", lambda device: True)
    patch.setattr(cache, "_layout", lambda device: cache.KeysBySlot)
