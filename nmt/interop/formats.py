"""The formats of `nmt export`, each declared in one place: `formats`. A new one is added there and in `Name`.

Loads no PyTorch, so that the command line can name them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nmt.errors import NmtError
from nmt.interop.export_options import Options

if TYPE_CHECKING:
    from nmt.checkpoints.model_file import Checkpoint
    from nmt.config.language_pairs import LanguagePairs
    from nmt.interop.parity import Exported

Name = Literal["ctranslate2", "marian", "argos", "bergamot"]


@dataclass(frozen=True)
class Format:
    """How models are written for one engine.

    load_package: raises NmtError if a package that it needs is missing.
    quantizations: the numbers that it has; the first is the default.
    check: raises NmtError, with the setting, for a Transformer that it cannot represent, before any work.
    sample: the lines to compare on if a user gives none; raises NmtError if there are none.
    write: writes model, vocabulary and settings into an existing empty folder; or in place of a file, see `suffix`.
    engine: opens such a folder, to compare it with the model; its `search` and `score` run on the CPU.
    languages: how another program tells a model of several pairs which languages to translate, in one line.
    suffix: the end of the name of a file that it can be instead of a folder, for a model of one pair.
    splits: whether a splitter of sentences is a part of it.
    scores: a table of the scores of what was written, or an empty text.
    explain: lines about what the engine does otherwise than nmt.
    """

    load_package: Callable[[], object]
    quantizations: Sequence[str]
    check: Callable[["Checkpoint"], None]
    sample: Callable[["Checkpoint"], Sequence[str]]
    write: Callable[[Path, "Checkpoint", Options], None]
    engine: Callable[[Path, "Checkpoint"], "Exported"]
    languages: Callable[["LanguagePairs"], str]
    suffix: str | None = None
    splits: bool = False
    scores: Callable[[Path, "Checkpoint", Options], str] | None = None
    explain: Callable[["Checkpoint", Options], Sequence[str]] | None = None

    def choose_quantization(self, name: Name, quantization: str | None) -> str:
        """The one that was asked for, or the default. Raises NmtError if the format does not have it."""
        if quantization is None or quantization in self.quantizations:
            return quantization or self.quantizations[0]
        if len(self.quantizations) == 1:
            [only] = self.quantizations
            fix = f"{name} is always {only}: leave out --quantization"
        else:
            fix = f"choose one of {', '.join(self.quantizations)}"
        raise NmtError(f"--quantization {quantization}: {fix}")


def formats() -> Mapping[Name, Format]:
    """All formats by name."""
    from nmt.interop import parity
    from nmt.interop.argos import export as argos
    from nmt.interop.argos import quality as argos_quality
    from nmt.interop.argos.engine import ArgosPackages
    from nmt.interop.bergamot import export as bergamot
    from nmt.interop.bergamot import inputs as bergamot_inputs
    from nmt.interop.bergamot import quality as bergamot_quality
    from nmt.interop.bergamot.engine import BergamotFolder
    from nmt.interop.ctranslate2 import export as ctranslate2
    from nmt.interop.ctranslate2 import model as ctranslate2_model
    from nmt.interop.ctranslate2.files import QUANTIZATIONS
    from nmt.interop.ctranslate2.folder import CTranslate2Folder
    from nmt.interop.marian import export as marian
    from nmt.interop.marian.engine import MarianEngine

    def random_sample(loaded: "Checkpoint") -> Sequence[str]:
        return parity.sample(loaded.vocabulary.source)

    return {
        "ctranslate2": Format(
            load_package=ctranslate2_model.load_package,
            quantizations=QUANTIZATIONS,
            check=ctranslate2.check,
            sample=random_sample,
            write=lambda folder, loaded, options: ctranslate2.write(folder, loaded, options.quantization),
            engine=lambda folder, loaded: CTranslate2Folder(folder, "cpu"),
            languages=ctranslate2.explain_languages,
        ),
        "marian": Format(
            load_package=marian.load_package,
            quantizations=("float32",),
            check=lambda loaded: marian.check(loaded.config),
            sample=random_sample,
            write=lambda folder, loaded, options: marian.write(folder, loaded),
            engine=lambda folder, loaded: MarianEngine(folder),
            languages=marian.explain_languages,
        ),
        "argos": Format(
            load_package=ctranslate2_model.load_package,
            quantizations=("int8", *(one for one in QUANTIZATIONS if one != "int8")),
            check=argos.check,
            sample=random_sample,
            write=argos.write,
            engine=ArgosPackages,
            languages=lambda pairs: f"a package for each of {', '.join(map(str, pairs.pairs))}",
            suffix=argos.SUFFIX,
            splits=True,
            scores=argos_quality.measure,
            explain=argos.explain,
        ),
        "bergamot": Format(
            load_package=lambda: None,
            quantizations=("int8",),
            check=lambda loaded: bergamot.check(loaded.config),
            sample=bergamot_inputs.sample,
            write=lambda folder, loaded, options: bergamot.write(folder, loaded, options.lines),
            engine=BergamotFolder,
            languages=lambda pairs: "",  # it has one pair
            scores=bergamot_quality.measure,
        ),
    }
