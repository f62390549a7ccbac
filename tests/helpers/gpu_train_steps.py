"""What training steps ask of a GPU, counted on a pretended one: prints it as JSON.

    python -m helpers.gpu_train_steps

In a process of its own. The first step is one of the paper's base model in bfloat16. Those after it are of a small
model with other settings; before the last one, the step was made to read a number of the GPU.
"""

from helpers import pretended_gpu  # isort: skip  (before torch)

import functools
import json
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.config.schema import TrainingConfig, TransformerConfig
from nmt.data.batches.batching import Step
from nmt.data.batches.packing import pack
from nmt.data.batches.padding import collate_pairs
from nmt.data.subwords.vocabulary import EOS, PAD
from nmt.distributed.ranks import Ranks
from nmt.models import build
from nmt.training import loss, objective
from nmt.training.train_step import TrainStep

SENTENCES, LENGTH, BATCH_TOKENS, VOCABULARY = 864, 28, 25_000, 32_000
BASE, SMALL = TransformerConfig(), TransformerConfig(d_model=64, feed_forward=128, layers=1, heads=4)


@torch.library.custom_op("fake::attention", mutates_args=())
def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    raise NotImplementedError


@torch.library.custom_op("fake::attention_backward", mutates_args=())
def _attention_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    raise NotImplementedError


@_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return torch.empty_like(query)


@_attention_backward.register_fake
def _(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _save(ctx: Any, inputs: Any, output: Tensor) -> None:
    *tensors, mask = inputs
    ctx.save_for_backward(*tensors, output, mask)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    return *_attention_backward(gradient, *ctx.saved_tensors), None


_attention.register_autograd(_gradients, setup_context=_save)


def _fused_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **_: Any) -> Tensor:
    """One kernel, as on a GPU: without a backend PyTorch would take it apart."""
    if torch.is_autocast_enabled("cuda"):
        query, key, value = (x.to(torch.get_autocast_dtype("cuda")) for x in (query, key, value))
    return _attention(query, key, value, attn_mask)


def counted_step(
    config: TransformerConfig, precision: str, *, packed: bool, clip_norm: float | None = None
) -> pretended_gpu.Count:
    """The second step of a training without compiled layers; if it clips gradients, it computes their norm."""
    F.scaled_dot_product_attention = _fused_attention
    objective.Objective.to = lambda self, _: self  # type: ignore[assignment, method-assign]  # it is there already
    rows = [np.full(LENGTH, EOS)] * SENTENCES
    batch = pack(rows, rows, BATCH_TOKENS, 128) if packed else collate_pairs(rows, rows)
    tokens = SENTENCES * LENGTH
    step = Step([batch], SENTENCES, tokens, tokens, 2 * BATCH_TOKENS)
    training = TrainingConfig(precision=precision, packed=packed, compile=False, clip_norm=clip_norm)  # type: ignore[arg-type]
    with pretended_gpu.mode() as fake:
        model = build.build_on_meta(config, VOCABULARY, VOCABULARY, PAD)
        pretended_gpu.to_fake(model, fake)
        with pretended_gpu.Count(fake, training=True) as count:
            loss._in_triton = lambda *_: functools.partial(_difference, count)  # type: ignore
            loss._ADDS_IN_FLOAT32 = True
            train_step = TrainStep(model, training, 1, pretended_gpu.DEVICE, Ranks())
            assert train_step.objective.packed == packed, "packed batches do not work on the pretended GPU"
            train_step.prepare(batch)
            for number in (1, 2):
                count.clear()
                train_step.run(step, number, 1e-3)
    return count


def _difference(
    count: pretended_gpu.Count, logits: Tensor, target: Tensor, confidence: float, uniform: float, needed: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """As nmt.training.triton_loss."""
    nll, of_target = (logits.new_empty(len(target), dtype=torch.float32) for _ in range(2))
    count.kernels["loss kernel"] += 1
    return nll, of_target, logits


def main() -> None:
    counts = [
        counted_step(BASE, "bfloat16", packed=True),
        *(
            counted_step(SMALL, precision, packed=packed, clip_norm=1.0)
            for precision, packed in (("float32", True), ("bfloat16", False))
        ),
    ]
    update = TrainStep._update
    TrainStep._update = lambda step, *given: (step.losses[0].item(), update(step, *given))[1]  # type: ignore
    counts.append(counted_step(SMALL, "bfloat16", packed=True))
    print(json.dumps([{"kernels": sum(one.kernels.values()), "waits": one.waits} for one in counts]))


if __name__ == "__main__":
    main()
