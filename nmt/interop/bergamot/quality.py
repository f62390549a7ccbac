"""What 8-bit numbers cost a Bergamot model: BLEU and chrF on validation text, beside those of the model."""

from collections.abc import Iterator
from pathlib import Path

import torch

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import DecodingConfig
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.translator import Translator
from nmt.files.table import table
from nmt.interop.argos.quality import Text, scores, texts
from nmt.interop.bergamot.engine import BergamotFolder
from nmt.interop.export_options import Options

_GREEDY = DecodingConfig(beam_size=1)  # as the engine searches


def measure(folder: Path, loaded: Checkpoint, options: Options) -> str:
    """The scores of each text as a table; empty if there is no text."""
    rows = [row for text in texts(loaded, options) for row in _rows(text, folder, loaded)]
    head = ["text", "greedy search", "weights", "BLEU", "chrF"]
    return table([head, *rows], left=(0, 1, 2), rule=True) if rows else ""


def _rows(text: Text, folder: Path, loaded: Checkpoint) -> Iterator[list[str]]:
    model = PyTorchEngine([loaded.build()], torch.device("cpu"))
    engines = (("nmt", "float32", model), ("Bergamot, computed by nmt", "int8", BergamotFolder(folder, loaded)))
    for name, weights, engine in engines:
        translations = Translator(engine, loaded.vocabulary, _GREEDY).translate(text.sources)
        yield [f"{text.pair}, {len(text.sources):,} lines", name, weights, *scores(text, translations)]
