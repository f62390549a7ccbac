"""One run put together: prepared data, validation by search, and the trainer."""

import dataclasses
import hashlib
import logging
import os
import time
from pathlib import Path

import torch

from nmt import __version__, device
from nmt.checkpoints import run_folder
from nmt.commands.validate import Validator, validation_key
from nmt.config import reader
from nmt.config.schema import Config
from nmt.data import prepare
from nmt.data.vocabulary import Vocabulary
from nmt.device import usable_cores
from nmt.distributed import ranks as distributed
from nmt.distributed.environment import seconds_gone
from nmt.distributed.ranks import Ranks
from nmt.distributed.stopping import StopRequest
from nmt.training import memory, state
from nmt.training.data import Material
from nmt.training.trainer import Trainer

log = logging.getLogger("nmt")


def train(config: Config, device_name: str, *, profile: bool = False) -> StopRequest:
    """Prepare the data where that is not done, then train or resume; returns the request that ended it early, if any.

    Where a launcher started this process it is one rank of several. `profile`: time and trace some steps.
    Raises NmtError for what is wrong with data, device or run folder, and when the loss is no longer a number.
    """
    seconds = config.training.max_seconds
    deadline = time.monotonic() - seconds_gone() + (float("inf") if seconds is None else seconds)
    with distributed.process_group(device_name) as (ranks, where):
        device.keep_freed_memory()
        # Said once aloud, as translating in threads does at each validation: whether one has been must not matter.
        torch.set_num_threads(_threads(ranks))
        _check_started_alike(config, ranks)
        if ranks.first:  # before anything is built for other settings
            run_folder.check_config(Path(config.run_dir), config)
            if saved := state.saved(Path(config.run_dir)):
                identity, _ = saved
                state.check_settings(config, identity.config, Path(config.run_dir))
        memory.check_model(config, where, ranks.local_size)
        with ranks.local_first():
            prepared = material(config, ranks)
        return Trainer(config, prepared, where, ranks, deadline=deadline, profile=profile).run()


def _check_started_alike(config: Config, ranks: Ranks) -> None:
    """NmtError where ranks were started with other programs or settings than the first.

    Before anything else that all do together: settings decide what that is.
    """
    versions = {"the version of nmt": __version__, "the version of PyTorch": torch.__version__}
    ranks.agree({**versions, **reader.flatten(config)})


def _threads(ranks: Ranks) -> int:
    """Threads that a rank computes with: its share of the machine, unless OMP_NUM_THREADS asks for several."""
    unasked = os.environ.get("OMP_NUM_THREADS", "1") == "1"  # what `torchrun` sets by itself is 1
    if ranks.size > 1 and unasked:
        return max(1, usable_cores() // ranks.local_size)
    return torch.get_num_threads()


def material(config: Config, ranks: Ranks = Ranks()) -> Material:  # noqa: B008 (frozen)
    """What the config trains and validates on, built or found again. Logs the report on the data."""
    prepared = prepare.prepare(config)
    log.info("%s", prepared.report)
    pairs = prepared.validation if config.training.validation_bleu else None
    return Material(
        vocabulary=prepared.vocabulary,
        train=prepared.train,
        validation=prepared.validation_ids,
        translate_validation=Validator(prepared.vocabulary, pairs, config, ranks) if pairs else None,
        data_key=prepared.data_key,
        vocabulary_key=_key(prepared.vocabulary),
        validation_key=validation_key(prepared.validation, config),
        data_report=dataclasses.asdict(prepared.report),
    )


def _key(vocabulary: Vocabulary) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(proto).digest() for proto in vocabulary.protos)).hexdigest()
