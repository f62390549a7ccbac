"""Train machine-translation models, and translate with them: `nmt.load(path).translate(lines)`."""

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
    Raises nmt.errors.NmtError if a file is missing, damaged or not a model, or a setting is wrong.
    """
    from nmt.decoding.translator import Translator  # PyTorch is not loaded before it is needed
    from nmt.files.text import to_path

    others, terms = [to_path(one) for one in ensemble], None if glossary is None else to_path(glossary)
    return Translator.load(to_path(path), device, others, overrides, terms)
