"""A second architecture, as simple as one can be: what docs/adding-a-model.md asks for, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from nmt.config import declaration
from nmt.config.declaration import setting
from nmt.config.schema import Config, ModelConfig
from nmt.models import build
from nmt.models.dropout import dropout
from nmt.models.translation_model import Memory, TranslationModel


@dataclass(frozen=True)
class BagOfWordsConfig:
    """A bag of words."""

    architecture: Literal["bag-of-words"] = setting("bag-of-words", "kind of model", affects="model")
    size: int = setting(32, "width of the embeddings", at_least=1, affects="model")
    dropout: float = setting(0.1, "dropout on the states", at_least=0, below=1, affects="nothing")
    longest_position = None

    @property
    def width(self) -> int:
        return self.size


class Mixer(nn.Module):
    """tanh(W x + b), with dropout."""

    def __init__(self, config: BagOfWordsConfig):
        super().__init__()
        self.linear, self.dropout = nn.Linear(config.size, config.size), config.dropout

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] → [..., D]."""
        return dropout(torch.tanh(self.linear(x)), self.dropout, self.training)


@dataclass(frozen=True)
class BagState:
    """The source's mean [B, 1, D], the sum of the target's embeddings so far [B, K, D], and how many they are."""

    source: Tensor
    total: Tensor
    length: int


class BagOfWords(TranslationModel):
    """The mean of the source's embeddings; to it are added the newest target embedding, and the mean of all so far."""

    config: BagOfWordsConfig  # type: ignore[assignment]

    def __init__(self, config: BagOfWordsConfig, source_vocabulary: int, target_vocabulary: int, padding: int):
        super().__init__(config, source_vocabulary, target_vocabulary, padding)
        self.source_embedding = nn.Embedding(source_vocabulary, config.size)
        self.target_embedding = nn.Embedding(target_vocabulary, config.size)
        self.mixer = Mixer(config)
        self.output = nn.Linear(config.size, target_vocabulary, bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        embedded = self.target_embedding(target)
        lengths = torch.arange(1, target.shape[1] + 1, device=target.device)[:, None]
        mean = self.encode(source).states.mean(dim=1, keepdim=True)
        states: Tensor = self.mixer(mean + embedded + embedded.cumsum(dim=1) / lengths)
        return states

    def logits(self, states: Tensor) -> Tensor:
        scores: Tensor = self.output(states)
        return scores

    @property
    def output_weight(self) -> Tensor:
        return self.output.weight

    def layers(self) -> Sequence[nn.Module]:
        return [self.mixer]

    def alignment(self, source: Tensor, target: Tensor) -> Tensor:
        tokens = (source != self.padding)[:, None].float()
        return (tokens / tokens.sum(dim=2, keepdim=True)).expand(-1, target.shape[1], -1)

    def training_flops(self, sentences: int, source_tokens: int, target_tokens: int) -> float:
        return 3 * 2 * target_tokens * self.config.size * (self.config.size + self.target_vocabulary)

    def parameter_counts(self) -> dict[str, int]:
        counts = {name: sum(weight.numel() for weight in part.parameters()) for name, part in self.named_children()}
        return {**counts, "total": sum(counts.values())}

    def encode(self, source: Tensor) -> Memory:
        tokens = source != self.padding  # [B, S]
        total = (self.source_embedding(source) * tokens[:, :, None]).sum(dim=1, keepdim=True)  # [B, 1, D]
        mean = total / tokens.sum(dim=1).clamp(min=1)[:, None, None]
        return Memory(mean.expand(-1, source.shape[1], -1), tokens[:, None, None, :])

    def start(self, memory: Memory) -> BagState:
        source = memory.states.mean(dim=1, keepdim=True)
        return BagState(source, torch.zeros_like(source), 0)

    def step(self, state: BagState, tokens: Tensor) -> tuple[Tensor, BagState]:
        embedded = self.target_embedding(tokens)  # [B, K, D]
        after = BagState(state.source, state.total + embedded, state.length + 1)
        hidden: Tensor = self.mixer(state.source + embedded + after.total / after.length)
        return hidden, after

    def reorder(self, state: BagState, rows: Tensor) -> BagState:
        sentences = rows[:, 0] // state.total.shape[1]
        return BagState(state.source[sentences], state.total.flatten(0, 1)[rows], state.length)


_build = build.build


def _build_any(config: ModelConfig | BagOfWordsConfig, *sizes: int) -> TranslationModel:
    return BagOfWords(config, *sizes) if isinstance(config, BagOfWordsConfig) else _build(config, *sizes)


def add_architecture(patch: pytest.MonkeyPatch) -> None:
    """Edits 2 and 3 of docs/adding-a-model.md."""
    patch.setitem(Config.__annotations__, "model", ModelConfig | BagOfWordsConfig)
    patch.setattr(declaration, "_settings", declaration._settings.__wrapped__)  # its cache has the settings of before
    patch.setattr(build, "build", _build_any)
