"""Adam without the import of PyTorch's compiler.

PyTorch wraps some optimizer methods in functions that import its compiler, only to exclude the methods from
compilation. This import takes almost as long as importing PyTorch itself, and 140 MB of memory. The classes below use
the unwrapped methods.
"""

import inspect

import torch


class EagerOptimizer(torch.optim.Optimizer):
    """An optimizer that is never compiled."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)


class AdamW(EagerOptimizer, torch.optim.AdamW):
    """torch.optim.AdamW: Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019)."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
