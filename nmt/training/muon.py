"""Muon: orthogonalized momentum, for the matrices in a model's layers.

Sources: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"
(https://kellerjordan.github.io/posts/muon); Liu et al. 2025, "Muon is Scalable for LLM Training", section 2.2, for the
size of the update. torch.optim.Muon of newer PyTorch versions computes the same in bfloat16, one matrix after the
other, and treats stacked matrices as one.
"""

from collections import defaultdict
from collections.abc import Mapping

import torch
from torch import Tensor

from nmt.training.adam import EagerOptimizer

_MOMENTUM = 0.95
_COEFFICIENTS = 3.4445, -4.7750, 2.0315
_ITERATIONS = 5
_ROOT_MEAN_SQUARE = 0.2  # about that of Adam's updates, so that Adam's learning rate and schedule suit Muon


class Muon(EagerOptimizer):
    """Muon for some matrices, and another optimizer for the other weights, with one learning rate.

    For a matrix of n rows and m columns with the gradient G, in each step

        M ← 0.95 M + 0.05 G,   W ← W - rate · 0.2 · sqrt(max(n, m)) · orthogonal(0.05 G + 0.95 M)

    after the decay W ← W - rate · weight_decay · W.
    """

    def __init__(
        self,
        matrices: Mapping[Tensor, list[int]],
        others: torch.optim.Optimizer,
        weight_decay: float,
        dtype: torch.dtype = torch.float32,
    ):
        """matrices: as `TranslationModel.matrices`; others: the optimizer of all other weights; dtype: of the
        orthogonalization. bfloat16 is exact enough for it (Jordan et al.), and fast on GPUs."""
        super().__init__([{"params": list(matrices), "weight_decay": weight_decay}], {"lr": 0.0})
        self._matrices, self._group, self._others, self._dtype = dict(matrices), self.param_groups[0], others, dtype
        self.param_groups += others.param_groups
        others.state = self.state  # so that everything to be saved is in one dictionary

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient."""
        self._others.step()
        rate, decay = self._group["lr"], self._group["weight_decay"]
        trained = {weight: weight.grad for weight in self._matrices if weight.grad is not None}
        if not trained:
            return
        for weight in trained:
            if not self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        gradients = list(trained.values())
        momenta = [self.state[weight]["momentum"] for weight in trained]
        # One operation for all matrices: a GPU computes them in less time than it takes to start one for each matrix.
        torch._foreach_lerp_(momenta, gradients, 1 - _MOMENTUM)
        directions = torch._foreach_lerp(gradients, momenta, _MOMENTUM)
        if decay:
            torch._foreach_mul_(list(trained), 1 - rate * decay)
        by_shape: defaultdict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)  # matrices and directions
        for weight, direction in zip(trained, directions, strict=True):
            rows = self._matrices[weight]
            for part, part_direction in zip(torch.split(weight, rows), torch.split(direction, rows), strict=True):
                by_shape[part.shape].append((part, part_direction))
        for shape, pairs in by_shape.items():
            parts, directions = zip(*pairs, strict=True)
            updates = orthogonal(torch.stack(directions).to(self._dtype)).to(parts[0].dtype)
            size = _ROOT_MEAN_SQUARE * max(shape) ** 0.5
            torch._foreach_add_(parts, updates.mul_(-rate * size).unbind())


def orthogonal(matrices: Tensor) -> Tensor:
    """[N, n, m] → matrices with the same singular vectors and singular values of about 1: between 0.7 and 1.2, but less
    where a singular value was below about a hundredth of the others.

    The Newton-Schulz iteration with the coefficients of Jordan et al., which needs matrix products only.
    """
    a, b, c = _COEFFICIENTS
    x = matrices / matrices.flatten(1).norm(dim=1).clamp(min=1e-7)[:, None, None]
    tall = x.shape[1] > x.shape[2]
    x = x.transpose(1, 2) if tall else x
    for _ in range(_ITERATIONS):
        gram = torch.bmm(x, x.transpose(1, 2))
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.transpose(1, 2) if tall else x
