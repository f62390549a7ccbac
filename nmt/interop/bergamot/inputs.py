"""Measures the multipliers with which Bergamot quantises the inputs of a model's matrices to 8-bit integers.

They are fixed in advance, from the inputs for a sample of text: 127 / (mean + 1.1 · standard deviation) of the largest
absolute values. Inputs beyond 127 / multiplier saturate in the engine.
Source: browsermt/marian-dev, scripts/alphas/extract_stats.py, which reads Marian's output for each product: the largest
value in a batch, over all positions in the encoder, and at one position in the decoder.

Shapes: B sentences, S source and T target positions, D inputs of a matrix.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import DecodingConfig
from nmt.data.subwords.vocabulary import BOS, EOS, PAD
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.options import SearchOptions
from nmt.errors import NmtError
from nmt.interop import export_folder, parity
from nmt.interop.bergamot import layers
from nmt.interop.bergamot.alignment import Batch
from nmt.interop.bergamot.binary import multiplier_of
from nmt.models.transformer.model import Transformer

_BATCH = 32  # sentences, as in Marian's scripts
_DEVIATIONS = 1.1
_LINES = 200  # of the validation text
_REASON = "needed to compute the scales of Bergamot's 8-bit inputs"


def validation_sample(loaded: Checkpoint) -> list[str]:
    """Lines of the validation text, evenly spread over it. Raises NmtError if it cannot be read."""
    try:
        sources = parity.validation_lines(loaded)
    except NmtError as error:
        raise NmtError(
            f"{error}: give --sample FILE with text from the domain that you translate; it is {_REASON}"
        ) from None
    return sources[:: -(-len(sources) // _LINES)]


def _usable(loaded: Checkpoint, lines: Sequence[str]) -> list[list[int]]:
    """The subwords of the lines that are not empty and not too long. Raises NmtError if there are none."""
    config = loaded.config
    limit = min(config.longest_source, export_folder.longest_position(config) - 1)
    encoded = loaded.vocabulary.source.encode(list(lines))
    usable = [ids for ids in encoded if 0 < len(ids) <= limit]
    if not usable:
        raise NmtError(
            f"--sample: none of its {len(lines)} lines has 1 to {limit} subwords: give other text; it is {_REASON}"
        )
    return usable


def translated(model: Transformer, loaded: Checkpoint, lines: Sequence[str]) -> list[Batch]:
    """Batches of the lines and the model's translations by greedy search. Raises NmtError if no line can be used, or if
    the model computes no probabilities."""
    decoding = loaded.config.decoding
    sources = sorted(_usable(loaded, lines), key=len, reverse=True)
    inputs = [SearchInput(ids, decoding.longest_output(len(ids))) for ids in sources]
    engine = PyTorchEngine([model], torch.device("cpu"))
    options = SearchOptions(DecodingConfig(beam_size=1))
    hypotheses = engine.search(inputs, options, engine.auto_batch_tokens)
    if not all(hypotheses):
        raise NmtError("the scores of the model are not finite: its weights are damaged or too large")
    pairs = [([*ids, EOS], [BOS, *best.tokens]) for ids, (best, *_) in zip(sources, hypotheses, strict=True)]
    batches = []
    for start in range(0, len(pairs), _BATCH):
        source, target = zip(*pairs[start : start + _BATCH], strict=True)
        batches.append((_padded(list(source)), _padded(list(target))))
    return batches


@torch.inference_mode()
def multipliers(model: Transformer, batches: Sequence[Batch]) -> dict[str, float]:
    """The multiplier for the input of each matrix, by Marian's name of the matrix. model: after layers.split_attention;
    batches: from `translated`."""
    with _largest_inputs(model) as inputs:
        for source, target in batches:
            inputs.source, inputs.target = source != PAD, target != PAD
            model.logits(model(source, target))
    return {name: _multiplier(largest) for name, largest in inputs.largest.items()}


def _multiplier(largest: list[float]) -> float:
    values = torch.tensor(largest, dtype=torch.float64)
    return float(multiplier_of(float(values.mean() + _DEVIATIONS * values.std(correction=0))))


class _LargestInputs:
    """The largest absolute inputs of each matrix.

    largest: by matrix, a value for each batch, and in the decoder for each position; source, target: whether a position
    of the current batch is a token, [B, S] and [B, T].
    """

    def __init__(self) -> None:
        self.largest: dict[str, list[float]] = defaultdict(list)
        self.source = self.target = torch.empty(0, 0)

    def add(self, name: str, x: Tensor, reads_source: bool) -> None:
        """Add the input x [B, S or T, D] of a matrix."""
        tokens = self.source if reads_source else self.target
        largest = x.abs().amax(dim=2).where(tokens, 0)
        self.largest[name] += [float(largest.max())] if reads_source else largest.amax(dim=0).tolist()


@contextmanager
def _largest_inputs(model: Transformer) -> Iterator[_LargestInputs]:
    """The largest inputs that the matrices get while this context is open."""
    largest, hooks = _LargestInputs(), []

    def watch(module: nn.Module, name: str, reads_source: bool) -> None:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            largest.add(name, inputs[0], reads_source)

        hooks.append(module.register_forward_pre_hook(hook))

    for name, _, layer in layers.linear_layers(model):
        watch(layer, name, layers.reads_source(name))
    for name in layers.output_names(model):
        watch(model.output, name, False)
    try:
        yield largest
    finally:
        for hook in hooks:
            hook.remove()


def _padded(rows: list[list[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
