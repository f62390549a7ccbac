"""The models that commands are given: the model file of a run folder, and loading."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nmt.checkpoints import export_folder, model_file
from nmt.config.language_pairs import LanguagePair
from nmt.decoding.model_loader import load_settings
from nmt.decoding.translator import Translator
from nmt.device import prepare_memory
from nmt.errors import NmtError

log = logging.getLogger("nmt")


class Languages(NamedTuple):
    """What a command line says about languages: --to and --from."""

    to: str | None = None
    from_: str | None = None


def log_chosen_files(*models: Path) -> None:
    """Log the model file that is used of each run folder, and its step. Raises NmtError for a folder without one."""
    for model in dict.fromkeys(models):
        if model.is_dir() and not export_folder.is_ctranslate2(model):
            file, step = model_file.locate(model), None
            with suppress(NmtError):  # loading the file reports what is wrong with it
                step = model_file.load_provenance(file).get("step")
            log.info("model: %s%s", file, f", step {step:,}" if isinstance(step, int) else "")


def load_translator(
    model: Path, device: str, overrides: Sequence[str] = (), ensemble: Sequence[Path] = (), glossary: Path | None = None
) -> Translator:
    """`Translator.load`, in a process whose memory is this program's alone."""
    prepare_memory()
    return Translator.load(model, device, ensemble, overrides, glossary)


def choose_languages(model: Path, languages: Languages) -> LanguagePair:
    """The languages of a command, as the model has them; logs them if it has several pairs. Raises NmtError as
    `LanguagePairs.choose`. It reads no weights, so that a mistake is found before the work of loading."""
    known = load_settings(model).data.language_pairs
    pair = known.choose(*languages)
    if known.several:
        log.info("languages: %sinto %s", f"from {pair.source} " if pair.source else "", pair.target)
    return pair
