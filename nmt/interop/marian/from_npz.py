"""Imports Marian's own models: an .npz file with weights and settings, and the vocabularies beside it.

Marian's sinusoids are Tensor2Tensor's, its decoder starts with a zero vector, and its matrices are [inputs, outputs].
Source: marian-dev, src/models/transformer.h, src/layers/{generic.h,output.cpp,embedding.cpp}.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nmt.config.schema import Config, TransformerConfig
from nmt.errors import NmtError
from nmt.interop import imported, languages, search_settings, source
from nmt.interop.imported import Imported
from nmt.interop.languages import NamedLanguages
from nmt.interop.marian import names
from nmt.interop.marian import vocabulary as marian_vocabulary
from nmt.interop.marian.vocabulary import MarianVocabularies
from nmt.interop.source import SourceSettings
from nmt.interop.subwords import SubwordRows
from nmt.interop.weights import Linear, Weights, layer_weights

_SETTINGS = "special:model.yml"  # the array that holds the settings as text
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu"}
# Up to this version, Marian's gelu was x · σ(1.702 x); in pymarian 1.12.42 it is exact.
_QUICK_GELU = (1, 12, 0)
_EPSILON = 1e-6  # of Marian's layer norms
_EXPECTED: dict[str, dict[str, Any]] = {
    "only a Transformer of one encoder and one decoder can": {"type": "transformer"},
    "in nmt the decoder has self-attention": {"transformer-decoder-autoreg": "self-attention"},
    "in nmt its norms come after each sub-layer, and nowhere else": {
        "transformer-preprocess": "",
        "transformer-postprocess-top": "",
    },
    "in nmt positions are sinusoids": {
        "transformer-train-positions": False,
        "transformer-train-position-embeddings": False,
    },
    "in nmt each attention ends in a projection": {"transformer-no-projection": False, "transformer-pool": False},
    "in nmt each layer has its own weights": {"transformer-tied-layers": []},
    "in nmt a feed-forward layer has two matrices": {"transformer-ffn-depth": 2},
    "nmt writes from the first word to the last": {"right-left": False},
    "nmt has no factors": {"lemma-dim-emb": 0, "lemma-dependency": "", "factors-combine": "sum"},
    "nmt has no such embeddings": {"ulr": False, "input-types": []},
    "nmt computes the whole output layer": {"output-approx-knn": []},
}


@dataclass(frozen=True)
class MarianFiles:
    """The contents of an .npz file. arrays: the weights; settings: from the array `special:model.yml`."""

    arrays: Mapping[str, np.ndarray]
    settings: SourceSettings

    @classmethod
    def read(cls, path: Path) -> "MarianFiles":
        """Read a file. Raises NmtError if it is damaged or has no settings."""
        arrays = source.read_arrays(path)
        if _SETTINGS not in arrays:
            raise NmtError(f"{path}: has no {_SETTINGS}: not a model of Marian")
        text = arrays.pop(_SETTINGS).tobytes().rstrip(b"\0").decode("utf-8", "replace")
        return cls(arrays, SourceSettings(f"{path}: {_SETTINGS}", source.as_mapping(text, str(path), in_json=False)))


def find(path: Path) -> Path | None:
    """The path itself if it is an .npz file, or the .npz file in a folder; None if there is none. Raises NmtError if
    the folder has several."""
    if path.is_file():
        return path if path.suffix == ".npz" else None
    files = [file for file in sorted(path.glob("*.npz")) if ".optimizer." not in file.name]
    if len(files) > 1:
        raise NmtError(f"{path}: has several models, such as {files[0].name} and {files[1].name}: name one")
    return files[0] if files else None


class MarianNpzImporter:
    """As nmt.interop.imported.Importer."""

    program = "Marian"
    reads_text = False

    def read(self, path: Path, name: str, codes: Sequence[str], text: Sequence[Path] = ()) -> Imported:
        files = MarianFiles.read(path)
        model, decoder = _model(files.settings), _decoder_settings(path)
        sides = _sides(path, files, decoder, shared=model.ties_embeddings)
        named = NamedLanguages.find({}, name)
        pairs = languages.pairs_of(named, sides.codes, codes)
        search, tags = search_settings.from_marian(decoder), languages.tags_of(pairs, sides.codes)
        settings = imported.settings(name, pairs, sides.vocabulary, model, search.decoding, tags)
        marian_weights = Weights(str(path), {key: torch.from_numpy(array) for key, array in files.arrays.items()})
        weights = dict(_subword_weights(marian_weights, model, files.settings, sides.rows))
        weights |= layer_weights(model, _Layers(marian_weights, model.d_model))
        marian_weights.check_all_taken()
        return Imported(
            settings, sides.vocabulary, weights, notes=search.notes, says_languages=named.source is not None
        )

    def translate(self, path: Path, config: Config, lines: Sequence[str]) -> None:
        """Returns None: Marian cannot be called from Python."""


def _model(settings: SourceSettings) -> TransformerConfig:
    """The settings of the model. Raises NmtError if nmt has no such model."""
    for reason, expected in _EXPECTED.items():
        settings.check(reason, expected)
    if (after := settings.values.get("transformer-postprocess", "dan")) not in ("dan", "an"):
        raise NmtError(
            f"{settings.path}: transformer-postprocess: {source.shown(after)}: cannot be imported: a sub-layer of nmt "
            "ends with dropout, residual sum and norm: dan"
        )
    inner = settings.number("transformer-dim-ffn")
    same, depth = {0, inner}, {0, 2}
    for key, allowed in (("transformer-decoder-dim-ffn", same), ("transformer-decoder-ffn-depth", depth)):
        if settings.number(key, 0) not in allowed:
            settings.check("in nmt it is the same in encoder and decoder", {key: max(allowed)})
    width, heads = settings.width_and_heads("dim-emb", "transformer-heads")
    ties_output, ties_sources = settings.flag("tied-embeddings", False), settings.flag("tied-embeddings-src", False)
    tie: Literal["all", "target", "none"] = "target" if ties_output else "none"
    if settings.flag("tied-embeddings-all", False) or (ties_output and ties_sources):
        tie = "all"
    return TransformerConfig(
        d_model=width,
        feed_forward=inner,
        encoder_layers=settings.number("enc-depth"),
        decoder_layers=settings.number("dec-depth"),
        heads=heads,
        activation=activation(settings),  # type: ignore[arg-type]
        positions="concatenated",
        tie=tie,
        output_bias=True,
        norm_epsilon=_EPSILON,
        decoder_start="zero",
    )


def activation(settings: SourceSettings) -> str:
    """nmt's name of the activation function of the feed-forward layers. Raises NmtError for an unknown one."""
    name = settings.choice("transformer-ffn-activation", _ACTIVATIONS, "swish")
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", source.shown(settings.values.get("version", "")))
    version = tuple(map(int, match.groups())) if match else _QUICK_GELU
    return "quick_gelu" if name == "gelu" and version <= _QUICK_GELU else name


