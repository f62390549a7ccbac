"""Train machine-translation models, and translate with them: `nmt.load(path).translate(lines)`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.decoding.translator import Translator

__version__ = "0.1.0"


def load(path: str, device: str = "auto") -> "Translator":
    """The translator in a model file, the best one of a run's folder, or an exported CTranslate2 folder, on `device`.

    Raises nmt.errors.NmtError where the file is missing, damaged or not a model.
    """
    from nmt.decoding.translator import Translator  # PyTorch is not loaded before it is needed

    return Translator.load(path, device)
