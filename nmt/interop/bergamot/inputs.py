"""The multipliers by which Bergamot rounds the inputs of a model's matrices to 8-bit integers.

They are fixed in advance, by what the inputs are for a sample of text: 127 / (mean + 1.1 · standard deviation) of their
largest absolute values. An input beyond 127 / multiplier is cut off there.
Source: browsermt/marian-dev, scripts/alphas/extract_stats.py, which reads what Marian prints for each product: the
largest value over a batch, of the encoder over all positions, of the decoder over one.

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
_REASON = "Bergamot's 8-bit numbers are scaled"


def validation_sample(loaded: Checkpoint) -> list[str]:
    """Lines of the validation text, evenly spread over it. Raises NmtError if it cannot be read."""
    try:
        sources = parity.validation_lines(loaded)
    except NmtError as error:
        raise NmtError(f"{error}: give --sample FILE with text like that to translate, by which {_REASON}") from None
    return sources[:: -(-len(sources) // _LINES)]


def _usable(loaded: Checkpoint, lines: Sequence[str]) -> list[list[int]]:
    """The subwords of the lines that are not empty and not too long. Raises NmtError if there are none."""
    config = loaded.config
    limit = min(config.longest_source, export_folder.longest_position(config) - 1)
    encoded = loaded.vocabulary.source.encode(list(lines))
    usable = [ids for ids in encoded if 0 < len(ids) <= limit]
    if not usable:
        raise NmtError(
            f"--sample: none of its {len(lines)} lines has 1 to {limit} subwords: give other text, by which {_REASON}"
        )
    return usable


def translated(model: Transformer, loaded: Checkpoint, lines: Sequence[str]) -> list[Batch]:
    """The lines with what the model translates them to greedily. Raises NmtError if no line can be used, or the model
    gives no probabilities."""
    decoding = loaded.config.decoding
    sources = sorted(_usable(loaded, lines), key=len, reverse=True)
    inputs = [SearchInput(ids, decoding.longest_output(len(ids))) for ids in sources]
    engine = PyTorchEngine([model], torch.device("cpu"))
    options = SearchOptions(DecodingConfig(beam_size=1))
    found = engine.search(inputs, options, engine.auto_batch_tokens)
    if not all(found):
        raise NmtError("the scores of the model are not finite: its weights are damaged or too large")
    pairs = [([*ids, EOS], [BOS, *best.tokens]) for ids, (best, *_) in zip(sources, found, strict=True)]
    batches = []
    for start in range(0, len(pairs), _BATCH):
        source, target = zip(*pairs[start : start + _BATCH], strict=True)
        batches.append((_padded(list(source)), _padded(list(target))))
    return batches


@torch.inference_mode()
def multipliers(model: Transformer, batches: Sequence[Batch]) -> dict[str, float]:
    """By Marian's name of each matrix. model: after layers.split_attention; batches: of `translated`."""
    with _largest_inputs(model) as found:
        for source, target in batches:
            found.source, found.target = source != PAD, target != PAD
            model.logits(model(source, target))
    return {name: _multiplier(largest) for name, largest in found.largest.items()}


def _multiplier(largest: list[float]) -> float:
    values = torch.tensor(largest, dtype=torch.float64)
    return float(multiplier_of(float(values.mean() + _DEVIATIONS * values.std(correction=0))))


class _Found:
    """largest: by matrix, of each batch, and in the decoder of each position. source, target: the tokens of the present
    batch, [B, S] and [B, T]."""

    def __init__(self) -> None:
        self.largest: dict[str, list[float]] = defaultdict(list)
        self.source = self.target = torch.empty(0, 0)

    def note(self, name: str, x: Tensor, of_source: bool) -> None:
        """x [B, S or T, D]: the input of a matrix."""
        tokens = self.source if of_source else self.target
        largest = x.abs().amax(dim=2).where(tokens, 0)
        self.largest[name] += [float(largest.max())] if of_source else largest.amax(dim=0).tolist()


@contextmanager
def _largest_inputs(model: Transformer) -> Iterator[_Found]:
    """What the matrices are given while this context is open."""
    found, hooks = _Found(), []

    def watch(module: nn.Module, name: str, of_source: bool) -> None:
        hooks.append(module.register_forward_pre_hook(lambda _, inputs: found.note(name, inputs[0], of_source)))

    for name, _, layer in layers.linear_layers(model):
        watch(layer, name, layers.reads_source(name))
    for name in layers.output_names(model):
        watch(model.output, name, False)
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _padded(rows: list[list[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
