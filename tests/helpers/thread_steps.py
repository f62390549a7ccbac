"""Prints whether training steps give the same weights with other numbers of threads: a program of its own, as
OMP_WAIT_POLICY, without which threads that have no core are slow, must be set before it starts.

    python -m helpers.thread_steps 'SETTING=VALUE SETTING=VALUE' '' …

prints a list for each argument: of the numbers of threads that give other weights, losses or norms than one thread
does.
"""

import sys

import torch
from torch import Tensor

from nmt.config import schema
from nmt.data.batches.batching import Step
from nmt.data.batches.padding import Batch
from nmt.data.subwords.vocabulary import PAD
from nmt.distributed.ranks import Ranks
from nmt.machine import make_products_repeatable
from nmt.models import build
from nmt.training.train_step import TrainStep

V, WIDTH, LONGEST = 600, 96, 20
SIZES = [f"model.d_model={WIDTH}", "model.feed_forward=160", "model.layers=1", "model.heads=3"]


def long_step() -> Step:
    """Enough tokens that PyTorch and its libraries divide every operation among threads."""
    generator = torch.Generator().manual_seed(1)
    source, target = torch.randint(4, V, (2, 128, LONGEST), generator=generator)
    for ids in (source, target):
        ids[torch.arange(LONGEST) >= torch.randint(1, LONGEST + 1, (128, 1), generator=generator)] = PAD
    counts = [int((ids != PAD).sum()) for ids in (source, target)]
    return Step([Batch.from_padded(source, target)], 128, *counts, 2 * source.numel())


def trained(overrides: list[str], threads: int) -> list[Tensor]:
    """Two steps' weights, losses and norm of the gradient."""
    data = {"source_language": "en", "target_language": "de", "train": [{"source": "a.en", "target": "a.de"}]}
    config = schema.from_dict({"run_dir": "run", "data": data}, SIZES + overrides)
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = build.build(config.model, V, V, PAD)
    train_step = TrainStep(model, config.training, 1, torch.device("cpu"), Ranks())
    for number in (1, 2):
        train_step.run(long_step(), number, 0.01, norm=True)
    assert train_step.gradient_norm is not None
    return [*model.parameters(), train_step.losses, train_step.gradient_norm]


if __name__ == "__main__":
    make_products_repeatable()
    for argument in sys.argv[1:]:
        with_one = trained(argument.split(), 1)
        other = [n for n in (2, 3) if not all(map(torch.equal, trained(argument.split(), n), with_one))]
        print(other)
