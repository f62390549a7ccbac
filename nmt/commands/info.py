"""`nmt info`: describes a model from its file, without reading the weights."""

from pathlib import Path
from typing import Any

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.export import EXPORTERS, obstacle
from nmt.decoding.confidence import CALIBRATION
from nmt.interop import export_folder, model_facts, model_table
from nmt.interop.ctranslate2.files import SHORTLIST


def describe(model: Path) -> tuple[dict[str, Any], str]:
    """All facts of a model file, of the best model of a run folder, or of an exported CTranslate2 folder: as JSON
    values, and as a table. The keys are always the same; facts that the model does not state are None. Raises NmtError
    if there is no model, or if it is damaged."""
    if export_folder.is_ctranslate2(model):
        config, (_, calibration) = export_folder.load_config(model), export_folder.load_known(model)
        entry = {} if calibration is None else {CALIBRATION: calibration.to_json()}
        loaded = Checkpoint(config, export_folder.load_vocabulary(model, config), {}, entry, model)
        files = sorted(filter(Path.is_file, model.iterdir()))
        about = {"file": str(model), "kind": "CTranslate2 folder", "shortlist": (model / SHORTLIST).is_file()}
        reasons = {}
    else:
        files = [model_file.locate(model)]
        loaded = model_file.load_outline(files[0])
        about = {"file": str(files[0]), "kind": "model file", "shortlist": loaded.shortlist is not None}
        reasons = {format: obstacle(format, loaded) for format in EXPORTERS}
    facts = {
        "name": Path(loaded.config.run_dir).name,
        **about,
        "bytes": sum(file.stat().st_size for file in files),
        **model_facts.facts(loaded),
        "export": {format: {"possible": reason is None, "reason": reason} for format, reason in reasons.items()},
    }
    return facts, model_table.to_text(facts, loaded)
