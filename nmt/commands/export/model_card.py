"""The model card of an export: README.md, with the front matter that the Hugging Face hub reads.

It says what the model file tells: languages, license, sizes, training, and the scores of validation with their
signatures. Of files on this machine it has the names, not the folders.
Source: https://huggingface.co/docs/hub/model-cards
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any

import yaml

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.data_section import Corpus
from nmt.config.language_codes import english_name, two_letters
from nmt.config.language_pairs import LanguagePair
from nmt.config.metrics import OF_TRANSLATIONS
from nmt.config.schema import TransformerConfig

FILE = "README.md"
_MOST_NAMED = 10  # languages or corpora in a sentence
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)


@dataclass(frozen=True)
class Usage:
    """What a card says of the engine that an export is for.

    library: its name on the hub; how: in Markdown, a few lines that translate a sentence with the export; pairs: the
    languages of the export if these are not all of the model; quantization: the type of the weights.
    """

    library: str
    how: str
    pairs: Sequence[LanguagePair] | None = None
    quantization: str = "float32"


def write(folder: Path, loaded: Checkpoint, usage: Usage) -> None:
    """Write the card into a folder."""
    (folder / FILE).write_text(to_text(loaded, usage), encoding="utf-8")


def to_text(loaded: Checkpoint, usage: Usage) -> str:
    """The card as Markdown."""
    pairs = usage.pairs or loaded.config.data.language_pairs.pairs
    sides = [list(dict.fromkeys(side)) for side in zip(*pairs, strict=True)]
    title = " to ".join(_listed([_language_name(code) for code in side]) for side in sides)
    front_matter = dict(_front_matter(loaded, usage, title, [*sides[0], *sides[1]]))
    parts = [
        f"---\n{yaml.safe_dump(front_matter, allow_unicode=True, sort_keys=False, width=1000)}---",
        f"# Translation from {title}",
        "\n".join(f"- {line}" for line in _sizes(loaded, usage)),
        f"## Training\n\n{' '.join(_training(loaded))}",
        "## Scores\n\n" + "\n".join(_score_lines(loaded)),
        f"## Use\n\n{usage.how.strip()}",
    ]
    return "\n\n".join(parts) + "\n"


def source_of(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a model that was imported, or trained further from one, `imported_from` and `license` of the import; empty for
    one that was trained from the start."""
    if "imported_from" in provenance:
        return provenance
    start = provenance.get("start_from")
    return source_of(start) if isinstance(start, dict) else {}


def _front_matter(loaded: Checkpoint, usage: Usage, title: str, codes: Sequence[str]) -> Iterator[tuple[str, Any]]:
    source = source_of(loaded.provenance)
    licenses = list(dict.fromkeys(str(one) for one in (source.get("license"), loaded.config.data.license) if one))
    yield "language", list(dict.fromkeys(two_letters(code) for code in codes if code))
    if licenses:
        yield "license", licenses if len(licenses) > 1 else licenses[0]
    if _is_on_the_hub(origin := str(source.get("imported_from", ""))):
        yield "base_model", origin
    yield "library_name", usage.library
    yield "pipeline_tag", "translation"
    yield "tags", ["translation", "nmt", usage.library]
    if scores := _scores(loaded):
        yield "metrics", list(dict.fromkeys(score.name for score in scores))
        yield "model-index", [{"name": f"Translation from {title}", "results": list(_results(scores))}]


@dataclass(frozen=True)
class _Score:
    of_set: str
    name: str
    value: float
    signature: str


def _scores(loaded: Checkpoint) -> list[_Score]:
    """Those of translations that the provenance holds, of each validation set."""
    provenance, held_out = loaded.provenance, loaded.config.data.held_out
    sets = provenance.get("validation") or [provenance]
    names = [_corpus_name(corpus) for corpus in held_out] if len(held_out) == len(sets) else ["validation"] * len(sets)
    signatures = provenance.get("signatures", {})
    return [
        _Score(of_set, name, round(scores[name], 2), signatures.get(name, ""))
        for of_set, scores in zip(names, sets, strict=True)
        for name in OF_TRANSLATIONS
        if isinstance(scores.get(name), int | float)
    ]


def _results(scores: Sequence[_Score]) -> Iterator[dict[str, Any]]:
    """As the hub's `model-index` has them: one for each set."""
    for of_set, own in groupby(scores, key=lambda score: score.of_set):
        metrics = [{"type": one.name, "value": one.value, "args": one.signature} for one in own]
        task = {"type": "translation", "name": "Translation"}
        yield {"task": task, "dataset": {"type": of_set, "name": of_set}, "metrics": metrics}


def _score_lines(loaded: Checkpoint) -> Iterator[str]:
    scores = _scores(loaded)
    if not scores:
        yield "The model file holds no scores."
        return
    yield "Of the weights as they were trained, with nmt's own search, on text by which checkpoints were chosen:\n"
    for score in scores:
        signature = f" (`{score.signature}`)" if score.signature else ""
        yield f"- {score.of_set}: {OF_TRANSLATIONS[score.name].label} {score.value:.2f}{signature}"


def _sizes(loaded: Checkpoint, usage: Usage) -> Iterator[str]:
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


def _training(loaded: Checkpoint) -> Iterator[str]:
    """Sentences."""
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
        yield f"Training text: {_listed([_corpus_name(corpus) for corpus in config.data.train])}."
        yield f"License of the training text: {config.data.license or 'not stated'}."
    if averaged := provenance.get("averaged"):
        yield f"The weights are the mean of {len(averaged)} checkpoints."
    if not source and not step:
        yield "The model file does not tell how it was trained."


def _corpus_name(corpus: Corpus) -> str:
    files = [corpus.file] if corpus.file else [corpus.source, corpus.target]
    names = [PurePath(file).name for file in files if file]
    return corpus.own_name or " + ".join(names) or corpus.label


def _model_name(origin: str) -> str:
    """A name on the hub as it is; of a path the last part."""
    return origin if _is_on_the_hub(origin) else PurePath(origin).name


def _is_on_the_hub(origin: str) -> bool:
    """Whether it is a name there, and no folder here."""
    return _ON_THE_HUB.fullmatch(origin) is not None and not Path(origin).exists()


def _language_name(code: str) -> str:
    name = english_name(code) if code else "any language"
    return name if name == code or "-" not in code.replace("_", "-") else f"{name} ({code})"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
