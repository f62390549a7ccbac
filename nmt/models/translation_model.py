"""The interface of a translation model for training, search, scoring and model files. An architecture implements it.

Shapes: B sentences, S source and T target positions, K hypotheses per sentence, D config.width, V target subwords.
Ids are int64. Rows of a batch are padded with `padding` at the end; a real source or target ends in EOS.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from nmt.config.schema import ModelConfig
from nmt.models.linear import linear

State = Any  # a model's state between two decoding steps; each model has its own type


@dataclass(frozen=True)
class Memory:
    """The encoder's result: states [B, S, D], and mask [B, 1, 1, S], true at tokens."""

    states: Tensor
    mask: Tensor


class PackedSentences(NamedTuple):
    """The sentences of one side of a batch, one after another in N positions; the last positions may be empty.

    All tensors are int32 [N]. ids: subword ids; start, end: the positions start … end-1 contain the token's sentence;
    other_start, other_end: the same for the pair's sentence on the other side. At empty positions ids are padding, and
    all others are 0. longest: the most tokens of a sentence of either side, in any batch of the training.
    """

    ids: Tensor
    start: Tensor
    end: Tensor
    other_start: Tensor
    other_end: Tensor
    longest: int


class SampledStates(NamedTuple):
    """The result of `forward` in training for models that sample positions (Xu et al. 2015).

    states [B, T, D]: the decoder's last states; log_p [B, T]: log-probability of the sample at each target position;
    entropy [B, T]: entropy of its distribution; mean_states [B, T, D]: the states without gradients, after the same
    pass with the same dropout and with the mean in place of the sample; later: whether a sample changes the loss of
    later positions too.
    """

    states: Tensor
    log_p: Tensor
    entropy: Tensor
    mean_states: Tensor
    later: bool


@dataclass(frozen=True)
class ModelInternals:
    """The values inside a model for one sentence pair, which `nmt inspect` shows. S source and T target positions.

    attention: by kind, the weights of each layer and head, [L, H, rows, columns]: `encoder` [·, ·, S, S] and `decoder`
    [·, ·, T, T] are self-attention, `cross` is [·, ·, T, S]; kinds that a model lacks are omitted. alignment [T, S]: as
    `TranslationModel.alignment`, or None without attention; aligned_by: its description. centers [T], window: with
    local attention, the center of each window and its size to either side. chosen [T]: with hard attention, the source
    position that is read. positions: position encodings [P, D] by name; layout: their layout. missing: a sentence about
    the parts that the model lacks.
    """

    attention: dict[str, Tensor]
    alignment: Tensor | None
    aligned_by: str
    centers: Tensor | None = None
    window: int | None = None
    chosen: Tensor | None = None
    layout: str = ""
    positions: dict[str, Tensor] = field(default_factory=dict)
    missing: str = ""

    def after_start(self, count: int) -> "ModelInternals":
        """The internals without the first `count` tokens after BOS, which are not part of the target. In the decoder's
        self-attention their weights are added to those of BOS."""
        attention = dict[str, Tensor]()
        for kind, weights in self.attention.items():
            attention[kind] = weights if kind == "encoder" else weights[:, :, count:]
        if "decoder" in attention:
            weights = attention["decoder"]
            start = weights[..., : count + 1].sum(-1, keepdim=True)
            attention["decoder"] = torch.cat([start, weights[..., count + 1 :]], dim=-1)
        return replace(
            self,
            attention=attention,
            alignment=None if self.alignment is None else self.alignment[count:],
            centers=None if self.centers is None else self.centers[count:],
            chosen=None if self.chosen is None else self.chosen[count:],
        )


