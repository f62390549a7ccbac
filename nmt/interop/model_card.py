"""The model card of an export: README.md, with the front matter that the Hugging Face hub reads.

It is written from the model file: languages, license, sizes, training, and validation scores with their signatures.
Files on this machine are named without their folders.
Source: https://huggingface.co/docs/hub/model-cards
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

import yaml

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_codes import english_name, two_letters
from nmt.config.language_pairs import LanguagePair
from nmt.config.metrics import TRANSLATION_METRICS
from nmt.config.schema import TransformerConfig
from nmt.decoding.confidence import Calibration

FILE = "README.md"
_MOST_NAMED = 10  # languages or corpora in a sentence
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)


@dataclass(frozen=True)
class EngineUsage:
    """The part of a card about the program that an export is for.

    library: its name on the hub; how: a few lines of Markdown that translate a sentence with the export; pairs: the
    languages of the export, None for all of the model; quantization: the type of the weights.
    """

    library: str
    how: str
    pairs: Sequence[LanguagePair] | None = None
    quantization: str = "float32"


@dataclass(frozen=True)
class _ScoredSet:
    """A validation set whose sentences were translated and scored."""

    name: str
    languages: LanguagePair
    sentences: int
    scores: dict[str, float]
    signatures: Mapping[str, str]
    compared: str

    def __str__(self) -> str:
        return f"{self.name}, {self.languages}, {self.sentences:,} sentences"


def write(folder: Path, loaded: Checkpoint, usage: EngineUsage) -> None:
    """Write the card into a folder."""
    (folder / FILE).write_text(to_text(loaded, usage), encoding="utf-8")


def to_text(loaded: Checkpoint, usage: EngineUsage) -> str:
    """The card as Markdown."""
    pairs = usage.pairs or loaded.config.data.language_pairs.pairs
    sides = [list(dict.fromkeys(side)) for side in zip(*pairs, strict=True)]
    title = " to ".join(_listed(list(map(_language_name, side))) for side in sides)
    scored = _scored_sets(loaded, pairs)
    front_matter = dict(_front_matter(loaded, usage, title, [*sides[0], *sides[1]], scored))
    parts = [
        f"---\n{yaml.safe_dump(front_matter, allow_unicode=True, sort_keys=False, width=1000)}---",
        f"# Translation from {title}",
        "\n".join(f"- {line}" for line in _sizes(loaded, usage)),
        f"## Training\n\n{' '.join(_training(loaded))}",
        "## Scores\n\n" + "\n".join(_score_lines(scored)),
        f"## Use\n\n{usage.how.strip()}",
    ]
    return "\n\n".join(parts) + "\n"


def source_of(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    """`imported_from` and `license` of a model that was imported, or trained further from an imported one; empty for
    other models."""
    if "imported_from" in provenance:
        return provenance
    start = provenance.get("start_from")
    return source_of(start) if isinstance(start, dict) else {}


def _front_matter(
    loaded: Checkpoint, usage: EngineUsage, title: str, codes: Sequence[str], scored: Sequence[_ScoredSet]
) -> Iterator[tuple[str, Any]]:
    source = source_of(loaded.provenance)
    licenses = [license for license in (source.get("license"), loaded.config.data.license) if license]
    licenses = list(dict.fromkeys(map(str, licenses)))
    yield "language", list(dict.fromkeys(two_letters(code) for code in codes if code))
    if licenses:
        yield "license", licenses if len(licenses) > 1 else licenses[0]
    if _is_on_the_hub(origin := str(source.get("imported_from", ""))):
        yield "base_model", origin
    yield "library_name", usage.library
    yield "pipeline_tag", "translation"
    yield "tags", ["translation", "nmt", usage.library]
    if scored:
        metrics = dict.fromkeys(chain.from_iterable(scored_set.scores for scored_set in scored))
        yield "metrics", list(metrics)
        yield "model-index", [{"name": f"Translation from {title}", "results": list(_results(scored))}]


def _scored_sets(loaded: Checkpoint, pairs: Sequence[LanguagePair]) -> list[_ScoredSet]:
    """The scores of the translated validation sets in these languages, from the provenance."""
    provenance, data = loaded.provenance, loaded.config.data
    sets = provenance.get("validation") or [provenance]  # a list only for several sets
    if "translated" not in provenance:
        return []
    names = [corpus.name_without_folders for corpus in data.held_out]
    if len(names) != len(sets):
        names = ["validation"] * len(sets)
    scored = []
    for name, set_scores, text in zip(names, sets, provenance["translated"], strict=True):
        languages = LanguagePair(text["source_language"], text["target_language"])
        scores = {
            key: round(set_scores[key], 2)
            for key in TRANSLATION_METRICS
            if isinstance(set_scores.get(key), int | float)
        }
        if scores and (languages in pairs or not data.language_pairs.several):
            scored.append(_ScoredSet(name, languages, text["sentences"], scores, text["signatures"], text["compared"]))
    return scored


def _results(sets: Sequence[_ScoredSet]) -> Iterator[dict[str, Any]]:
    """An entry of the hub's `model-index` for each set."""
    for scored in sets:
        metrics = [
            {"type": name, "value": value, "args": scored.signatures.get(name, "")}
            for name, value in scored.scores.items()
        ]
        task = {"type": "translation", "name": "Translation"}
        yield {"task": task, "dataset": {"type": scored.name, "name": str(scored)}, "metrics": metrics}


