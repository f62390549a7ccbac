"""Train machine-translation models, `nmt.train(config)`, and translate with them, `nmt.load(path).translate(lines)`.

`nmt.keeps` cleans training text in programs of your own.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from nmt.config.schema import Config
    from nmt.decoding.translator import Translator

__version__ = "0.1.0"


def load(
    path: "str | Path",
    device: str = "auto",
    *,
    overrides: "Sequence[str]" = (),
    ensemble: "Sequence[str | Path]" = (),
    glossary: "str | Path | Mapping[str, str] | None" = None,
) -> "Translator":
    """The translator in a model file, the best one of a run's folder, or an exported CTranslate2 folder, on `device`.

    overrides: such as "decoding.beam_size=8", over the model's own settings; ensemble: models of the same vocabulary
    that translate together with it; glossary: a file of terms (docs/glossaries.md), or terms such as {"dog|dogs":
    "Hund|Hunde"}. In paths `~` is the home.
    A translator works in this process only: each process calls `load`.
    Raises nmt.errors.NmtError if a file is missing, damaged or not a model, or a setting is wrong; ValueError for terms
    that are empty or have two translations.
    """
    from nmt.files.text import to_path
    from nmt.loading.opened_model import open_model  # PyTorch is not loaded before it is needed
    from nmt.terms.glossary import Glossary

    if isinstance(ensemble, str | os.PathLike):
        raise TypeError("expected a list of models as ensemble, not one: for one, give [model]")
    others = [open_model(to_path(model)) for model in ensemble]
    if glossary is None or isinstance(glossary, str | os.PathLike):
        terms = None if glossary is None else to_path(glossary)
        return open_model(to_path(path)).translator(device, overrides, others, terms)
    return open_model(to_path(path)).translator(device, overrides, others, Glossary(glossary.items()))


def train(
    config: "str | Path | Mapping[str, Any] | Config",
    *,
    overrides: "Sequence[str]" = (),
    device: str = "auto",
    on_metrics: "Callable[[dict[str, Any]], object] | None" = None,
) -> "Path":
    """Train a model, or resume its run, as `nmt train` does. Returns the run folder, which `load` takes.

    config: a YAML file, or its settings as a mapping; overrides: such as "training.max_steps=800". on_metrics: is
    called with each row that is added to metrics.jsonl, a dict, by the first process. If it raises, training saves its
    state and stops, and the exception is raised here; the run can be resumed. Ctrl-C saves and raises
    KeyboardInterrupt; after training.max_seconds or another signal, the function returns, and the run can be resumed.
    Progress is logged by the logger "nmt". Raises nmt.errors.NmtError for wrong settings, and for problems with data,
    device or run folder.
    """
    from nmt.commands.train import train_in_program

    return train_in_program(config, overrides, device, on_metrics)


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
    from nmt.data.cleaning.cleaner import keeps

    if isinstance(sources, str) or isinstance(targets, str):
        raise TypeError("nmt.keeps takes lists of sources and of targets, not a text")
    settings = (clean,) if isinstance(clean, str) else tuple(clean)
    return keeps(list(zip(sources, targets, strict=True)), (source_language, target_language), settings)
