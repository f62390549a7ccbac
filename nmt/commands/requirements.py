"""Checks before any work that this machine has what the settings need: optional packages and compilers.

`nmt prepare` does not check the requirements of training. Files, folders, devices and memory are checked where they are
first used, which is also before the data is prepared: in `run_folder`, `ranks.process_group`, `start_from.read`,
`memory.check_model` and the beginning of `prepare.prepare`.
"""

import logging

import torch

from nmt.config.schema import Config
from nmt.data.sources import arrow_tables
from nmt.data.sources.corpus import files_of
from nmt.errors import NmtError
from nmt.evaluation.metrics import bleu_metric
from nmt.files import compression
from nmt.training import compilation, run_log

log = logging.getLogger("nmt")


def check_data(config: Config) -> None:
    """Raises NmtError for a corpus that cannot be read on this machine."""
    for corpus in (*config.data.train, *config.data.held_out):
        arrow_tables.check_installed(corpus)
    for path in files_of(config.data):
        compression.check_readable(path)


def check_training(config: Config, device: torch.device) -> None:
    """Check what training and its data need. Raises NmtError for missing requirements. Warns if something is replaced:
    BLEU of words by BLEU of characters, and compiled layers by uncompiled ones."""
    check_data(config)
    training = config.training
    if training.tensorboard:
        run_log.summary_writer()
    if training.packed and device.type == "cuda" and (reason := compilation.missing_compiler(device)):
        raise NmtError(f"training.packed: true: packed batches do not work here ({reason}): set it to null")
    if training.compile and (reason := compilation.missing_compiler(device)):
        log.warning("training.compile: torch.compile does not work here, continuing without it (%s)", reason)
    if training.validation_bleu:
        for corpus in config.data.held_out:
            bleu_metric(config.data.pair_of(corpus).target)
