"""The weights of a model that is written for CTranslate2. Searches of `test_engine` prove that it is the same model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.export_models import make_model

from nmt.checkpoints.model_file import Checkpoint
from nmt.errors import NmtError
from nmt.interop.ctranslate2 import files as ctranslate2_files


def write(folder: Path, made: Checkpoint, change: Any = None, *more: Any) -> None:
    weights = dict(made.weights)
    if change is not None:
        change(weights)
    ctranslate2_files.write(folder, made.config, made.vocabulary, weights, 60, *more)


def test_two_products_with_int8_weights_fit_into_16_bits(tmp_path: Path) -> None:
    """On CPUs without VNNI their sum must; inputs are up to 255 there."""
    made = make_model()
    matrix = made.weights["target_embedding.weight"].clone()
    matrix[2] = 0
    made = Checkpoint(made.config, made.vocabulary, {**made.weights, "target_embedding.weight": matrix}, {})
    write(tmp_path, made, None, "int8")
    content = (tmp_path / "model.bin").read_bytes()
    start = content.index(b"decoder/embeddings/weight\0") + len(b"decoder/embeddings/weight\0") + 1 + 2 * 4 + 1 + 4
    weights = np.frombuffer(content[start : start + matrix.numel()], np.int8).reshape(matrix.shape).astype(np.int64)
    largest = np.abs(weights).max(axis=1)
    assert 2 * 255 * largest.max() < 1 << 15 and (np.delete(largest, 2) == 63).all()
    scale = matrix.abs().amax(dim=1, keepdim=True).numpy() / 63
    np.testing.assert_allclose(weights * scale, matrix.numpy(), atol=float(0.51 * scale.max()))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda weights: weights.pop("encoder.0.self_attention.output.bias"), "no weight encoder.0.self_attention"),
        (lambda weights: weights.update(more=torch.zeros(3, dtype=torch.int8)), "weight more does not exist"),
        (
            lambda weights: weights.update({"target_embedding.weight": torch.zeros(2, 32)}),
            r"target_embedding.weight is \[2, 32\], but its settings need \[300, 32\]",
        ),
    ],
)
def test_weights_of_other_settings_are_refused(change: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(NmtError, match=words):
        write(tmp_path, make_model(), change)
    assert not list(tmp_path.iterdir())
