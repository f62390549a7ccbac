"""`nmt info`: describes a model from its file, without reading the weights."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.export import EXPORTERS, obstacle
from nmt.config.metrics import TRANSLATION_METRICS
from nmt.decoding.confidence import CALIBRATION, Calibration
from nmt.interop import export_folder, model_facts
from nmt.interop.ctranslate2.files import SHORTLIST
from nmt.interop.model_facts import ScoredSet

# Of the provenance: entries of the JSON object that are copied as they are.
_TRAINING = ("step", "target_tokens", "nmt", "torch", model_file.DATE)
_MOST_PAIRS = 20  # in the table
_ORIGIN = ("averaged", "selected", "ema_decay", "imported_from", "start_from")


@dataclass(frozen=True)
class Info:
    """A model without the values of its weights. file: the model file, or the exported folder."""

    file: Path
    is_exported: bool
    loaded: Checkpoint
    has_shortlist: bool


def read(model: Path) -> Info:
    """The model in a file, the best model of a run folder, or the model in an exported CTranslate2 folder. Raises
    NmtError if there is none, or if it is damaged."""
    if not export_folder.is_ctranslate2(model):
        file = model_file.locate(model)
        loaded = model_file.load_outline(file)
        return Info(file, False, loaded, loaded.shortlist is not None)
    config = export_folder.load_config(model)
    _, calibration = export_folder.load_known(model)
    entry = {} if calibration is None else {CALIBRATION: calibration.to_json()}
    loaded = Checkpoint(config, export_folder.load_vocabulary(model, config), {}, entry, model)
    return Info(model, True, loaded, (model / SHORTLIST).is_file())


def to_json(info: Info) -> str:
    """One JSON object with all facts. The keys are always the same; facts that the file does not state are null."""
    return json.dumps(facts(info), ensure_ascii=False, indent=2)


def facts(info: Info) -> dict[str, Any]:
    """All facts, as JSON values."""
    loaded = info.loaded
    pairs, vocabulary = loaded.config.data.language_pairs, loaded.vocabulary
    imported, text = model_facts.licenses(loaded)
    calibration = Calibration.of(loaded.provenance)
    return {
        "name": Path(loaded.config.run_dir).name,
        "file": str(info.file),
        "kind": "CTranslate2 folder" if info.is_exported else "model file",
        "bytes": sum(path.stat().st_size for path in (info.file.iterdir() if info.is_exported else [info.file])),
        "language_pairs": [
            {
                "source": pair.source,
                "target": pair.target,
                "source_tokens": list(pairs.tags(pair)),
                "target_tokens": list(pairs.tags(pair, side=1)),
            }
            for pair in pairs.pairs
        ],
        "model": {**model_facts.sizes(loaded), "parameters": model_facts.parameter_count(loaded) or None},
        "training": {key: loaded.provenance.get(key) for key in _TRAINING},
        "weights": {key: loaded.provenance.get(key) for key in _ORIGIN},
        "scores": list(map(_score_facts, model_facts.scored_sets(loaded))),
        "vocabulary": {
            "source": len(vocabulary.source),
            "target": len(vocabulary.target),
            "shared": vocabulary.shared,
            "origin": None if info.is_exported else model_facts.vocabulary_origin(loaded),
        },
        "training_text": model_facts.training_text(loaded),
        "licenses": {"training_text": text, "imported_model": imported},
        "export": _export_facts(info),
        "calibration": calibration and calibration.to_json(),
        "shortlist": info.has_shortlist,
    }


def _score_facts(scored: ScoredSet) -> dict[str, Any]:
    return {
        "set": scored.name,
        "source": scored.languages.source,
        "target": scored.languages.target,
        "sentences": scored.sentences,
        "compared": scored.compared,
        "scores": {
            name: {"score": value, "signature": scored.signatures.get(name)} for name, value in scored.scores.items()
        },
    }


def _export_facts(info: Info) -> dict[str, Any]:
    """For each format, whether the model can be exported, and if not, the reason."""
    if info.is_exported:
        return {}
    reasons = {format: obstacle(format, info.loaded) for format in EXPORTERS}
    return {format: {"possible": reason is None, "reason": reason} for format, reason in reasons.items()}


def to_text(info: Info) -> str:
    """All facts as a table of two columns."""
    rows = list(_rows(info))
    width = max(len(label) for label, _ in rows) + 2
    lines, before = [], ""
    for label, value in rows:
        lines.append(f"{'' if label == before else label:{width}}{value}")
        before = label
    return "\n".join(lines)


def _rows(info: Info) -> Iterator[tuple[str, str]]:
    """Each line of the table. Lines of one fact follow each other and have the same label."""
    loaded, stated = info.loaded, facts(info)
    yield "name", stated["name"]
    yield stated["kind"], f"{info.file} ({stated['bytes'] / 2**20:,.1f} MiB)"
    pairs = stated["language_pairs"]
    for pair in pairs[:_MOST_PAIRS]:
        line = f"{pair['source']}-{pair['target']}"
        for side in ("source", "target"):
            if tokens := pair[f"{side}_tokens"]:
                line += f", {' '.join(tokens)} before the {side}"
        yield "languages", line
    if len(pairs) > _MOST_PAIRS:
        yield "languages", f"{len(pairs) - _MOST_PAIRS} more: --format json lists all"
    yield "architecture", model_facts.sizes_line(loaded)
    if not info.is_exported:
        yield "parameters", f"{stated['model']['parameters']:,}"
    yield from _training_rows(stated)
    for scored in model_facts.scored_sets(loaded):
        for name, value in scored.scores.items():
            signature = f" ({scored.signatures[name]})" if name in scored.signatures else ""
            yield "validation", f"{scored}: {TRANSLATION_METRICS[name].label} {value:.2f}{signature}"
    yield "vocabulary", model_facts.vocabulary_line(loaded.vocabulary)
    if origin := stated["vocabulary"]["origin"]:
        yield "vocabulary", origin
    for corpus in stated["training_text"]:
        count = f", {corpus['pairs']:,} pairs" if corpus["pairs"] is not None else ""
        yield "training text", f"{corpus['name']}, {corpus['languages']}{count}"
        for file in corpus["files"]:
            yield "training text", f"  {file['name']}: SHA-256 {file['sha256']}"
        if corpus["fingerprint"]:
            yield "training text", f"  fingerprint {corpus['fingerprint']}"
    for text, license in stated["licenses"].items():
        if license:
            yield "license", f"of the {text.replace('_', ' ')}: {license}"
    for format, answer in stated["export"].items():
        yield "export", f"{format}: {'yes' if answer['possible'] else answer['reason']}"
    if calibration := Calibration.of(loaded.provenance):
        yield "confidence", f"calibrated with {calibration}, correlation with chrF {calibration.correlation:.2f}"
    yield "shortlist", "yes" if info.has_shortlist else "no"


def _training_rows(stated: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    training, weights = stated["training"], stated["weights"]
    if training["step"] is not None:
        tokens = f", {training['target_tokens']:,} target subwords" if training["target_tokens"] else ""
        yield "training", f"{training['step']:,} steps{tokens}"
    if training["date"] or training["nmt"]:
        yield "written", ", ".join(filter(None, [training["date"], training["nmt"] and f"nmt {training['nmt']}"]))
    if averaged := weights["averaged"]:
        selected = f" (selected: {weights['selected']})" if weights["selected"] else ""
        yield "weights", f"mean of {len(averaged)}: {', '.join(one['file'] for one in averaged)}{selected}"
    if weights["ema_decay"] is not None:
        yield "weights", f"moving average, decay {weights['ema_decay']:g}"
    if weights["imported_from"]:
        yield "weights", f"imported from {weights['imported_from']}"
    start = weights["start_from"]
    while start:
        step = f", step {start['step']:,}" if "step" in start else ""
        imported = f", imported from {start['imported_from']}" if "imported_from" in start else ""
        yield "weights", f"training started from {start['file']}{step}{imported}"
        start = start.get("start_from")
