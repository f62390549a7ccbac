"""The formats of `nmt export`, each declared in one place: `formats`. A new one is added there and in `Name`.

Loads no PyTorch, so that the command line can name them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nmt.errors import NmtError

if TYPE_CHECKING:
    from nmt.checkpoints.model_file import Checkpoint
    from nmt.commands.export.parity import Exported
    from nmt.config.language_pairs import LanguagePairs

Name = Literal["ctranslate2", "marian"]


@dataclass(frozen=True)
class Options:
    """What a user chooses for an export. quantization: one of the format's; lines: text like that to translate, on
    which the export is compared."""

    quantization: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Format:
    """How models are written for one engine.

    load_package: raises NmtError if a package that it needs is missing.
    quantizations: the numbers that it has; the first is the default.
    check: raises NmtError, with the setting, for a Transformer that it cannot represent, before any work.
    write: writes model, vocabulary and settings into an existing empty folder.
    engine: opens such a folder, to compare it with the model; its `search` and `score` run on the CPU.
    languages: how another program tells a model of several pairs which languages to translate, in one line.
    """

    load_package: Callable[[], object]
    quantizations: Sequence[str]
    check: Callable[["Checkpoint"], None]
    write: Callable[[Path, "Checkpoint", Options], None]
    engine: Callable[[Path, "Checkpoint"], "Exported"]
    languages: Callable[["LanguagePairs"], str]

    def choose_quantization(self, name: Name, quantization: str | None) -> str:
        """The one that was asked for, or the default. Raises NmtError if the format does not have it."""
        if quantization is None or quantization in self.quantizations:
            return quantization or self.quantizations[0]
        if len(self.quantizations) == 1:
            [only] = self.quantizations
            fix = f"a {name} folder is always {only}: leave out --quantization"
        else:
            fix = f"choose one of {', '.join(self.quantizations)}"
        raise NmtError(f"--quantization {quantization}: {fix}")


def formats() -> Mapping[Name, Format]:
    """All formats by name."""
    from nmt.checkpoints.ctranslate2_files import QUANTIZATIONS
    from nmt.commands.export import ctranslate2, marian
    from nmt.commands.export.marian_engine import MarianEngine
    from nmt.decoding import ctranslate2_model
    from nmt.decoding.ctranslate2_folder import CTranslate2Folder

    return {
        "ctranslate2": Format(
            load_package=ctranslate2_model.load_package,
            quantizations=QUANTIZATIONS,
            check=lambda loaded: None,  # it has every setting of a Transformer
            write=lambda folder, loaded, options: ctranslate2.write(folder, loaded, options.quantization),
            engine=lambda folder, loaded: CTranslate2Folder(folder, "cpu"),
            languages=ctranslate2.explain_languages,
        ),
        "marian": Format(
            load_package=marian.load_package,
            quantizations=("float32",),
            check=lambda loaded: marian.check(loaded.config),
            write=lambda folder, loaded, options: marian.write(folder, loaded),
            engine=lambda folder, loaded: MarianEngine(folder),
            languages=marian.explain_languages,
        ),
    }
