"""Sharding with PyTorch's FSDP2: each rank holds a part of every weight, gradient and moment of Adam.

For models too large for one device. Every function accepts sharded tensors (DTensors, which have the shape of the full
tensor) and ordinary ones.
"""

import sys
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from nmt.distributed.ranks import Ranks
from nmt.training.objective import Objective

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def shard(objective: Objective, device: torch.device, ranks: Ranks, gradient_precision: str) -> None:
    """Shard the weights layer by layer, and move the shards to their devices.

    A layer's weights are gathered before it computes and freed afterwards; weights outside the layers stay gathered
    until the backward pass. The objective becomes an FSDPModule, with its methods.
    gradient_precision: training.gradient_precision. FSDP2 sums the gradients of micro-batches in it too.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    sum_types = {"float32": None, "bfloat16": torch.bfloat16}  # None: the type of the weights
    policy = MixedPrecisionPolicy(reduce_dtype=sum_types[gradient_precision])
    mesh = init_device_mesh(device.type, (ranks.size,))
    for layer in objective.model.layers():
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(objective, mesh=mesh, mp_policy=policy)


def gather(tensor: Tensor) -> Tensor:
    """The full tensor, on every rank. Collective."""
    return tensor.full_tensor() if _is_sharded(tensor) else tensor


def local_shard(tensor: Tensor) -> Tensor:
    """This rank's shard."""
    return tensor.to_local() if _is_sharded(tensor) else tensor


def shard_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A full tensor sharded like the parameter, or only moved to its device if that is not sharded. Collective."""
    tensor = tensor.to(parameter.device)
    if _is_sharded(parameter):
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(tensor, parameter.device_mesh, parameter.placements)
    return tensor


def _is_sharded(tensor: Tensor) -> TypeGuard["DTensor"]:
    """Whether the tensor is a DTensor. If PyTorch's module for DTensors is not loaded, there are none; loading it takes
    half a second."""
    if "torch.distributed.tensor" not in sys.modules:
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)
