"""Adam, without the start of PyTorch's compiler.

Methods of PyTorch's optimizers import its compiler, if only to tell it not to compile them. That takes longer than all
else that a training on a CPU does before its first step, so the methods below are what these wrap.
"""

import inspect

import torch


class EagerOptimizer(torch.optim.Optimizer):
    """An optimizer that is never compiled."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)


class AdamW(EagerOptimizer, torch.optim.AdamW):
    """torch.optim.AdamW: Adam (Kingma and Ba 2015) with the decay of Loshchilov and Hutter (2019)."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
