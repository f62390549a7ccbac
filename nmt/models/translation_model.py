"""What training, search, scoring and model files need of a translation model. A new architecture implements it.

Shapes: B sentences, S source and T target positions, K hypotheses per sentence, D config.width, V target subwords.
Ids are int64. Rows of a batch are filled up with `padding` at the end; a real source or target ends in EOS.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from nmt.config.schema import ModelConfig
from nmt.models.linear import linear

State = Any  # what a model carries from one decoding step to the next: each model has its own type


@dataclass(frozen=True)
class Memory:
    """The encoder's result: states [B, S, D] and mask [B, 1, 1, S], true at tokens."""

    states: Tensor
    mask: Tensor


class PackedSentences(NamedTuple):
    """The sentences of one side of a batch, one after another in N places; the last places may be empty.

    ids; start, end: the places of each token's sentence are start … end-1; other_start, other_end: the places of the
    same pair's sentence on the other side; all int32 [N]. In empty places ids are padding, and the rest is 0.
    longest: no sentence of either side has more tokens, in any batch of the training.
    """

    ids: Tensor
    start: Tensor
    end: Tensor
    other_start: Tensor
    other_end: Tensor
    longest: int


class SampledStates(NamedTuple):
    """What `forward` returns in training if it depends on positions that the model has drawn (Xu et al. 2015).

    states [B, T, D]: as without drawing; log_p, entropy [B, T]: of the drawing at each target position: the logarithm
    of the probability of what was drawn, and the entropy of the distribution; mean_states [B, T, D]: the states,
    without gradients, after the same pass with the same dropout, where the mean takes the place of what was drawn;
    later: whether a drawing changes the loss of later positions too.
    """

    states: Tensor
    log_p: Tensor
    entropy: Tensor
    mean_states: Tensor
    later: bool


@dataclass(frozen=True)
class ModelInternals:
    """What `nmt inspect` shows of a model for one sentence pair. S source and T target positions.

    attention: by kind, the weights of each layer and head, [L, H, rows, columns]: `encoder` [·, ·, S, S] and `decoder`
    [·, ·, T, T] are self-attention, `cross` [·, ·, T, S]; kinds that a model does not have are left out. alignment [T,
    S]: as `TranslationModel.alignment`, or None without attention; aligned_by: what it is, in words. centers [T],
    window: of attention that looks only around a position, and how far. chosen [T]: the source positions read, by
    attention that reads one. positions: encodings [P, D] by name, as `layout` says. missing: what the model has nothing
    of, as a sentence.
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
        """The same of the positions after this many tokens that follow BOS and are no part of the target. In the
        decoder's self-attention they count as one with BOS."""
        weights = {kind: each if kind == "encoder" else each[:, :, count:] for kind, each in self.attention.items()}
        if "decoder" in weights:
            own = weights["decoder"]
            weights["decoder"] = torch.cat([own[..., : count + 1].sum(-1, keepdim=True), own[..., count + 1 :]], dim=-1)
        alignment, centers, chosen = (
            each if each is None else each[count:] for each in (self.alignment, self.centers, self.chosen)
        )
        return replace(self, attention=weights, alignment=alignment, centers=centers, chosen=chosen)


