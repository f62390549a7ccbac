"""A model written for CTranslate2 is the same model; divided, it gives the same probabilities."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.export_models import make_model

from nmt.checkpoints.model_file import Checkpoint
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK
from nmt.errors import NmtError
from nmt.interop.ctranslate2 import files as ctranslate2_files
from nmt.interop.ctranslate2.files import sinusoids
from nmt.models.transformer import positions


def write(folder: Path, made: Checkpoint, change: Any = None, *more: Any, **options: bool) -> None:
    weights = {name: weight.numpy() for name, weight in made.weights.items()}
    if change is not None:
        change(weights)
    ctranslate2_files.write(folder, made.config, made.vocabulary, weights, 60, *more, **options)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("width", [2, 64])
def test_sinusoids_are_the_models(layout: str, width: int) -> None:
    expected = positions.sinusoids(700, width, layout).numpy()  # type: ignore[arg-type]
    found = sinusoids(700, width, layout)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, expected, atol=1e-7)


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
        (lambda weights: weights.pop("encoder.0.self_attention.output.bias"), "output.bias is missing"),
        (lambda weights: weights.update(more=np.zeros(3, np.int8)), "unknown weight more"),
        (
            lambda weights: weights.update({"target_embedding.weight": np.zeros((2, 32), np.float32)}),
            r"target_embedding.weight is \[2, 32\], but its settings need \[300, 32\]",
        ),
    ],
)
def test_weights_of_other_settings_are_refused(change: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(NmtError, match=words):
        write(tmp_path, make_model(), change)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "overrides", [("model.norm=pre",), ("vocabulary.shared=false", "model.tie=none")], ids=" ".join
)
def test_a_divided_model_gives_every_target_the_models_probability(overrides: tuple[str, ...], tmp_path: Path) -> None:
    """With special subwords that have a large share, which forbidding them would give to the others."""
    import ctranslate2

    made = make_model(*overrides)
    name = "output.weight" if "output.weight" in made.weights else "target_embedding.weight"
    table = made.weights[name].clone()
    table[[PAD, UNK, BOS]] = 0.9 * table[[EOS]]
    made = Checkpoint(made.config, made.vocabulary, {**made.weights, name: table}, {})
    write(tmp_path, made, divided=True)
    source, target = [10, 20, 30], [51, 52, 53]
    [found] = ctranslate2.Translator(str(tmp_path)).score_batch(
        [made.vocabulary.source.pieces(source)], [made.vocabulary.target.pieces(target)], max_input_length=0
    )
    model: Any = made.build()
    log_p = model.logits(model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]))).log_softmax(-1)[0]
    assert log_p[:, [PAD, UNK, BOS]].exp().sum(dim=-1).max() > 5e-4
    expected = log_p.gather(1, torch.tensor([[*target, EOS]]).t())[:, 0]
    torch.testing.assert_close(torch.tensor(found.log_probs), expected, atol=5e-5, rtol=0)