class TranslationModel(nn.Module, ABC):
    """A model of P(target | source), one target token after the other.

    `forward` computes all target positions at once, for training and scoring; `encode`, `start` and `step` compute them
    one by one, for search. Both must give the same scores. In eval mode the result for a sentence must not depend on
    the other sentences of its batch, nor on padding.
    """

    can_pack = False  # whether `forward` takes packed sentences; otherwise all batches are padded
    can_inspect = False  # whether `inside` is implemented

    def __init__(self, config: ModelConfig, source_vocabulary: int, target_vocabulary: int, padding: int):
        """source_vocabulary, target_vocabulary: numbers of subwords; padding: the padding id."""
        super().__init__()
        self.config, self.padding = config, padding
        self.source_vocabulary, self.target_vocabulary = source_vocabulary, target_vocabulary
        self.recompute = False  # in training: keep only each layer's input, compute the rest again in backward
        self.cuts = False  # in training: ids below 0 mark tokens that are cut off, see `nmt.models.embedding`

    # ---- training and scoring

    @abstractmethod
    def forward(self, source: Tensor | PackedSentences, target: Tensor | PackedSentences) -> Tensor | SampledStates:
        """Source ids [B, S] and the decoder's input ids [B, T] (BOS, then the target without its EOS) → the
        decoder's last states [B, T, D]. Position t may depend on the whole source and on target positions ≤ t.
        A model that samples positions returns `SampledStates` in training.

        If `can_pack`, also packed sentences → [N, D], with any finite values at empty positions."""

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Decoder states [..., D] → unnormalised scores [..., V]: states · output_weight^T + output_bias."""

    @property
    @abstractmethod
    def output_weight(self) -> Tensor:
        """The output layer's matrix [V, D]. The loss multiplies states by it in parts, to avoid a [B, T, V] tensor."""

    @property
    def output_bias(self) -> Tensor | None:
        """The output layer's bias [V], or None."""
        return None

    @abstractmethod
    def layers(self) -> Sequence[nn.Module]:
        """The modules that are compiled one by one (training.compile) and sharded one by one (training.sharded).
        Each must be called as a module in `forward`, and no weight may be in two of them."""

    def matrices(self) -> dict[Tensor, list[int]]:
        """The matrices in the layers. A matrix may stack several matrices, to compute them in one product; the values
        are the numbers of rows of each."""
        rows = dict[Tensor, list[int]]()
        for layer in self.layers():
            rows |= {weight: [len(weight)] for weight in layer.parameters() if weight.dim() == 2}
        return rows

    @abstractmethod
    def alignment(self, source: Tensor, target: Tensor) -> Tensor:
        """The attention of each target position to each source position: ids as in `forward` → [B, T, S].
        Each row sums to 1 over the sentence's source positions, and is 0 at padding."""

    def inside(self, source: Tensor, target: Tensor) -> ModelInternals:
        """The internals for one sentence pair, ids [1, S] and [1, T] as in `forward`; only if `can_inspect`."""
        raise NotImplementedError

    @abstractmethod
    def training_flops(self, sentences: int, source_tokens: int, target_tokens: int) -> float:
        """Floating-point operations of the matrix products of one forward and backward pass, without recomputation.
        Tokens are the sums over all sentences, EOS counted, padding not counted."""

    def parameter_counts(self) -> dict[str, int]:
        """The number of parameters of each part; shared ones count in the first part that has them. `total` is last."""
        counts = {"embeddings": 0, "encoder": 0, "decoder": 0, "output": 0}
        for name, parameter in self.named_parameters():
            counts[self.part_of(name)] += parameter.numel()
        return {**counts, "total": sum(counts.values())}

    @staticmethod
    def part_of(name: str) -> str:
        """The part that a weight belongs to, by the first word of its name: `encoder`, `decoder` or `output`, otherwise
        `embeddings`."""
        part = name.partition(".")[0].partition("_")[0]
        return part if part in ("encoder", "decoder", "output") else "embeddings"

    def subword_rows(self) -> dict[str, Literal["source", "target"]]:
        """The names of the matrices [V, D] with a row for each subword and of the output bias [V], and the side of
        their vocabulary. A model that starts from a model with another vocabulary takes the rows of common subwords."""
        sides: dict[str, Literal["source", "target"]] = {
            "source_embedding.weight": "source",
            "target_embedding.weight": "target",
            "output.weight": "target",
            "output.bias": "target",
        }
        return {name: sides[name] for name, _ in self.named_parameters() if name in sides}

    # ---- search: see `nmt.decoding.search.decoder_model.DecoderModel`

    @abstractmethod
    def encode(self, source: Tensor) -> Memory:
        """Source ids [B, S] → the encoder's result."""

    @abstractmethod
    def start(self, memory: Memory) -> State:
        """The state before the first target token, with one hypothesis for each sentence."""

    @abstractmethod
    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """The newest token of each hypothesis [B, K] → decoder states for `scores`, [B, K, D], and the new state.
        The first call gets BOS, with K = 1. Further calls with K = 1 may read tokens between BOS and the output. A step
        may overwrite the old state."""

    def scores(self, hidden: Tensor) -> Tensor:
        """Decoder states [..., D] (from `step`, of all or some sentences) → float32 logits of the next token [..., V],
        which search overwrites. They are float32 for 16-bit states too, because rounding to 16 bits would make
        different logits equal."""
        if hidden.dtype not in (torch.bfloat16, torch.float16):
            return self.logits(hidden).float()
        if not hidden.is_cuda:
            bias = None if self.output_bias is None else self.output_bias.float()
            return linear(hidden.float(), self.output_weight.float(), bias)
        scores = torch.mm(hidden.flatten(0, -2), self.output_weight.t(), out_dtype=torch.float32)
        if self.output_bias is not None:
            scores += self.output_bias
        return scores.view(*hidden.shape[:-1], -1)

    @abstractmethod
    def reorder(self, state: State, rows: Tensor) -> State:
        """The state of selected hypotheses. rows [B', K'] are indices of the B·K old ones; each line of `rows` belongs
        to one old sentence, and sentences stay in order, each at most once. This widens (B, 1) to (B, K), follows the
        best hypotheses of a beam, and drops finished sentences."""

    def prepare_for_search(self, dtype: torch.dtype) -> None:
        """Convert the weights to a dtype, and store them in a layout for fast search. The model cannot be trained
        afterwards."""
        self.to(dtype)

    def int8_layers(self) -> list[str]:
        """The names of the linear layers that decoding.precision: int8 may replace. They must be called as modules,
        because their `weight` cannot be read afterwards."""
        return [name for name, module in self.named_modules() if isinstance(module, nn.Linear)]

    # ---- limits

    @property
    def longest_position(self) -> int | None:
        """The largest number of positions of a sequence, including BOS or EOS; None: no limit."""
        return self.config.longest_position

    def activation_bytes(self, padded_tokens: int, longest: int) -> int | None:
        """An upper bound on the memory of a forward and backward pass on the CPU, without weights and gradients.

        padded_tokens: tokens of each side, padding included; longest: length of the longest sentence. None: unknown;
        training then measures the memory.
        """
        return None

    def packed_bytes(self, positions: int) -> int:
        """If `can_pack`: the memory on the CPU that a forward and backward pass needs for packed sentences in addition
        to `activation_bytes`. positions: of each side."""
        return 0

    def search_bytes(self, sentences: int, longest: int) -> tuple[int, int]:
        """The least memory of encoding, and of the source's data that decoding keeps. longest: source positions. Search
        refuses batches that cannot fit; with zeros it refuses none."""
        return 0, 0
