"""What is minimised: the plain loss of the model's scores."""

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt.checkpoints import model_file
from nmt.config import schema
from nmt.data.batches.packing import PackedBatch, pack
from nmt.data.batches.padding import Batch, collate_pairs
from nmt.data.subwords.vocabulary import EOS, PAD
from nmt.distributed.ranks import Ranks
from nmt.models.transformer.model import Transformer
from nmt.training import objective as objective_module
from nmt.training.objective import Objective, _Copies, packs

V = 23
SIZES = schema.TransformerConfig(d_model=16, feed_forward=24, layers=1, heads=2, dropout=0.0)


def objective(**training: Any) -> Objective:
    torch.manual_seed(0)
    return Objective(Transformer(SIZES, V, V, PAD), schema.TrainingConfig(**training))


def batch() -> Batch:
    """Source [3, 6] and target [3, 5] with padding."""
    source, target = torch.randint(4, V, (3, 6)), torch.randint(4, V, (3, 5))
    source[1, 4:], target[1, 2:], target[2, 4:] = PAD, PAD, PAD
    return Batch.from_padded(source, target)


def test_weights_have_the_names_that_files_give_them_and_are_the_models_own() -> None:
    of_model = objective()
    of_files = model_file.weights_of(of_model.model)
    own = {name.removeprefix("model."): weight for name, weight in of_model.named_parameters()}
    assert own.keys() == of_files.keys()
    assert all(own[name].data_ptr() == weight.data_ptr() for name, weight in of_files.items())


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("float32", torch.float32), ("tf32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float16)],
)
def test_the_precision_is_that_of_the_products_and_never_of_loss_and_gradients(
    precision: str, dtype: torch.dtype
) -> None:
    of_model = objective(precision=precision)
    seen = set()
    of_model.model.encoder[0].feed_forward.inner.register_forward_hook(lambda *args: seen.add(args[-1].dtype))
    loss, nll = of_model(batch())
    loss.backward()
    assert seen == {dtype}
    assert loss.dtype == nll.dtype == torch.float32
    assert {weight.grad.dtype for weight in of_model.parameters() if weight.grad is not None} == {torch.float32}


def losses_and_gradients(of_model: Objective, pairs: Batch | PackedBatch) -> dict[str, Tensor]:
    of_model.zero_grad()
    loss, nll = of_model(pairs)
    loss.backward()
    gradients = {name: weight.grad for name, weight in of_model.named_parameters() if weight.grad is not None}
    return {"loss": loss.detach(), "nll": nll, **gradients}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre", "positions": "learned", "max_positions": 12},
        {"tie": "none", "key_size": 3, "value_size": 7, "positions": "concatenated"},
        {"positions": "rotary"},
        {"output_bias": True, "decoder_start": "zero"},
    ],
    ids=["post-norm", "learned positions", "widths", "rotary positions", "as in Marian"],
)
def test_packed_sentences_give_the_losses_and_gradients_of_padded_ones(changes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = Transformer(replace(SIZES, layers=2, **changes), V, V, PAD).double()
    for pairs, smoothed in ((0, True), (1, True), (9, True), (9, False)):
        random = np.random.default_rng(pairs)
        source, target = (
            [np.append(random.integers(4, V, length), EOS) for length in random.integers(0, 11, pairs)]
            for _ in range(2)
        )
        of_model = Objective(model, schema.TrainingConfig()).train(smoothed)
        padded = losses_and_gradients(of_model, collate_pairs(source, target))
        for length in (pairs * 11, 120):  # without room, and with many empty places
            if length < max(sum(map(len, source)), sum(map(len, target))):
                continue
            packed = losses_and_gradients(of_model, pack(source, target, length, longest=11))
            assert packed.keys() == padded.keys()
            for name, value in packed.items():
                torch.testing.assert_close(value, padded[name], rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.parametrize("tie", ["all", "none"])  # none: the copy of the output matrix is not used
def test_bfloat16_is_as_exact_as_its_copies_of_the_weights(tie: Any) -> None:
    """Compared with the same model in float64, whose weights were rounded to bfloat16."""
    torch.manual_seed(0)
    smooth = replace(SIZES, tie=tie, activation="swish")  # near its step, the gradient of relu is another one
    of_model = Objective(Transformer(smooth, V, V, PAD), schema.TrainingConfig(precision="bfloat16"))
    pairs = batch()
    exact = Objective(copy.deepcopy(of_model.model).to(torch.bfloat16).double(), schema.TrainingConfig())
    ours, theirs = losses_and_gradients(of_model, pairs), losses_and_gradients(exact, pairs)
    assert float((ours["loss"] - theirs["loss"]).abs()) < 0.01 * float(theirs["loss"])
    for name, gradient in ours.items():
        error, size = (gradient - theirs[name]).norm(), theirs[name].norm()
        assert error < 0.05 * size, name
    copies = [copy for weights in of_model._weights.groups for copy in _Copies.apply(*weights)]
    assert [copy.dtype for copy in copies] == [torch.bfloat16] * len(list(of_model.parameters()))
    assert all(weight.is_leaf and weight.dtype == torch.float32 for weight in of_model.parameters())


ALONE = Ranks()


def on_gpu(*, can_pack: bool = True) -> Objective:
    """What `packs` asks about a model on a GPU."""
    weight = SimpleNamespace(device=torch.device("cuda"))
    return SimpleNamespace(model=SimpleNamespace(output_weight=weight, can_pack=can_pack))  # type: ignore[return-value]


def test_batches_are_packed_on_gpus_unless_settings_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(objective_module, "run_passes", lambda *given: tried.append(given))
    assert packs(on_gpu(), None, ALONE, sharded=False) and len(tried) == 1
    assert packs(on_gpu(), None, ALONE, sharded=True) and len(tried) == 1  # one rank alone cannot try
    assert not packs(on_gpu(), False, ALONE, sharded=False)
    assert not packs(on_gpu(can_pack=False), None, ALONE, sharded=False)
    assert not packs(objective(), None, ALONE, sharded=False)  # on the CPU
    assert packs(objective(), True, ALONE, sharded=False)
