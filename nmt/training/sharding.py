"""Each rank holds a share of every weight, gradient and moment: PyTorch's FSDP2, for models too large for one device.

A tensor here is one that is shared out (a DTensor, whose shape is the whole one's) or an ordinary one, which every
function lets pass.
"""

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from nmt.distributed.ranks import Ranks
from nmt.training.objective import Objective


def shard(objective: Objective, device: torch.device, ranks: Ranks) -> None:
    """Share the weights out, layer by layer, and bring the shares to their devices.

    A layer's weights are gathered when it computes and let go after it; the embeddings' stay until the
    backward pass.
    """
    mesh = init_device_mesh(device.type, (ranks.size,))
    for layer in (*objective.model.encoder, *objective.model.decoder):
        fully_shard(layer, mesh=mesh)
    fully_shard(objective, mesh=mesh)


def reduce_gradients(objective: nn.Module, wanted: bool) -> None:
    """Whether the coming backward pass sums gradients over the ranks: it should in a step's last micro-batch."""
    assert isinstance(objective, FSDPModule)
    objective.set_requires_gradient_sync(wanted)


def reshard(objective: nn.Module) -> None:
    """Keep the shares alone: a forward pass without a backward one, in validation, leaves the embeddings whole."""
    assert isinstance(objective, FSDPModule)
    objective.reshard()


def gather(tensor: Tensor) -> Tensor:
    """All of it, on every rank. Collective."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def local_shard(tensor: Tensor) -> Tensor:
    """What this rank holds of it."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def shard_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor shared out as the parameter is, or brought to its device. Collective."""
    tensor = tensor.to(parameter.device)
    if isinstance(parameter, DTensor):
        return distribute_tensor(tensor, parameter.device_mesh, parameter.placements)
    return tensor
