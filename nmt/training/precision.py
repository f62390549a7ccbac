"""Replaces `training.precision: auto` by a number format, before anything is built with it."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from nmt.config.schema import Config
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.training import state

log = logging.getLogger("nmt")


def with_chosen_precision(config: Config, device: torch.device, ranks: Ranks) -> Config:
    """The settings with a number format in place of `auto`, the same on all ranks. Collective.

    A resumed run keeps the format of its saved state on every device. A new run gets bfloat16 if this is fast on the
    devices of all ranks, otherwise float32. Raises NmtError if other settings do not go with the saved state's format.
    """
    if config.training.precision != "auto":
        return config
    fastest = set(ranks.all_gather(fastest_precision(device)))
    saved = state.saved(Path(config.run_dir)) if ranks.first else None
    chosen = saved[0].config.training.precision if saved else "auto"
    reason = "as when the run began"
    if chosen == "auto":
        chosen = "bfloat16" if fastest == {"bfloat16"} else "float32"
        reason = f"on {device.type}"
    chosen, reason = ranks.broadcast((chosen, reason))
    log.info("training.precision: auto: %s, %s", chosen, reason)
    config = replace(config, training=replace(config.training, precision=chosen))
    if problems := config.conflicts():
        raise NmtError(f"training.precision: auto: {chosen}, {reason}: {'; '.join(problems)}")
    return config


def fastest_precision(device: torch.device) -> Literal["bfloat16", "float32"]:
    """bfloat16 on a GPU that multiplies it in hardware (NVIDIA: compute capability 8.0, Ampere), otherwise float32."""
    native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if native else "float32"
