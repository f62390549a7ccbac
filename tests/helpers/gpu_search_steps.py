"""What the steps of a search ask of a GPU, counted on a pretended one: prints them as JSON.

    python -m helpers.gpu_search_steps BEAM_SIZE SENTENCES SOURCE_LENGTH

In a process of its own. The model is the paper's base model with 32,000 subwords,
in bfloat16.
"""

from nmt.config.schema import DecodingConfig

from helpers import pretended_gpu  # isort: skip  (before torch)

import json
import sys
from typing import Any

import torch
from torch import Tensor

from nmt.config.schema import TransformerConfig
from nmt.data.subwords.vocabulary import PAD
from nmt.decoding.engine import _inference
from nmt.decoding.search import finished
from nmt.decoding.search.search import search
from nmt.decoding.search.stepper import SearchOptions
from nmt.device import LateCopy
from nmt.models import build
from nmt.models.transformer import cache
from nmt.models.translation_model import Memory, TranslationModel

STEPS = 18  # the cache grows twice
LEAVING = 8


class ReadLate(LateCopy):
    """A quarter of the sentences finishes at the eighth step, and no other; no sentence uses more than 20 slots."""

    read = 0

    def __init__(self, x: Tensor):
        assert not x.to("cpu", non_blocking=True).is_cuda
        self._shape = x.shape

    def wait(self) -> Any:
        if not self._shape:
            return 20
        ReadLate.read += 1
        over = self._shape[0] // 4 if ReadLate.read == LEAVING else 0
        return [True] * over + [False] * (self._shape[0] - over)


class Enough(Exception):
    pass


class Watched:
    """The model, which notes at each step what has been counted since the step before."""

    def __init__(self, model: TranslationModel, count: pretended_gpu.Count):
        self.model, self.count, self.rows = model, count, list[dict[str, Any]]()
        self.start, self.scores, self.reorder = model.start, model.scores, model.reorder

    def encode(self, source: Tensor) -> Memory:
        return self.model.encode(source)

    def step(self, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        parts = ("kernels", "waits")
        self.rows.append({part: dict(getattr(self.count, part)) for part in parts})
        for part in parts:
            getattr(self.count, part).clear()
        if len(self.rows) > STEPS:
            raise Enough
        return self.model.step(state, tokens)


def counted(beam_size: int, sentences: int, source_length: int) -> list[dict[str, Any]]:
    """For each step, and first for what comes before them: kernels and waits, each by operation."""
    finished.LateCopy = cache.LateCopy = ReadLate  # type: ignore[attr-defined, misc]
    model = build.build_on_meta(TransformerConfig(), 32_000, 32_000, PAD).eval()
    options = SearchOptions(DecodingConfig(beam_size=beam_size), scores=False)
    limits = torch.full((sentences,), source_length + 50)
    with pretended_gpu.mode() as fake:
        TranslationModel.prepare_for_search(model, torch.bfloat16)  # as the Transformer's, on CUDA
        pretended_gpu.to_fake(model, fake)
        source = pretended_gpu.tensor(fake, (sentences, source_length))
        with pretended_gpu.Count(fake) as count, _inference(pretended_gpu.DEVICE):
            watched = Watched(model, count)
            try:
                search(watched, source, limits, options)
            except Enough:
                return watched.rows
    raise AssertionError("the search ended")


if __name__ == "__main__":
    print(json.dumps(counted(*map(int, sys.argv[1:]))))
