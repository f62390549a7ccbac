"""The sum of the gradients over the ranks, with PyTorch's DDP: each rank holds all weights."""

import warnings

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from nmt.training.objective import Objective


def data_parallel(objective: Objective, gradient_precision: str) -> DistributedDataParallel:
    """The objective, with the first rank's weights, and with gradients that are the mean over the ranks after each
    backward pass outside of `no_sync`. Collective.

    gradient_precision: training.gradient_precision. DDP sums a group of gradients as soon as it is complete, while the
    backward pass goes on. In a CUDA graph, the backward pass is one operation: all gradients are complete at its end,
    and are summed after it.
    """
    hook = {"float32": None, "bfloat16": _mean_in_bfloat16}[gradient_precision]
    with warnings.catch_warnings():  # PyTorch 2.13 renamed an argument that older versions need
        warnings.simplefilter("ignore", FutureWarning)
        parallel = DistributedDataParallel(objective, broadcast_buffers=False, gradient_as_bucket_view=True)
    if hook is not None:
        parallel.register_comm_hook(None, hook)
    return parallel


def _mean_in_bfloat16(
    group: dist.ProcessGroup,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[Tensor]:
    """PyTorch's hook under another name: by its own name, DDP refuses it if PyTorch is built without NCCL, although
    gloo sums bfloat16 too."""
    return bf16_compress_hook(group, bucket)
