"""The facts that a model states, as a table for people."""

from collections.abc import Iterator, Mapping
from typing import Any

from nmt.checkpoints.model_file import Checkpoint
from nmt.decoding.confidence import Calibration
from nmt.interop import model_facts

_MOST_PAIRS = 20


def to_text(facts: Mapping[str, Any], loaded: Checkpoint) -> str:
    """A table of two columns. facts: from nmt.commands.info."""
    rows = list(_rows(facts, loaded))
    width = max(len(label) for label, _ in rows) + 2
    lines, before = [], ""
    for label, value in rows:
        lines.append(f"{'' if label == before else label:{width}}{value}")
        before = label
    return "\n".join(lines)


def _rows(facts: Mapping[str, Any], loaded: Checkpoint) -> Iterator[tuple[str, str]]:
    """Each line of the table. Lines of one fact follow each other and have the same label."""
    yield "name", facts["name"]
    yield facts["kind"], f"{facts['file']} ({facts['bytes'] / 2**20:,.1f} MiB)"
    pairs = facts["language_pairs"]
    for pair in pairs[:_MOST_PAIRS]:
        line = f"{pair['source']}-{pair['target']}"
        for side in ("source", "target"):
            if tokens := pair[f"{side}_tokens"]:
                line += f", {' '.join(tokens)} before the {side}"
        yield "languages", line
    if len(pairs) > _MOST_PAIRS:
        yield "languages", f"{len(pairs) - _MOST_PAIRS} more: --format json lists all"
    yield "architecture", model_facts.sizes_line(loaded)
    if parameters := facts["model"]["parameters"]:
        yield "parameters", f"{parameters:,}"
    yield from _training_rows(facts)
    for scored in model_facts.scored_sets(loaded):
        for line in scored.lines():
            yield "validation", line
    yield "vocabulary", model_facts.vocabulary_line(loaded.vocabulary)
    for corpus in facts["training_text"]:
        count = f", {corpus['pairs']:,} pairs" if corpus["pairs"] is not None else ""
        tag = f", tag {corpus['tag']}" if corpus["tag"] else ""
        yield "training text", f"{corpus['name']}, {corpus['languages']}{count}{tag}"
        for file in corpus["files"]:
            yield "training text", f"  {file['name']}: SHA-256 {file['sha256']}"
        if corpus["fingerprint"]:
            yield "training text", f"  fingerprint {corpus['fingerprint']}"
    for text, license in facts["licenses"].items():
        if license:
            yield "license", f"of the {text.replace('_', ' ')}: {license}"
    if not any(facts["licenses"].values()):
        yield "license", "not stated"
    for format, answer in facts["export"].items():
        yield "export", f"{format}: {'yes' if answer['possible'] else answer['reason']}"
    if calibration := Calibration.of(loaded.provenance):
        yield "confidence", f"calibrated with {calibration}, correlation with chrF {calibration.correlation:.2f}"
    yield "shortlist", "yes" if facts["shortlist"] else "no"


def _training_rows(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    training, weights = facts["training"], facts["weights"]
    if training["step"] is not None:
        tokens = f", {training['target_tokens']:,} target subwords" if training["target_tokens"] else ""
        yield "training", f"{training['step']:,} steps{tokens}"
    if training["date"] or training["nmt"]:
        yield "written", ", ".join(filter(None, [training["date"], training["nmt"] and f"nmt {training['nmt']}"]))
    if averaged := weights["averaged"]:
        selected = f" (selected: {weights['selected']})" if weights["selected"] else ""
        mean = f"mean of {len(averaged)}: " if len(averaged) > 1 else ""
        yield "weights", f"{mean}{', '.join(one['file'] for one in averaged)}{selected}"
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
