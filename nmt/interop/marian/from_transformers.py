"""Imports MarianMT models (OPUS-MT) from folders of the Hugging Face hub, for transformers' MarianMTModel.

Marian's sinusoids are the paper's, with all sines before all cosines, so the model dimension of every weight is
reordered. The decoder starts with the embedding of padding, which is a zero vector.
Source: transformers/models/marian.

Shapes: D d_model, V subwords of the Marian model.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from nmt.config.schema import Config, TransformerConfig
from nmt.data.subwords.vocabulary import BOS, EOS
from nmt.errors import NmtError
from nmt.interop import hugging_face, imported, search_settings, source
from nmt.interop.hugging_face import HuggingFaceWeights
from nmt.interop.imported import Imported
from nmt.interop.languages import NamedLanguages, pairs_of, tags_of
from nmt.interop.marian import in_transformers
from nmt.interop.marian import vocabulary as marian_vocabulary
from nmt.interop.marian.vocabulary import MarianVocabularies
from nmt.interop.search_settings import Tokens
from nmt.interop.source import SourceSettings
from nmt.interop.subwords import NONE, SubwordRows
from nmt.interop.weights import Weights, layer_weights
from nmt.models.transformer.positions import sinusoids

_SHARED = "model.shared.weight"


class MarianImporter:
    """As nmt.interop.imported.Importer."""

    program = "transformers"
    reads_text = False

    def read(self, path: Path, name: str, codes: Sequence[str], text: Sequence[Path] = ()) -> Imported:
        config = SourceSettings(str(path / "config.json"), source.read_mapping(path / "config.json"))
        about = source.read_mapping(path / "tokenizer_config.json", optional=True)
        model, sides = _settings(config), _sides(path, config, shared=not about.get("separate_vocabs"))
        named = NamedLanguages.find(about, name)
        pairs = pairs_of(named, sides.codes, codes)
        target_ids = sides.rows[1].original_ids
        search = search_settings.from_transformers(path, config, Tokens(target_ids[EOS], target_ids[: BOS + 1]))
        settings = imported.settings(name, pairs, sides.vocabulary, model, search.decoding, tags_of(pairs, sides.codes))
        model, weights = _read_weights(source.read_weights(path), config, model, sides.rows)
        return Imported(
            replace(settings, model=model),
            sides.vocabulary,
            weights,
            source.license_of(path),
            search.notes,
            says_languages=named.source is not None,
        )

    def translate(self, path: Path, config: Config, lines: Sequence[str]) -> list[str]:
        return in_transformers.translate(path, config, lines)


def _settings(config: SourceSettings) -> TransformerConfig:
    """The settings of the model. Raises NmtError if nmt has no such model."""
    shared, tied = config.flag("share_encoder_decoder_embeddings", True), config.flag("tie_word_embeddings", True)
    tie: Literal["all", "target", "none"] = "none"
    if tied:
        tie = "all" if shared else "target"
    return replace(hugging_face.transformer(config, "gelu"), tie=tie, output_bias=True, decoder_start="zero")


def _sides(folder: Path, config: SourceSettings, *, shared: bool) -> MarianVocabularies:
    """The vocabularies in a folder. shared: source and target have the same ids."""
    files = [folder / "vocab.json"] if shared else [folder / "vocab.json", folder / "target_vocab.json"]
    ids, size = [source.read_vocabulary(file) for file in files], config.number("vocab_size")
    target_size = size
    if config.values.get("decoder_vocab_size") is not None:
        target_size = config.number("decoder_vocab_size")
    vocabularies = marian_vocabulary.read(
        [folder / "source.spm", folder / "target.spm"], ids, [size, target_size][: len(files)], files
    )
    if config.values.get("eos_token_id") not in (ids[-1]["</s>"], [ids[-1]["</s>"]]):
        eos = source.shown(config.values.get("eos_token_id"))
        raise NmtError(f"{config.path}: eos_token_id: {eos}: in {files[-1].name} </s> is {ids[-1]['</s>']}")
    return vocabularies


def _read_weights(
    original: Weights, config: SourceSettings, model: TransformerConfig, rows: tuple[SubwordRows, SubwordRows]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """The settings with the start of the decoder, and the weights by nmt's names with the model dimension in nmt's
    order."""
    half = model.d_model // 2
    # In Marian all sines come before all cosines: its first half are nmt's even dimensions.
    dimensions = torch.stack([torch.arange(half), torch.arange(half, 2 * half)], dim=1).flatten()
    shared, (source_size, size) = model.ties_embeddings, [max(side.original_ids) + 1 for side in rows]
    embeddings = {side: f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")}

    def matrix(names: Sequence[str], size: int) -> Tensor:
        """The first of these matrices that exists, [V, D]."""
        name = next((name for name in names if name in original), names[0])
        return original.take(name, size, model.d_model)[:, dimensions]

    decoder_names = [embeddings["decoder"], _SHARED]
    target = matrix(decoder_names[::-1] if shared else decoder_names, size)
    weights = {"target_embedding.weight": rows[1].matrix(target)}
    if not shared:
        weights["source_embedding.weight"] = rows[0].matrix(matrix([embeddings["encoder"], _SHARED], source_size))
    if not model.ties_output:
        weights["output.weight"] = rows[1].matrix(matrix(["lm_head.weight"], size))
    bias = torch.zeros(size)
    if "final_logits_bias" in original:
        bias = original.take("final_logits_bias", 1, size)[0]
    weights["output.bias"] = rows[1].bias(bias)
    original.ignore([_SHARED, *embeddings.values(), "lm_head.weight"])  # a file may have a matrix under several names
    for side in embeddings:
        _check_positions(original, f"model.{side}.embed_positions.weight", dimensions)
    weights |= layer_weights(model, HuggingFaceWeights(original, dimensions))
    original.check_all_taken()
    return _start_decoder(config, model, target, rows[1], weights)


def _check_positions(weights: Weights, name: str, dimensions: Tensor) -> None:
    """Raise NmtError if a file has other positions than nmt's sinusoids."""
    if name in weights:
        length, width = weights.length(name), len(dimensions)
        table = weights.take(name, length, width)[:, dimensions]
        if not torch.allclose(table, sinusoids(length, width, "interleaved"), atol=1e-3):
            raise NmtError(f"{weights.where}: {name}: not the sinusoids of the paper: cannot be imported")


def _start_decoder(
    config: SourceSettings, model: TransformerConfig, target: Tensor, rows: SubwordRows, weights: dict[str, Tensor]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """The settings and weights with which the decoder starts as in Marian: with the row of one of the subwords, usually
    of padding, whose row is zeros. target: Marian's embedding of the target [V, D]; rows: of the target."""
    start = config.number("decoder_start_token_id")
    if start >= len(target):
        raise NmtError(f"{config.path}: decoder_start_token_id: {start}: there are {len(target)} subwords")
    if not bool(target[start].any()):
        return model, weights
    if rows.original_ids[BOS] == NONE:
        weights["target_embedding.weight"][BOS] = target[start]
    elif rows.original_ids[BOS] != start:
        raise NmtError(f"{config.path}: decoder_start_token_id: {start}: cannot be imported: nmt starts with <s>")
    return replace(model, decoder_start="bos"), weights
