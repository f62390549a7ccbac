"""The facts that a model file states about its model: for `nmt info`, and for the model card of an export."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from nmt.checkpoints.model_file import DATE, TRAINING_TEXT, Checkpoint
from nmt.config.language_pairs import LanguagePair
from nmt.config.metrics import TRANSLATION_METRICS
from nmt.config.schema import TransformerConfig
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.decoding.confidence import Calibration
from nmt.interop.imported import UNKNOWN_TEXT

_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
# Entries of the provenance that are copied as they are.
_TRAINING = ("step", "target_tokens", "nmt", "torch", DATE)
_WEIGHTS = ("averaged", "selected", "ema_decay", "imported_from", "start_from")


@dataclass(frozen=True)
class ScoredSet:
    """A validation set that was translated in one direction and scored.

    scores: by their names in TRANSLATION_METRICS; signatures: sacreBLEU's, by the same names; compared: the form of the
    text in which translations and references were compared.
    """

    name: str
    languages: LanguagePair
    sentences: int
    scores: Mapping[str, float]
    signatures: Mapping[str, str]
    compared: str

    def __str__(self) -> str:
        return f"{self.name}, {self.languages}, {self.sentences:,} sentences"

    def lines(self, quote: str = "") -> list[str]:
        """A line for each score. quote: put around signatures."""
        lines = list[str]()
        for name, value in self.scores.items():
            signature = f" ({quote}{self.signatures[name]}{quote})" if name in self.signatures else ""
            lines.append(f"{self}: {TRANSLATION_METRICS[name].label} {value:.2f}{signature}")
        return lines


def facts(loaded: Checkpoint) -> dict[str, Any]:
    """All facts below, as JSON values. The keys do not depend on the model; None for facts that it does not state."""
    pairs, vocabulary = loaded.config.data.language_pairs, loaded.vocabulary
    imported, text = licenses(loaded)
    calibration = Calibration.of(loaded.provenance)
    return {
        "language_pairs": [
            {**pair._asdict(), "source_tokens": pairs.tags(pair), "target_tokens": pairs.tags(pair, side=1)}
            for pair in pairs.pairs
        ],
        "model": {**sizes(loaded), "parameters": parameter_count(loaded) or None},
        "training": {key: loaded.provenance.get(key) for key in _TRAINING},
        "weights": {key: loaded.provenance.get(key) for key in _WEIGHTS},
        "scores": list(map(_score_facts, scored_sets(loaded))),
        "vocabulary": {"source": len(vocabulary.source), "target": len(vocabulary.target), "shared": vocabulary.shared},
        "training_text": training_text(loaded),
        "licenses": {"training_text": text, "imported_model": imported},
        "calibration": calibration and calibration.to_json(),
    }


def _score_facts(scored: ScoredSet) -> dict[str, Any]:
    scores = {name: {"score": value, "signature": scored.signatures.get(name)} for name, value in scored.scores.items()}
    about = {"set": scored.name, "sentences": scored.sentences, "compared": scored.compared}
    return {**about, **scored.languages._asdict(), "scores": scores}


def scored_sets(loaded: Checkpoint) -> list[ScoredSet]:
    """The validation sets with scores of translations."""
    provenance = loaded.provenance
    if "translated" not in provenance:
        return []
    sets = provenance.get("validation") or [provenance]  # a list only for several sets
    names = [corpus.name_without_folders for corpus in loaded.config.data.held_out]
    if len(names) != len(sets):
        names = ["validation"] * len(sets)
    scored = []
    for name, set_scores, text in zip(names, sets, provenance["translated"], strict=True):
        languages = LanguagePair(text["source_language"], text["target_language"])
        numbers = {key: set_scores.get(key) for key in TRANSLATION_METRICS}
        scores = {key: round(number, 2) for key, number in numbers.items() if isinstance(number, int | float)}
        if scores:
            scored.append(ScoredSet(name, languages, text["sentences"], scores, text["signatures"], text["compared"]))
    return scored


def imported_source(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    """`imported_from` and `license` of a model that was imported, or trained further from an imported one; empty for
    other models."""
    if "imported_from" in provenance:
        return provenance
    start = provenance.get("start_from")
    return imported_source(start) if isinstance(start, dict) else {}


def licenses(loaded: Checkpoint) -> tuple[str | None, str | None]:
    """The license of the imported model, and of the training text; None if they are not stated."""
    imported = imported_source(loaded.provenance).get("license")
    return imported and str(imported), loaded.config.data.license


def origin_name(origin: str) -> str:
    """A name on the hub as it is, or the last part of a path."""
    return origin if is_on_the_hub(origin) else PurePath(origin).name


def is_on_the_hub(origin: str) -> bool:
    """Whether this is the name of a model on the hub, and not a folder on this machine."""
    return _ON_THE_HUB.fullmatch(origin) is not None and not Path(origin).exists()


def parameter_count(loaded: Checkpoint) -> int:
    """The number of parameters; each shared matrix counts once."""
    return sum(weight.numel() for weight in loaded.weights.values())


def sizes(loaded: Checkpoint) -> dict[str, str | int | None]:
    """The architecture and its sizes by name; None for sizes that other architectures have."""
    model = loaded.config.model
    layers = getattr(model, "layers", None)
    other = {key: getattr(model, key, None) for key in ("feed_forward", "heads", "cell")}
    return {
        "architecture": model.architecture,
        "encoder_layers": model.encoder_layers or layers,
        "decoder_layers": model.decoder_layers or layers,
        "width": model.width,
        **other,
    }


def sizes_line(loaded: Checkpoint) -> str:
    """The architecture and its sizes in one line."""
    values = sizes(loaded)
    line = "{encoder_layers} encoder and {decoder_layers} decoder layers, width {width}".format_map(values)
    if isinstance(loaded.config.model, TransformerConfig):
        return f"Transformer: {line}, feed-forward {values['feed_forward']}, {values['heads']} heads"
    return f"recurrent ({values['cell']}): {line}"


def vocabulary_line(vocabulary: Vocabulary) -> str:
    """The sizes of the vocabulary in one line."""
    if vocabulary.shared:
        return f"{len(vocabulary.source):,} SentencePiece subwords, shared by both languages"
    return f"{len(vocabulary.source):,} and {len(vocabulary.target):,} SentencePiece subwords"


def training_text(loaded: Checkpoint) -> Sequence[Mapping[str, Any]]:
    """Of each training corpus: name, languages, number of pairs, tag, and files with checksums or a fingerprint.
    Files of earlier versions of nmt state only names, languages and tags; imported models state nothing."""
    data = loaded.config.data
    recorded = loaded.provenance.get(TRAINING_TEXT) or [
        {"name": corpus.name_without_folders, "languages": str(data.pair_of(corpus)), "tag": corpus.tag}
        for corpus in data.train
        if corpus.file != UNKNOWN_TEXT
    ]
    stated = ("name", "languages", "pairs", "tag", "fingerprint")
    return [{**dict.fromkeys(stated), "files": [], **corpus} for corpus in recorded]