def _decoder_settings(path: Path) -> Mapping[str, Any]:
    """The search settings in the file beside a model, which also names the vocabularies; empty if there is no file."""
    for file in (path.with_name(f"{path.name}.decoder.yml"), path.parent / "decoder.yml"):
        if file.is_file():
            return source.read_mapping(file)
    return {}


def _sides(path: Path, files: MarianFiles, search: Mapping[str, Any], *, shared: bool) -> MarianVocabularies:
    """The vocabularies beside a model. shared: source and target share one matrix, so both must have the same ids."""
    paths = search.get("vocabs") or files.settings.values.get("vocabs")
    if not isinstance(paths, list) or len(paths) != 2 or not all(isinstance(name, str) for name in paths):
        raise NmtError(f"{files.settings.path}: vocabs: {source.shown(paths)}: two vocabularies are expected")
    vocabulary_files = [path.parent / Path(str(name)).name for name in paths]  # the folder of the training is ignored
    if all(file.suffix == ".spm" for file in vocabulary_files):
        models, ids = vocabulary_files, [marian_vocabulary.ids_of(file) for file in vocabulary_files]
    elif all(file.suffix in (".yml", ".yaml", ".json") for file in vocabulary_files):
        models = [path.parent / "source.spm", path.parent / "target.spm"]
        ids = [source.read_vocabulary(file) for file in vocabulary_files]
    else:
        raise NmtError(f"{vocabulary_files[0]}: vocabularies can be .spm, or .yml beside source.spm and target.spm")
    sizes = files.settings.values.get("dim-vocabs")
    if not isinstance(sizes, list) or len(sizes) != 2 or not all(isinstance(size, int) for size in sizes):
        raise NmtError(f"{files.settings.path}: dim-vocabs: {source.shown(sizes)}: two numbers are expected")
    rows = [size or len(side_ids) for size, side_ids in zip(sizes, ids, strict=True)]
    if shared and ids[0] != ids[1]:
        raise NmtError(
            f"{vocabulary_files[0]}, {vocabulary_files[1]}: differ, but the model has one matrix for both: use the "
            "vocabularies of this model"
        )
    count = 1 if shared else 2
    return marian_vocabulary.read(models, ids[:count], rows[:count], vocabulary_files[:count])


def _subword_weights(
    weights: Weights, model: TransformerConfig, settings: SourceSettings, rows: tuple[SubwordRows, SubwordRows]
) -> Iterator[tuple[str, Tensor]]:
    """The matrices with a row for each subword, and the output bias, by nmt's names."""
    width, (source_size, size) = model.d_model, [max(side.original_ids) + 1 for side in rows]
    shared = settings.flag("tied-embeddings-all", False) or settings.flag("tied-embeddings-src", False)
    tables = ("Wemb", "Wemb") if shared else ("encoder_Wemb", "decoder_Wemb")
    yield "target_embedding.weight", rows[1].matrix(weights.take(tables[1], size, width))
    if not model.ties_embeddings:
        yield "source_embedding.weight", rows[0].matrix(weights.take(tables[0], source_size, width))
    output = "decoder_ff_logit_out"
    if not model.ties_output:
        if f"{output}_W" in weights:  # of older versions
            matrix = weights.take(f"{output}_W", width, size).t()
        else:
            matrix = weights.take(f"{output}_Wt", size, width)
        yield "output.weight", rows[1].matrix(matrix)
    no_bias = settings.flag("output-omit-bias", False)
    yield "output.bias", rows[1].bias(torch.zeros(size) if no_bias else weights.take(f"{output}_b", 1, size)[0])


class _Layers:
    """Reads the layers, as nmt.interop.weights.LayerReader."""

    def __init__(self, weights: Weights, width: int):
        self.weights, self.width = weights, width

    def linear(self, side: str, layer: int, part: str, outputs: int, inputs: int) -> Linear:
        matrix, bias = names.linear_names(side, layer, part)
        return self.weights.take(matrix, inputs, outputs).t().contiguous(), self.weights.take(bias, 1, outputs)[0]

    def norm(self, side: str, layer: int, block: str) -> Linear:
        scale, bias = names.norm_names(side, layer, block)
        return self.weights.take(scale, 1, self.width)[0], self.weights.take(bias, 1, self.width)[0]
