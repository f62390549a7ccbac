"""The model card of an export: README.md, with the front matter that the Hugging Face hub reads.

It is written from the model file: languages, license, sizes, training, and validation scores with their signatures.
Files on this machine are named without their folders.
Source: https://huggingface.co/docs/hub/model-cards
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_codes import english_name, two_letters
from nmt.config.language_pairs import LanguagePair
from nmt.config.metrics import TRANSLATION_METRICS
from nmt.decoding.confidence import Calibration
from nmt.interop import model_facts
from nmt.interop.model_facts import ScoredSet

FILE = "README.md"
_MOST_NAMED = 10  # languages or corpora in a sentence


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


def write(folder: Path, loaded: Checkpoint, usage: EngineUsage) -> None:
    """Write the card into a folder."""
    (folder / FILE).write_text(to_text(loaded, usage), encoding="utf-8")


def to_text(loaded: Checkpoint, usage: EngineUsage) -> str:
    """The card as Markdown."""
    pairs = usage.pairs or loaded.config.data.language_pairs.pairs
    sides = [list(dict.fromkeys(side)) for side in zip(*pairs, strict=True)]
    title = " to ".join(_listed(list(map(_language_name, side))) for side in sides)
    scored = [scored_set for scored_set in model_facts.scored_sets(loaded) if scored_set.languages in pairs]
    front_matter = dict(_front_matter(loaded, usage, title, [*sides[0], *sides[1]], scored))
    parts = [
        f"---\n{yaml.safe_dump(front_matter, allow_unicode=True, sort_keys=False, width=1000)}---",
        f"# Translation from {title}",
        "\n".join(f"- {line}" for line in _sizes(loaded, usage)),
        f"## Training\n\n{' '.join(_training(loaded))}",
        "## Scores\n\n" + "\n".join(_score_lines(scored, pairs)),
        f"## Use\n\n{usage.how.strip()}",
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(
    loaded: Checkpoint, usage: EngineUsage, title: str, codes: Sequence[str], scored: Sequence[ScoredSet]
) -> Iterator[tuple[str, Any]]:
    licenses = list(dict.fromkeys(filter(None, model_facts.licenses(loaded))))
    origin = str(model_facts.imported_source(loaded.provenance).get("imported_from", ""))
    yield "language", list(dict.fromkeys(two_letters(code) for code in codes if code))
    if licenses:
        yield "license", licenses if len(licenses) > 1 else licenses[0]
    if model_facts.is_on_the_hub(origin):
        yield "base_model", origin
    yield "library_name", usage.library
    yield "pipeline_tag", "translation"
    yield "tags", ["translation", "nmt", usage.library]
    if scored:
        metrics = dict.fromkeys(chain.from_iterable(scored_set.scores for scored_set in scored))
        yield "metrics", list(metrics)
        yield "model-index", [{"name": f"Translation from {title}", "results": list(_results(scored))}]


def _results(sets: Sequence[ScoredSet]) -> Iterator[dict[str, Any]]:
    """An entry of the hub's `model-index` for each set. The hub joins entries with the same dataset type, config and
    split. The config is the direction, because corpora of both directions often have the same name."""
    for scored in sets:
        metrics = [
            {
                "type": name,
                "name": f"{TRANSLATION_METRICS[name].label} {scored.languages}",
                "value": value,
                "args": scored.signatures.get(name, ""),
            }
            for name, value in scored.scores.items()
        ]
        task = {"type": "translation", "name": f"Translation {scored.languages}"}
        dataset = {"type": scored.name, "name": str(scored), "config": str(scored.languages), "split": "validation"}
        yield {"task": task, "dataset": dataset, "metrics": metrics}


def _score_lines(sets: Sequence[ScoredSet], pairs: Sequence[LanguagePair]) -> Iterator[str]:
    if not sets:
        yield "The model file has no scores for these languages."
        return
    yield "Scores of the weights as trained, with nmt's own search, on the text that was used to choose checkpoints:\n"
    for scored in sets:
        yield from (f"- {line}" for line in scored.lines("`"))
    missing = [str(pair) for pair in pairs if pair not in [scored.languages for scored in sets]]
    if missing:
        yield f"- {_listed(missing)}: no scores"
    for compared in dict.fromkeys(scored.compared for scored in sets):
        yield f"\nTranslations and references are compared {compared}."


def _sizes(loaded: Checkpoint, usage: EngineUsage) -> Iterator[str]:
    count = model_facts.parameter_count(loaded)
    yield f"{model_facts.sizes_line(loaded)}; {count:,} parameters, here in {usage.quantization}"
    yield f"Vocabulary: {model_facts.vocabulary_line(loaded.vocabulary)}"
    if calibration := Calibration.of(loaded.provenance):
        yield f"Confidence with nmt: calibrated with {calibration}, correlation with chrF {calibration.correlation:.2f}"


def _training(loaded: Checkpoint) -> Iterator[str]:
    """Sentences about the training."""
    provenance, config = loaded.provenance, loaded.config
    source = model_facts.imported_source(provenance)
    if source:
        license, name = source.get("license") or "not stated", model_facts.origin_name(str(source["imported_from"]))
        yield f"The model was imported from {name} (license: {license})."
    if step := provenance.get("step"):
        training, tokens = config.training, provenance.get("target_tokens")
        seen = f", {tokens:,} target subwords in all" if tokens else ""
        verb = "Then it was trained" if source else "It was trained"
        yield (
            f"{verb} with nmt {provenance.get('nmt', '')} for {step:,} steps of {training.batch_tokens:,} subwords, "
            f"padding included{seen}, by {training.optimizer} with label smoothing {training.label_smoothing:g} and "
            f"dropout {config.model.dropout:g}."
        )
        yield f"Training text: {_listed(_corpora(loaded))}."
        yield f"License of the training text: {config.data.license or 'not stated'}."
    if len(averaged := provenance.get("averaged", ())) > 1:
        yield f"The weights are the mean of {len(averaged)} checkpoints."
    if not source and not step:
        yield "The model file does not say how it was trained."


def _corpora(loaded: Checkpoint) -> list[str]:
    """The training corpora. A corpus that is used in both directions is named once."""
    names = dict[str, str]()  # by content, or by name in model files that do not state the content
    for corpus in model_facts.training_text(loaded):
        count = f" ({corpus['pairs']:,} pairs)" if corpus["pairs"] is not None else ""
        tag = f" with the tag `{corpus['tag']}`" if corpus["tag"] else ""
        key = str(corpus["files"] or corpus["fingerprint"] or corpus["name"])
        names.setdefault(key, f"{corpus['name']}{count}{tag}")
    return list(names.values())


def _language_name(code: str) -> str:
    name = english_name(code) if code else "any language"
    return name if name == code or "-" not in code.replace("_", "-") else f"{name} ({code})"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