def _score_lines(sets: Sequence[_ScoredSet]) -> Iterator[str]:
    if not sets:
        yield "The model file has no scores for these languages."
        return
    yield "Scores of the weights as trained, with nmt's own search, on the text that was used to choose checkpoints:\n"
    for scored in sets:
        for name, value in scored.scores.items():
            signature = f" (`{scored.signatures[name]}`)" if name in scored.signatures else ""
            yield f"- {scored}: {TRANSLATION_METRICS[name].label} {value:.2f}{signature}"
    for compared in dict.fromkeys(scored.compared for scored in sets):
        yield f"\nTranslations and references are compared {compared}."


def _sizes(loaded: Checkpoint, usage: EngineUsage) -> Iterator[str]:
    model, vocabulary = loaded.config.model, loaded.vocabulary
    count = sum(weight.numel() for weight in loaded.weights.values())
    kind: str = model.architecture
    if isinstance(model, TransformerConfig):
        layers = model.encoder_layers or model.layers, model.decoder_layers or model.layers
        kind = (
            f"Transformer: {layers[0]} encoder and {layers[1]} decoder layers, width {model.d_model}, feed-forward "
            f"{model.feed_forward}, {model.heads} heads"
        )
    yield f"{kind}; {count:,} parameters, here in {usage.quantization}"
    sizes = f"{len(vocabulary.source):,}"
    if not vocabulary.shared:
        sizes += f" and {len(vocabulary.target):,}"
    yield f"Vocabulary: {sizes} subwords of SentencePiece{', for both languages' if vocabulary.shared else ''}"
    if calibration := Calibration.of(loaded.provenance):
        yield f"Confidence with nmt: calibrated with {calibration}, correlation with chrF {calibration.correlation:.2f}"


def _training(loaded: Checkpoint) -> Iterator[str]:
    """Sentences about the training."""
    provenance, config = loaded.provenance, loaded.config
    source = source_of(provenance)
    if source:
        license = source.get("license") or "not stated"
        yield f"The model was imported from {_model_name(str(source['imported_from']))} (license: {license})."
    if step := provenance.get("step"):
        training, tokens = config.training, provenance.get("target_tokens")
        seen = f", {tokens:,} target subwords in all" if tokens else ""
        verb = "Then it was trained" if source else "It was trained"
        yield (
            f"{verb} with nmt {provenance.get('nmt', '')} for {step:,} steps of {training.batch_tokens:,} subwords, "
            f"padding included{seen}, by {training.optimizer} with label smoothing {training.label_smoothing:g} and "
            f"dropout {config.model.dropout:g}."
        )
        yield f"Training text: {_listed([corpus.name_without_folders for corpus in config.data.train])}."
        yield f"License of the training text: {config.data.license or 'not stated'}."
    if averaged := provenance.get("averaged"):
        yield f"The weights are the mean of {len(averaged)} checkpoints."
    if not source and not step:
        yield "The model file does not say how it was trained."


def _model_name(origin: str) -> str:
    """A name on the hub as it is, or the last part of a path."""
    return origin if _is_on_the_hub(origin) else PurePath(origin).name


def _is_on_the_hub(origin: str) -> bool:
    """Whether this is the name of a model on the hub, and not a folder on this machine."""
    return _ON_THE_HUB.fullmatch(origin) is not None and not Path(origin).exists()


def _language_name(code: str) -> str:
    name = english_name(code) if code else "any language"
    return name if name == code or "-" not in code.replace("_", "-") else f"{name} ({code})"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
