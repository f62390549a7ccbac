"""Every variant of our model is the same model in CTranslate2."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers.equivalence import random_lines, random_pairs
from helpers.export_models import LINES, MARIAN, SEPARATE, VARIANTS, engine_of, make_model

from nmt.checkpoints.model_file import Checkpoint
from nmt.interop import parity
from nmt.interop.ctranslate2 import export as ctranslate2
from nmt.interop.ctranslate2.export import CTranslate2Exporter
from nmt.interop.ctranslate2.files import QUANTIZATIONS
from nmt.interop.ctranslate2.folder import CTranslate2Folder

ONLY_HERE = [
    MARIAN,
    ("model.decoder_start=eos", "model.position_offset=2", "model.positions=concatenated", "model.tie=none"),
    ("model.norm=pre", "model.activation=gelu", "model.bias=false", "model.encoder_layers=2"),
    ("model.positions=concatenated", "model.key_size=24", "model.value_size=24"),
    ("model.positions=rotary", "model.d_model=30", "model.heads=4", "model.key_size=6", "model.value_size=7"),
    ("model.d_model=31", "model.heads=3", "model.key_size=6", "model.value_size=6", "model.positions=learned",
     "model.max_positions=300"),
]  # fmt: skip


@pytest.mark.parametrize("overrides", [*VARIANTS, *ONLY_HERE], ids=" ".join)
def test_every_variant_is_the_same_model(overrides: tuple[str, ...], tmp_path: Path) -> None:
    made = make_model(*overrides)
    ctranslate2.write(tmp_path, made)
    lines = [*LINES, *random_lines(made.vocabulary.source)]
    assert largest_difference(made, tmp_path, lines) < 5e-5
    assert CTranslate2Exporter().translate(tmp_path, made, lines) == parity.translate(made, lines)


def largest_difference(made: Checkpoint, folder: Path, lines: Sequence[str]) -> float:
    """Of log P of random subwords, each after all before it."""
    pairs = random_pairs(made, lines)
    ours, theirs = (engine.score(pairs, 1000) for engine in (engine_of(made), CTranslate2Folder(folder, "cpu")))
    return float(np.abs(np.concatenate(ours) - np.concatenate(theirs)).max())


def test_the_folder_holds_what_text_needs(tmp_path: Path) -> None:
    ctranslate2.write(tmp_path, make_model(*SEPARATE))
    assert {path.name for path in tmp_path.iterdir()} == {
        "model.bin", "config.json", "source_vocabulary.json", "target_vocabulary.json",
        "source.spm", "target.spm", "nmt.yaml", "README.md",
    }  # fmt: skip
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["add_source_eos"] and config["decoder_start_token"] == "<s>"
    assert len(json.loads((tmp_path / "source_vocabulary.json").read_text())) == 301
    assert len(json.loads((tmp_path / "target_vocabulary.json").read_text())) == 297


def test_quantized_weights_are_smaller_and_near(tmp_path: Path) -> None:
    made, sizes = make_model(), dict[str, int]()
    for quantization in QUANTIZATIONS:
        (tmp_path / quantization).mkdir()
        ctranslate2.write(tmp_path / quantization, made, quantization)
        sizes[quantization] = (tmp_path / quantization / "model.bin").stat().st_size
        assert quantization == "float32" or sizes[quantization] < 0.7 * sizes["float32"]
        largest = largest_difference(made, tmp_path / quantization, LINES)
        assert largest < 1 and (largest < 1e-4) == (quantization == "float32")
    assert sizes["int8_float16"] == sizes["int8_bfloat16"] < sizes["int8"] == sizes["int8_float32"]


def test_tied_matrices_are_written_once(tmp_path: Path) -> None:
    sizes = {}
    for tie in ("all", "none"):
        (tmp_path / tie).mkdir()
        ctranslate2.write(tmp_path / tie, make_model(f"model.tie={tie}"))
        sizes[tie] = (tmp_path / tie / "model.bin").stat().st_size
    assert sizes["none"] - sizes["all"] > 2 * 300 * 32 * 4 - 200
