"""What a program reads of tensors: on a GPU it would wait there until everything before has been computed."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_READS = {"_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select"}


class Reads(TorchDispatchMode):
    """Counts the operations that read, by name, and those that do not, which on a GPU are a kernel each or none."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.others = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        by_mask = name in ("index", "index_put_") and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if name in _READS or by_mask:
            self.reads.append(name)
        else:
            self.others += 1
        return function(*args, **(kwargs or {}))


class OtherTensors(TorchDispatchMode):
    """Finds the operations that read tensors which are neither given nor computed inside. A CUDA graph would read them
    at the same addresses, even after they have been freed."""

    def __init__(self, *given: Tensor) -> None:
        super().__init__()
        self.known, self.found = list(given), list[str]()  # all are kept, so that no address is used again

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        addresses = {x.untyped_storage().data_ptr() for x in self.known}
        read = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor) and x.numel()]
        if not all(x.untyped_storage().data_ptr() in addresses for x in read):
            self.found.append(function.overloadpacket.__name__)
        self.known += [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        return result
