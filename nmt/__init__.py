"""Train machine-translation models, and translate with them: `nmt.load(path).translate(lines)`.

`nmt.keeps` cleans training text in programs of your own.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nmt.decoding.translator import Translator

__version__ = "0.1.0"


def load(
    path: "str | Path",
    device: str = "auto",
    *,
    overrides: "Sequence[str]" = (),
    ensemble: "Sequence[str | Path]" = (),
    glossary: "str | Path | None" = None,
) -> "Translator":
    """The translator in a model file, the best one of a run's folder, or an exported CTranslate2 folder, on `device`.

    overrides: such as "decoding.beam_size=8", over the model's own settings; ensemble: models of the same vocabulary
    that translate together with it; glossary: a file of lines `source term TAB target term`. In paths `~` is the home.
    A translator can be pickled, and used in processes that are forked or spawned.
    Raises nmt.errors.NmtError if a file is missing, damaged or not a model, or a setting is wrong.
    """
    from nmt.decoding.opened_model import open_model  # PyTorch is not loaded before it is needed
    from nmt.files.text import to_path

    if isinstance(ensemble, str | os.PathLike):
        raise TypeError("expected a list of models as ensemble, not one: for one, give [model]")
    others = [open_model(to_path(model)) for model in ensemble]
    terms = None if glossary is None else to_path(glossary)
    return open_model(to_path(path)).translator(device, overrides, others, terms)


def keeps(
    sources: "Sequence[str | None]",
    targets: "Sequence[str | None]",
    *,
    source_language: str,
    target_language: str,
    clean: "str | Sequence[str]" = (),
) -> "list[bool]":
    """Which pairs have text on both sides and pass the rules of `data.clean`, except for near-duplicates: [pairs].

    For cleaning text with a library that works with many processes or machines. clean: settings other than their
    defaults, such as "digits=null" or "symbols=0.6". Raises nmt.errors.NmtError for settings that are wrong or need
    more than the text, and ValueError if there are more sources than targets or fewer. None is a text that is missing.
    """
    from nmt.data.cleaning import keeps

    if isinstance(sources, str) or isinstance(targets, str):
        raise TypeError("nmt.keeps takes lists of sources and of targets, not a text")
    settings = (clean,) if isinstance(clean, str) else tuple(clean)
    return keeps(list(zip(sources, targets, strict=True)), (source_language, target_language), settings)
