"""The count of operations: what PyTorch counts while a real step runs."""

import dataclasses

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import schema
from nmt.data.batches.padding import Batch
from nmt.models import build
from nmt.models.transformer.model import Transformer
from nmt.training.objective import Objective

V = 37
TINY = schema.TransformerConfig(d_model=16, feed_forward=24, layers=1, heads=2, dropout=0.1)


def training_flops(sizes: schema.TransformerConfig, vocabulary: int, sentences: int, source: int, target: int) -> float:
    return build.build_on_meta(sizes, vocabulary, vocabulary, 0).training_flops(sentences, source, target)


def counter() -> FlopCounterMode:
    """PyTorch's, which knows `addmm` but not its in-place twin, with which the loss adds up a gradient."""

    def product(_: list[int], a: list[int], b: list[int], **__: object) -> int:
        return 2 * a[0] * a[1] * b[1]

    return FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: product})


def counted(
    sizes: schema.TransformerConfig, sentences: int, source: int, target: int, vocabularies: tuple[int, int]
) -> int:
    """What PyTorch counts in a forward and a backward pass over full sentences of equal lengths.

    Attention runs as plain matrix products: PyTorch has no count for its fused kernel on the CPU, and counts for
    those of GPUs the scores that their backward passes compute a second time. The loss is a function of its own that
    takes its gradients in the forward pass; the counter sees every product there too.
    """
    objective = Objective(Transformer(sizes, *vocabularies, 0), schema.TrainingConfig()).train()
    sources, targets = torch.ones(sentences, source).long(), torch.ones(sentences, target).long()
    with sdpa_kernel(SDPBackend.MATH), counter() as operations:
        loss, _ = objective(Batch.from_padded(sources, targets))
        loss.backward()
    return operations.get_total_flops()


@pytest.mark.parametrize(
    "sizes",
    [
        dataclasses.replace(TINY, encoder_layers=1, decoder_layers=2, key_size=3, value_size=5),
        dataclasses.replace(TINY, heads=4, feed_forward=7, norm="pre", bias=False, activation="gelu"),
        dataclasses.replace(TINY, tie="none", positions="learned"),
    ],
    ids=["widths and depths", "pre-norm", "three matrices"],
)
@pytest.mark.parametrize(("sentences", "source", "target"), [(1, 1, 1), (2, 9, 4)])
def test_it_is_what_pytorch_counts(sizes: schema.TransformerConfig, sentences: int, source: int, target: int) -> None:
    ours = training_flops(sizes, V, sentences, sentences * source, sentences * target)
    assert ours == counted(sizes, sentences, source, target, (V, V))


def test_recomputed_layers_count_once() -> None:
    """It is a measure of the work that was wanted: recomputing is not made to look like speed."""
    model = Transformer(TINY, V, V, 0)
    model.recompute = True
    objective = Objective(model, schema.TrainingConfig()).train()
    ids = torch.ones(2, 6).long()
    with sdpa_kernel(SDPBackend.MATH), counter() as operations:
        objective(Batch.from_padded(ids, ids))[0].backward()
    assert training_flops(TINY, V, 2, 12, 12) < operations.get_total_flops()
