"""One run put together: prepared data, validation by search, and the trainer."""

import hashlib
import logging

import torch

from nmt import device
from nmt.config import Config
from nmt.data import preparation
from nmt.data.vocabulary import Vocabulary
from nmt.training.stopping import StopRequest
from nmt.training.trainer import Material, Trainer
from nmt.validation import Validator

log = logging.getLogger("nmt")


def train(config: Config, device_name: str) -> StopRequest:
    """Prepare the data where that is not done, then train or resume; returns the request that ended it early, if any.

    Raises NmtError for what is wrong with data, device or run folder, and when the loss is no longer a number.
    """
    where = device.choose(device_name)
    device.keep_freed_memory()
    # Said once aloud, as translating in threads does at each validation: whether one has been must not matter.
    torch.set_num_threads(torch.get_num_threads())
    return Trainer(config, material(config), where).run()


def material(config: Config) -> Material:
    """What the config trains and validates on, built or found again. Logs the report on the data."""
    prepared = preparation.prepare(config)
    log.info("%s", prepared.report)
    pairs = prepared.validation if config.training.validation_bleu else None
    return Material(
        vocabulary=prepared.vocabulary,
        train=prepared.train,
        validation=prepared.validation_ids,
        translate_validation=Validator(prepared.vocabulary, pairs, config) if pairs else None,
        data_key=prepared.data_key,
        vocabulary_key=_key(prepared.vocabulary),
    )


def _key(vocabulary: Vocabulary) -> str:
    protos = vocabulary.source.proto, vocabulary.target.proto
    return hashlib.sha256(b"".join(hashlib.sha256(proto).digest() for proto in protos)).hexdigest()
