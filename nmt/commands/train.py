"""Trains a model: prepares the data, and gives it to the trainer together with the validation by search."""

import logging
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from nmt import __version__, machine
from nmt.checkpoints import model_file, run_folder
from nmt.commands import requirements
from nmt.commands.validate import Validator, score_all
from nmt.config import schema, writer
from nmt.config.schema import Config
from nmt.data import prepare
from nmt.decoding.confidence import LEAST_SENTENCES, correlation_warning
from nmt.distributed import ranks as distributed
from nmt.distributed.environment import check_launch, check_variables, seconds_since_launch
from nmt.distributed.ranks import Ranks
from nmt.distributed.stopping import StopRequest
from nmt.files.text import content_key, to_path
from nmt.training import memory, schedule, start_from, state
from nmt.training.data import TrainingData
from nmt.training.identity import check_settings
from nmt.training.precision import with_chosen_precision
from nmt.training.run_log import OnMetrics
from nmt.training.start_from import Start
from nmt.training.trainer import Trainer
from nmt.training.validation_key import validation_key

log = logging.getLogger("nmt")


def train(
    config: Config, device_name: str, *, profile: bool = False, on_metrics: OnMetrics | None = None
) -> StopRequest:
    """Prepare the data if needed, then train or resume. Returns the request to stop, which may be empty.

    A process that was started by a launcher is one of several ranks. profile: time and trace some steps; on_metrics: is
    called with each row of metrics, as in `Trainer`. Raises NmtError for problems with data, device or run folder, and
    if the loss is no longer a number.
    """
    seconds = config.training.max_seconds
    deadline = time.monotonic() - seconds_since_launch() + (float("inf") if seconds is None else seconds)
    with distributed.process_group(device_name) as (ranks, where):
        machine.prepare_memory()
        machine.make_products_repeatable()
        # Set explicitly, because decoding sets it in each validation, and results must not depend on validations.
        torch.set_num_threads(_threads(ranks))
        # Before all other collective operations, because the settings decide which ones there are.
        versions = {"the version of nmt": __version__, "the version of PyTorch": torch.__version__}
        ranks.agree({**versions, **writer.flatten(config)})
        run = Path(config.run_dir)
        if ranks.first:
            run_folder.check_config(run, config)
        with run_folder.locked(run) if ranks.first else nullcontext():
            if ranks.first:
                requirements.check_training(config, where)
                if problem := schedule.problem(config.training, config.model.width, config.training.max_steps):
                    log.warning("%s", problem)
            # Raises NmtError for settings that do not fit a saved state or an initial model, before anything is built.
            config, start = ranks.broadcast(with_initial_model(config) if ranks.first else (config, None))
            config = with_chosen_precision(config, where, ranks)
            memory.check_model(config, where, ranks.local_size, start.vocabulary if start else None)
            with ranks.local_first():
                data = training_data(config, ranks, start)
            trainer = Trainer(config, data, where, ranks, deadline=deadline, profile=profile, on_metrics=on_metrics)
            stop, best = trainer.run(), run / model_file.BEST
            has_ended = ranks.first and not stop.reason and best.exists()
            if has_ended and (warning := correlation_warning(model_file.load_provenance(best))):
                log.warning("%s: %s", best, warning)
            return stop


def train_in_program(
    config: str | Path | Mapping[str, Any] | Config,
    overrides: Sequence[str],
    device_name: str,
    on_metrics: OnMetrics | None,
) -> Path:
    """As `nmt.train`."""
    if isinstance(overrides, str):
        raise TypeError("expected a list of overrides, not a string: for one override, give [override]")
    if on_metrics is not None and not callable(on_metrics):
        raise TypeError(f"on_metrics: a function of one argument, not {on_metrics!r}")
    check_variables()
    check_launch()
    if isinstance(config, str | os.PathLike):
        config = run_folder.load_config(to_path(config), overrides)
    else:
        config = schema.from_dict(config if isinstance(config, Mapping) else writer.to_dict(config), overrides)
    stop = train(config, device_name, on_metrics=on_metrics)
    if stop.failure is not None:
        raise stop.failure
    if stop.hook_raised:
        raise RuntimeError("on_metrics raised an exception in the first process")
    if stop.interrupted:
        raise KeyboardInterrupt
    return Path(config.run_dir)


def _threads(ranks: Ranks) -> int:
    """The number of threads of a rank: its share of the cores, unless the user has set OMP_NUM_THREADS."""
    not_set = os.environ.get("OMP_NUM_THREADS", "1") == "1"  # `torchrun` sets it to 1
    if ranks.size > 1 and not_set:
        return max(1, machine.usable_cores() // ranks.local_size)
    return torch.get_num_threads()


def with_initial_model(config: Config) -> tuple[Config, Start | None]:
    """The settings of a run and its initial model. A resumed run gets the model from the saved state, and does not need
    the model's file any more.

    Raises NmtError for settings that do not fit the saved state, and as `start_from.read`.
    """
    if newest := state.saved(Path(config.run_dir)):
        saved, _ = newest
        config = start_from.with_recorded_start(config, saved.config, saved.start)
        check_settings(config, saved.config, Path(config.run_dir))
        return config, saved.start
    return start_from.read(config)


def training_data(
    config: Config,
    ranks: Ranks = Ranks(),  # noqa: B008 (frozen)
    start: Start | None = None,
) -> TrainingData:
    """The data for training and validation, which is built if it is missing. Logs a summary of the data."""
    # One rank on each machine compares the tokens with their checksums, while the others wait.
    prepared = prepare.prepare(config, start.vocabulary if start else None, verify=ranks.local_rank == 0)
    log.info("%s", prepared.summary)
    training, sets = config.training, prepared.validation
    translated = sets if training.validation_bleu else ()
    validators = [Validator(one, prepared.vocabulary, config, ranks, prepared.source_text) for one in translated]
    sentences = sum(len(validator.sources) for validator in validators)
    if sets and sentences < LEAST_SENTENCES:
        message = "no confidence: %d validation sentences are translated, a calibration needs %d: see nmt calibrate"
        log.info(message, sentences, LEAST_SENTENCES)
    translate = (lambda model: score_all(validators, validators[0].engine(model))) if validators else None
    key = validation_key(sets, training, config.decoding)
    return TrainingData(prepared, translate, content_key(prepared.vocabulary.digests), key, start)