class TranslationModel(nn.Module, ABC):
    """A model of P(target | source), one target token after the other.

    `forward` computes all target positions at once, as training and scoring need them; `encode`, `start` and `step`
    compute them one by one, as search needs them. Both must give the same scores. Outside training (`eval()`) the
    result for a sentence must not depend on the other sentences of its batch, nor on padding.
    """

    can_pack = False  # whether `forward` takes packed sentences; otherwise all batches are padded
    can_inspect = False  # whether there is `inside`

    def __init__(self, config: ModelConfig, source_vocabulary: int, target_vocabulary: int, padding: int):
        """The settings, the number of subwords of each vocabulary, and the id of padding."""
        super().__init__()
        self.config, self.padding = config, padding
        self.source_vocabulary, self.target_vocabulary = source_vocabulary, target_vocabulary
        self.recompute = False  # in training: keep each layer's input only, compute the rest again in backward
        self.cuts = False  # in training: ids below 0 are tokens that are cut off, see `nmt.models.embedding`

    # ---- training and scoring

    @abstractmethod
    def forward(self, source: Tensor | PackedSentences, target: Tensor | PackedSentences) -> Tensor | SampledStates:
        """Source ids [B, S] and the decoder's input ids [B, T] (BOS, then the target without its EOS) → the
        decoder's last states [B, T, D]. Position t may depend on the whole source and on target positions ≤ t.
        A model that draws random positions returns `SampledStates` in training.

        If `can_pack`, also packed sentences → [N, D]: in places without a token anything finite."""

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Decoder states [..., D] → unnormalised scores [..., V]: states · output_weight^T + output_bias."""

    @property
    @abstractmethod
    def output_weight(self) -> Tensor:
        """The output layer's matrix [V, D]. The loss multiplies states by it in parts, so that no [B, T, V] tensor is
        needed."""

    @property
    def output_bias(self) -> Tensor | None:
        """The output layer's bias [V], or None."""
        return None

    @abstractmethod
    def layers(self) -> Sequence[nn.Module]:
        """The modules that are compiled one by one (training.compile) and sharded one by one (training.sharded).
        Each must be called as a module in `forward`, and no weight may be in two of them."""

    def matrices(self) -> dict[Tensor, list[int]]:
        """The matrices in the layers, and the rows of the matrices that each one stacks, so that one product computes
        several things."""
        weights = (weight for layer in self.layers() for weight in layer.parameters())
        return {weight: [len(weight)] for weight in weights if weight.dim() == 2}

    @abstractmethod
    def alignment(self, source: Tensor, target: Tensor) -> Tensor:
        """How much each target position attends to each source position: ids as in `forward` → [B, T, S].
        Each row sums to 1 over the sentence's own source positions, and is 0 at padding."""

    def inside(self, source: Tensor, target: Tensor) -> ModelInternals:
        """What there is to see of one sentence pair, ids [1, S] and [1, T] as in `forward`; only if `can_inspect`."""
        raise NotImplementedError

    @abstractmethod
    def training_flops(self, sentences: int, source_tokens: int, target_tokens: int) -> float:
        """Floating-point operations of the matrix products of one forward and backward pass, without recomputation.
        Tokens are the sums over all sentences, EOS counted, padding not counted."""

    def parameter_counts(self) -> dict[str, int]:
        """Number of parameters of each part; shared ones count where they come first. `total` comes last."""
        counts = {"embeddings": 0, "encoder": 0, "decoder": 0, "output": 0}
        for name, parameter in self.named_parameters():
            counts[self.part_of(name)] += parameter.numel()
        return {**counts, "total": sum(counts.values())}

    @staticmethod
    def part_of(name: str) -> str:
        """The part that a weight belongs to, by the first word of its name: `encoder`, `decoder`, `output`, and for all
        others `embeddings`."""
        part = name.partition(".")[0].partition("_")[0]
        return part if part in ("encoder", "decoder", "output") else "embeddings"

    def subword_rows(self) -> dict[str, Literal["source", "target"]]:
        """The matrices [V, D] with a row for each subword, and the output bias [V], by name, and whose subwords these
        are: a model that starts from another one with another vocabulary takes the rows of the subwords that both have.
        """
        known: dict[str, Literal["source", "target"]] = {
            "source_embedding.weight": "source",
            "target_embedding.weight": "target",
            "output.weight": "target",
            "output.bias": "target",
        }
        return {name: known[name] for name, _ in self.named_parameters() if name in known}

    # ---- search: `nmt.decoding.search.decoder_model.DecoderModel` says what search relies on

    @abstractmethod
    def encode(self, source: Tensor) -> Memory:
        """Source ids [B, S] → the encoder's result."""

    @abstractmethod
    def start(self, memory: Memory) -> State:
        """The state before the first target token: one hypothesis for each sentence."""

    @abstractmethod
    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """The newest token of each hypothesis [B, K] → what `scores` takes, [B, K, D], and the state after it.
        The first call gets BOS, with K = 1; so do others that read what is between BOS and the output. A step may
        overwrite the old state."""

    def scores(self, hidden: Tensor) -> Tensor:
        """Decoder states [..., D] (what `step` returned, for all or for some sentences) → float32 logits of the next
        token [..., V], which search overwrites. Also of 16-bit states: rounded to 16 bits, logits would be equal that
        are not."""
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
        """The state of other hypotheses: rows [B', K'] index the B·K old ones; each line of `rows` stays within one old
        sentence, and the sentences stay in order, each at most once. This widens (B, 1) to (B, K), follows the best
        hypotheses of a beam, and drops finished sentences."""

    def prepare_for_search(self, dtype: torch.dtype) -> None:
        """Convert the weights to a type, and store them so that search is faster; no training after it."""
        self.to(dtype)

    def int8_layers(self) -> list[str]:
        """The names of the linear layers that decoding.precision: int8 may replace. They must be called as modules:
        their `weight` cannot be read afterwards."""
        return [name for name, module in self.named_modules() if isinstance(module, nn.Linear)]

    # ---- limits

    @property
    def longest_position(self) -> int | None:
        """The most positions that a sequence may have, BOS or EOS counted; None: no limit."""
        return self.config.longest_position

    def activation_bytes(self, padded_tokens: int, longest: int) -> int | None:
        """The most memory that a forward and backward pass needs on the CPU, besides weights and gradients.

        padded_tokens: tokens of each side, padding included; longest: length of the longest sentence. None: not known;
        training then measures it.
        """
        return None

    def packed_bytes(self, places: int) -> int:
        """If `can_pack`: the memory that a forward and backward pass over packed sentences needs on the CPU, besides
        that of padded batches. places: of each side."""
        return 0

    def search_bytes(self, sentences: int, longest: int) -> tuple[int, int]:
        """The least memory that encoding needs, and that what decoding keeps of each source needs. longest: source
        positions. Search refuses batches that cannot fit; zeros refuse none."""
        return 0, 0
