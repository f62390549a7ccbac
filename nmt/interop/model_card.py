"""The model card of an export: README.md, with the front matter that the Hugging Face hub reads.

It says what the model file tells: languages, license, sizes, training, and the scores of validation with their
signatures. Of files on this machine it has the names, not the folders.
Source: https://huggingface.co/docs/hub/model-cards
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import yaml

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.data_section import Corpus
from nmt.config.language_codes import english_name, two_letters
from nmt.config.language_pairs import LanguagePair
from nmt.config.metrics import TRANSLATION_METRICS
from nmt.config.schema import TransformerConfig

FILE = "README.md"
_MOST_NAMED = 10  # languages or corpora in a sentence
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)


@dataclass(frozen=True)
class EngineUsage:
    """What a card says of the engine that an export is for.

    library: its name on the hub; how: in Markdown, a few lines that translate a sentence with the export; pairs: the
    languages of the export if these are not all of the model; quantization: the type of the weights.
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
    title = " to ".join(_listed([_language_name(code) for code in side]) for side in sides)
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
    """Of a model that was imported, or trained further from one, `imported_from` and `license` of the import; empty for
    one that was trained from the start."""
    if "imported_from" in provenance:
        return provenance
    start = provenance.get("start_from")
    return source_of(start) if isinstance(start, dict) else {}


def _front_matter(
    loaded: Checkpoint, usage: EngineUsage, title: str, codes: Sequence[str], scored: Sequence[_ScoredSet]
) -> Iterator[tuple[str, Any]]:
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
    if scored:
        yield "metrics", list(dict.fromkeys(name for one in scored for name in one.scores))
        yield "model-index", [{"name": f"Translation from {title}", "results": list(_results(scored))}]


def _scored_sets(loaded: Checkpoint, pairs: Sequence[LanguagePair]) -> list[_ScoredSet]:
    """The scores of translations in the provenance, of each set in one of these languages."""
    provenance, data = loaded.provenance, loaded.config.data
    sets = provenance.get("validation") or [provenance]  # a list only of several
    if "translated" not in provenance:
        return []
    names = [_corpus_name(corpus) for corpus in data.held_out]
    if len(names) != len(sets):
        names = ["validation"] * len(sets)
    scored = []
    for name, own, text in zip(names, sets, provenance["translated"], strict=True):
        languages = LanguagePair(text["source_language"], text["target_language"])
        scores = {key: round(own[key], 2) for key in TRANSLATION_METRICS if isinstance(own.get(key), int | float)}
        if scores and (languages in pairs or not data.language_pairs.several):
            scored.append(_ScoredSet(name, languages, text["sentences"], scores, text["signatures"], text["compared"]))
    return scored


def _results(sets: Sequence[_ScoredSet]) -> Iterator[dict[str, Any]]:
    """As the hub's `model-index` has them: one for each set."""
    for one in sets:
        metrics = [
            {"type": name, "value": value, "args": one.signatures.get(name, "")} for name, value in one.scores.items()
        ]
        task = {"type": "translation", "name": "Translation"}
        yield {"task": task, "dataset": {"type": one.name, "name": str(one)}, "metrics": metrics}


def _score_lines(sets: Sequence[_ScoredSet]) -> Iterator[str]:
    if not sets:
        yield "The model file holds no scores of these languages."
        return
    yield "Of the weights as they were trained, with nmt's own search, on text by which checkpoints were chosen:\n"
    for one in sets:
        for name, value in one.scores.items():
            signature = f" (`{one.signatures[name]}`)" if name in one.signatures else ""
            yield f"- {one}: {TRANSLATION_METRICS[name].label} {value:.2f}{signature}"
    for compared in dict.fromkeys(one.compared for one in sets):
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
