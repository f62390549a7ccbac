"""The models of a command."""

import gc
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from nmt.config.language_pairs import LanguagePair
from nmt.decoding.translator import Translator
from nmt.loading.opened_model import OpenedModel, open_model
from nmt.machine import prepare_memory

log = logging.getLogger("nmt")


@dataclass(frozen=True)
class ModelsOfCommand:
    """The opened models of a command, and the requested languages."""

    model: OpenedModel
    ensemble: Sequence[OpenedModel]
    pair: LanguagePair

    @classmethod
    def open(
        cls, model: Path, ensemble: Sequence[Path] = (), to: str | None = None, from_: str | None = None
    ) -> "ModelsOfCommand":
        """Open the models without their weights, so that mistakes are found before any work. Raises NmtError for a path
        that is not a model, and if the model does not have the languages."""
        first, *others = map(open_model, (model, *ensemble))
        return cls(first, others, first.languages.choose(to, from_))

    @property
    def files(self) -> list[Path]:
        """All files that a translator is read from."""
        return list(chain.from_iterable(model.files for model in (self.model, *self.ensemble)))

    def log(self) -> None:
        """Log the chosen model file of each run folder, and the languages if there is a choice."""
        log_chosen_files(self.model, *self.ensemble)
        if self.model.languages.several:
            log.info("languages: %sinto %s", f"from {self.pair.source} " if self.pair.source else "", self.pair.target)

    def translator(self, device: str, overrides: Sequence[str] = (), glossary: Path | None = None) -> Translator:
        """As `load_translator`, for the requested languages."""
        translator = load_translator(self.model, device, overrides, self.ensemble, glossary, self.pair)
        translator.languages.used = self.pair
        return translator


def load_translator(
    model: OpenedModel,
    device: str,
    overrides: Sequence[str] = (),
    ensemble: Sequence[OpenedModel] = (),
    glossary: Path | None = None,
    pair: LanguagePair | None = None,
) -> Translator:
    """As `OpenedModel.translator`. Only for programs that own the process, because it changes the settings of the
    memory allocator and of the garbage collector."""
    prepare_memory()
    translator = model.translator(device, overrides, ensemble, glossary, pair)
    gc.freeze()  # no later collection examines the objects of the imports and the model: they are needed to the end
    return translator


def log_chosen_files(*models: OpenedModel) -> None:
    """Log the chosen model file of each run folder, and its step."""
    for path, model in {model.path: model for model in models}.items():
        if model.file != path:
            step = model.provenance.get("step")
            log.info("model: %s%s", model.file, f", step {step:,}" if isinstance(step, int) else "")
