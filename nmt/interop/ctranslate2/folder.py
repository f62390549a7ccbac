"""A folder written by `nmt export --format ctranslate2`, as an engine."""

import json
from pathlib import Path

from nmt.data.subwords.vocabulary import EOS
from nmt.errors import NmtError
from nmt.interop import export_folder
from nmt.interop.ctranslate2.engine import CTranslate2Engine
from nmt.interop.ctranslate2.model import CTranslate2Model, load_package


class CTranslate2Folder(CTranslate2Engine):
    """The model in an exported folder; `settings` and `vocabulary` are those it was exported with."""

    def __init__(self, folder: Path, device: str = "auto"):
        """Load a folder onto `cpu`, `cuda`, `cuda:N` or `auto`: CUDA if CTranslate2 finds it. Raises NmtError if the
        package or the device is missing, or the folder is not complete."""
        load_package()  # raises before the files are read
        self.settings = export_folder.load_config(folder)
        self.vocabulary = export_folder.load_vocabulary(folder, self.settings)

        try:
            model = CTranslate2Model(self.vocabulary, device, folder)
        except (RuntimeError, ValueError) as error:
            raise NmtError(f"{folder}: CTranslate2 cannot load it: {error}: export it again") from None
        _check_pieces(folder, model.source_pieces, model.target_pieces)
        # Positions: the longest source or output, without EOS, that the folder's table covers.
        super().__init__(model, export_folder.longest_position(self.settings) - 1)

    def check_precision(self, precision: str) -> None:
        """Raise NmtError if decoding.precision differs from the folder's: it was chosen by the export."""
        computed = self.model.compute_type.partition("_")[0]
        if precision not in ("model", computed):
            raise NmtError(
                f"decoding.precision: {precision}: this CTranslate2 folder uses {self.model.compute_type} here: "
                f"set decoding.precision=model, or export with --quantization {precision}"
            )


def _check_pieces(folder: Path, source: list[str], target: list[str]) -> None:
    """Raise NmtError if the SentencePiece models have other subwords than the folder's model. The source's special
    subwords are not compared: CTranslate2 uses the target's names for them."""
    sides = ("source", export_folder.SOURCE, source, EOS + 1), ("target", export_folder.TARGET, target, 0)
    for side, name, pieces, first in sides:
        own = folder / f"{side}_vocabulary.json"
        path = own if own.is_file() else folder / "shared_vocabulary.json"
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise NmtError(f"{path}: cannot be read: {error}: export it again") from None
        if not isinstance(known, list):
            raise NmtError(f"{path}: not a list of subwords: export it again")
        if known[first:] != pieces[first:]:
            raise NmtError(
                f"{folder / name}: its {len(pieces)} subwords differ from the {len(known)} of {path.name}: it "
                "belongs to another model: export it again"
            )
