"""The engine for a folder that was written by `nmt export --format ctranslate2`."""

import json
from pathlib import Path

from nmt.data.subwords.vocabulary import EOS
from nmt.errors import NmtError
from nmt.interop import export_folder
from nmt.interop.ctranslate2.engine import CTranslate2Engine
from nmt.interop.ctranslate2.model import CTranslate2Model, load_package


class CTranslate2Folder(CTranslate2Engine):
    """The model in an exported folder, with the `settings` and the `vocabulary` of the export."""

    def __init__(self, folder: Path, device: str = "auto"):
        """Load a folder. device: `cpu`, `cuda`, `cuda:N`, or `auto` for CUDA if CTranslate2 finds it. Raises NmtError
        if the package or the device is missing, or if the folder is not complete."""
        load_package()  # raises before the files are read
        self.settings = export_folder.load_config(folder)
        self.vocabulary = export_folder.load_vocabulary(folder, self.settings)

        try:
            model = CTranslate2Model(self.vocabulary, device, folder)
        except (RuntimeError, ValueError) as error:
            raise NmtError(f"{folder}: CTranslate2 cannot load it: {error}: export it again") from None
        _check_pieces(folder, model.source_pieces, model.target_pieces)
        # positions: of the longest source or output, without EOS, for which the folder's table is long enough.
        super().__init__(model, export_folder.longest_position(self.settings) - 1)

    def check_precision(self, precision: str) -> None:
        """Raise NmtError if decoding.precision differs from the folder's type of weights, which the export has
        fixed."""
        computed = self.model.compute_type.partition("_")[0]
        if precision not in ("model", computed):
            raise NmtError(
                f"decoding.precision: {precision}: this CTranslate2 folder uses {self.model.compute_type} here: "
                f"set decoding.precision=model, or export with --quantization {precision}"
            )


def _check_pieces(folder: Path, source: list[str], target: list[str]) -> None:
    """Raise NmtError if the SentencePiece models and the CTranslate2 model have different subwords. The source's
    special subwords are not compared, because CTranslate2 uses the target's names for them."""
    sides = ("source", export_folder.SOURCE, source, EOS + 1), ("target", export_folder.TARGET, target, 0)
    for side, name, pieces, first in sides:
        separate = folder / f"{side}_vocabulary.json"
        path = separate if separate.is_file() else folder / "shared_vocabulary.json"
        try:
            model_pieces = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise NmtError(f"{path}: cannot be read: {error}: export it again") from None
        if not isinstance(model_pieces, list):
            raise NmtError(f"{path}: not a list of subwords: export it again")
        if model_pieces[first:] != pieces[first:]:
            raise NmtError(
                f"{folder / name}: its {len(pieces)} subwords differ from the {len(model_pieces)} of {path.name}: it "
                "belongs to another model: export it again"
            )
