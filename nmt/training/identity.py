"""Decides whether a saved state can be resumed with the present settings, data and vocabulary.

Which settings may change follows from their declared effects (`nmt.config.declaration.setting`).
"""

import logging
import shlex
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from nmt.checkpoints.run_folder import CONFIG
from nmt.config import writer
from nmt.config.declaration import setting_at
from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.training.progress import Progress
from nmt.training.start_from import Start
from nmt.training.validation_key import recorded_text_key, search_settings

log = logging.getLogger("nmt")

# If a setting that affects one of these changes, the saved weights or the position in the data do not fit.
_FIXED = frozenset({"text", "vocabulary", "tokens", "order", "model"})
_VOCABULARY_FILES = ("vocabulary.source_model", "vocabulary.target_model")


@dataclass(frozen=True)
class Identity:
    """The properties that a run and a saved state must share for resuming. The keys are hashes of content.

    data_key: the folder of the token store and the number of skipped pairs; validation_key: see `validation_key`;
    start: the model that the run started from; packed: whether batches are packed, on which the pairs of each step
    depend.
    """

    config: Config
    data_key: str
    vocabulary_key: str
    validation_key: str
    start: Start | None = None
    packed: bool = False

    def check_resumable(self, saved: "Identity", run: Path) -> None:
        """Log which settings changed. Raises NmtError for a change that makes resuming impossible."""
        check_settings(self.config, saved.config, run)
        changed = writer.differences(saved.config, self.config)
        if self.vocabulary_key != saved.vocabulary_key:
            settings = writer.flatten(self.config)
            files = ", ".join(name for name in _VOCABULARY_FILES if settings[name] != "null") or "data.train"
            raise _not_resumable(run, "another vocabulary", _affecting(changed, {"text", "vocabulary"}), files)
        if self.data_key != saved.data_key:
            micro_batch = {path: both for path, both in changed.items() if path == "training.micro_batch_tokens"}
            raise _not_resumable(run, "other training data", _affecting(changed, {"text"}) | micro_batch)
        if self.packed != saved.packed:
            before, now = ("packed" if identity.packed else "padded" for identity in (saved, self))
            raise NmtError(
                f"{run} contains a run with {before} batches, and training.packed={str(self.packed).lower()} would "
                f"give {now} ones with other pairs: set training.packed=null, or set a new run_dir"
            )
        for path, (before, now) in changed.items():
            log.info("setting changed: %s: %s in the saved run, %s now", path, before, now)


def check_settings(config: Config, saved: Config, run: Path) -> None:
    """Raises NmtError if settings changed so that the saved state in `run` cannot be resumed; it names them. config: as
    returned by `start_from.with_recorded_start`."""
    changed = _affecting(writer.differences(saved, config), _FIXED)
    if fatal := {path: both for path, both in changed.items() if not _may_be_moved(path, *both)}:
        raise _not_resumable(run, "other settings", fatal)


def _affecting(changed: Mapping[str, tuple[str, str]], results: Set[str]) -> dict[str, tuple[str, str]]:
    """The changed settings that affect one of these results."""
    return {path: both for path, both in changed.items() if setting_at(Config, path).affects & results}


def _may_be_moved(path: str, before: str, now: str) -> bool:
    """Whether only the content of the file matters, which is compared after reading. Adding or removing the file also
    counts as a change."""
    setting = setting_at(Config, path)
    return setting.by_content and not (setting.path and "null" in (before, now))


def _not_resumable(
    run: Path, difference: str, changed: Mapping[str, tuple[str, str]], files: str = "data.train"
) -> NmtError:
    """The error for a saved run with a difference, such as "other settings". changed: the settings that can be the
    reason; files: the settings whose files have changed, if no setting has."""
    reasons = [f"{path}: {before} in the saved run, {now} now" for path, (before, now) in changed.items()]
    restore = [
        path if setting_at(Config, path.partition("[")[0]).is_list else shlex.quote(f"{path}={before}")
        for path, (before, _) in changed.items()
    ]
    saved = f" (nmt train {shlex.quote(str(run / CONFIG))} resumes with the saved settings)"
    return NmtError(
        f"{run} contains a run with {difference} ({'; '.join(reasons) or f'the files of {files} have changed'}): "
        f"restore {' '.join(restore) or 'them'}, or set a new run_dir{saved if restore else ''}"
    )


def comparable_scores(progress: Progress, saved: Identity, now: Identity) -> dict[str, dict[str, float]]:
    """The scores at the start that are still comparable with new scores: none if the validation text changed, only the
    losses if the search or the part of the text changed. A log message says what is omitted. Before the first step all
    scores may be omitted without loss: the start model is then validated again."""
    at_start, losses = progress.at_start, dict[str, dict[str, float]]()
    for name, scores in at_start.items():
        losses[name] = {key: score for key, score in scores.items() if key == "validation_loss"}
    same_text, same_search = (key(saved) == key(now) for key in (_validated_text, _validating_search))
    if not at_start or (same_text and (same_search or losses == at_start)):
        return at_start
    if progress.step == 0:
        return {}
    if same_text:
        log.info(
            "validation: the search settings have changed: only losses are still compared with the losses at the start"
        )
        return losses
    log.info("validation: the text has changed: scores are no longer compared with the scores at the start")
    return {}


def _validated_text(identity: Identity) -> str:
    return recorded_text_key(identity.validation_key)


def _validating_search(identity: Identity) -> list[object]:
    return search_settings(identity.config.training, identity.config.decoding)
