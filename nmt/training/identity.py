"""Whether a saved state can be resumed: which settings, data and vocabulary it is of.

Which settings may change follows from what they are declared to affect (`nmt.config.declaration.setting`).
"""

import logging
import shlex
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from nmt.config import writer
from nmt.config.declaration import setting_at
from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.training.progress import Progress
from nmt.training.start_from import Start
from nmt.training.validation_key import recorded_text_key, search_settings

log = logging.getLogger("nmt")

# With another value of a setting that affects one of these, the saved weights or the position in the data do not fit.
_FIXED = frozenset({"text", "vocabulary", "tokens", "order", "model"})
_VOCABULARY_FILES = ("vocabulary.source_model", "vocabulary.target_model")


@dataclass(frozen=True)
class Identity:
    """What a run must have in common with a saved state to resume it. The keys are hashes of content.

    data_key: the folder of the token store, and how many pairs are skipped; validation_key: see `validation_key`;
    start: the model that the run started from.
    """

    config: Config
    data_key: str
    vocabulary_key: str
    validation_key: str
    start: Start | None = None

    def check_resumable(self, saved: "Identity", run: Path) -> None:
        """Log which settings changed. Raises NmtError for a change with which the saved state cannot be resumed."""
        check_settings(self.config, saved.config, run)
        changed = writer.differences(saved.config, self.config)
        if self.vocabulary_key != saved.vocabulary_key:
            settings = writer.flatten(self.config)
            files = ", ".join(name for name in _VOCABULARY_FILES if settings[name] != "null") or "data.train"
            raise _not_resumable(run, "another vocabulary", _affecting(changed, {"text", "vocabulary"}), files)
        if self.data_key != saved.data_key:
            micro_batch = {path: both for path, both in changed.items() if path == "training.micro_batch_tokens"}
            raise _not_resumable(run, "other training data", _affecting(changed, {"text"}) | micro_batch)
        for path, (before, now) in changed.items():
            log.info("setting changed: %s: %s in the saved run, %s now", path, before, now)


def check_settings(config: Config, saved: Config, run: Path) -> None:
    """Raises NmtError naming the changed settings with which the saved state in `run` cannot be resumed. config: as
    `start_from.with_recorded_start` gives it."""
    changed = _affecting(writer.differences(saved, config), _FIXED)
    if fatal := {path: both for path, both in changed.items() if not _may_be_moved(path, *both)}:
        raise _not_resumable(run, "other settings", fatal)


def _affecting(changed: Mapping[str, tuple[str, str]], results: Set[str]) -> dict[str, tuple[str, str]]:
    """The changes of settings that affect one of these results."""
    return {path: both for path, both in changed.items() if setting_at(Config, path).affects & results}


def _may_be_moved(path: str, before: str, now: str) -> bool:
    """Whether only the content counts, which is compared once it is read. That a file is there, or not, counts too."""
    own = setting_at(Config, path)
    return own.by_content and not (own.path and "null" in (before, now))


def _not_resumable(run: Path, what: str, changed: Mapping[str, tuple[str, str]], files: str = "data.train") -> NmtError:
    """The error for a run with `what`; changed: the settings that can be the reason; files: the settings whose files
    have changed where no setting has."""
    reasons = [f"{path}: {before} in the saved run, {now} now" for path, (before, now) in changed.items()]
    restore = [
        path if setting_at(Config, path.partition("[")[0]).is_list else shlex.quote(f"{path}={before}")
        for path, (before, _) in changed.items()
    ]
    return NmtError(
        f"{run} holds a run with {what} ({'; '.join(reasons) or f'the files of {files} have changed'}): "
        f"restore {' '.join(restore) or 'them'}, or set a new run_dir"
    )


def comparable_scores(progress: Progress, saved: Identity, now: Identity) -> dict[str, dict[str, float]]:
    """The scores at the start that those of now can be compared with: none for other text; without those of another
    search, or of another part of the text. What is left out is logged. Before the first step nothing is lost: the model
    to start from is validated again where there are no scores."""
    at_start = progress.at_start
    losses = {
        name: {key: score for key, score in scores.items() if key == "validation_loss"}
        for name, scores in at_start.items()
    }
    same_text, same_search = (key(saved) == key(now) for key in (_validated_text, _validating_search))
    if not at_start or (same_text and (same_search or losses == at_start)):
        return at_start
    if progress.step == 0:
        return {}
    if same_text:
        log.info("validation: another search: from now on, only losses are compared with those at the start")
        return losses
    log.info("validation: another text: from now on, nothing is compared with the scores at the start")
    return {}


def _validated_text(identity: Identity) -> str:
    return recorded_text_key(identity.validation_key)


def _validating_search(identity: Identity) -> list[object]:
    return search_settings(identity.config.training, identity.config.decoding)
