"""The models that a command is given."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config.language_pairs import LanguagePair
from nmt.decoding.translator import Translator
from nmt.loading.opened_model import OpenedModel, open_model
from nmt.machine import prepare_memory

log = logging.getLogger("nmt")


@dataclass(frozen=True)
class ModelsOfCommand:
    """What a command translates with, opened, and the languages that it is asked for."""

    model: OpenedModel
    ensemble: Sequence[OpenedModel]
    pair: LanguagePair

    @classmethod
    def open(
        cls, model: Path, ensemble: Sequence[Path] = (), to: str | None = None, from_: str | None = None
    ) -> "ModelsOfCommand":
        """Open the models. Raises NmtError where one is none, or does not know the languages: no weights are read, so
        a mistake is found before any work."""
        first, *others = map(open_model, (model, *ensemble))
        return cls(first, others, first.languages.choose(to, from_))

    @property
    def files(self) -> list[Path]:
        """All files that a translator is read from."""
        return [file for model in (self.model, *self.ensemble) for file in model.files]

    def log(self) -> None:
        """Log the model file that is used of each run folder, and the languages if there is a choice."""
        log_chosen_files(self.model, *self.ensemble)
        if self.model.languages.several:
            log.info("languages: %sinto %s", f"from {self.pair.source} " if self.pair.source else "", self.pair.target)

    def translator(self, device: str, overrides: Sequence[str] = (), glossary: Path | None = None) -> Translator:
        """As `OpenedModel.translator`, for the languages, in a process whose memory is this program's alone."""
        prepare_memory()
        translator = self.model.translator(device, overrides, self.ensemble, glossary)
        translator.languages.used = self.pair
        return translator


def log_chosen_files(*models: OpenedModel) -> None:
    """Log the model file that is used of each run folder, and its step."""
    for path, model in {model.path: model for model in models}.items():
        if model.file != path:
            step = model.provenance.get("step")
            log.info("model: %s%s", model.file, f", step {step:,}" if isinstance(step, int) else "")
