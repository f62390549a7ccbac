"""Imports MarianMT models (OPUS-MT) from folders of the Hugging Face hub, for transformers' MarianMTModel.

Its sinusoids are the paper's, with all sines before all cosines, so the model dimension of every weight is reordered.
The decoder starts with the embedding of padding, which is a zero vector. Source: transformers/models/marian.

Shapes: D d_model, V subwords of theirs, W of ours.
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
        model, sides = _settings(config), _sides(path, config, one=not about.get("separate_vocabs"))
        named = NamedLanguages.find(about, name)
        pairs = pairs_of(named, sides.codes, codes)
        target_ids = sides.rows[1].theirs
        search = search_settings.of_transformers(path, config, Tokens(target_ids[EOS], target_ids[: BOS + 1]))
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
    """Those of the model. Raises NmtError where it is of another kind than nmt's."""
    shared, tied = config.flag("share_encoder_decoder_embeddings", True), config.flag("tie_word_embeddings", True)
    tie: Literal["all", "target", "none"] = ("all" if shared else "target") if tied else "none"
    return replace(hugging_face.transformer(config, "gelu"), tie=tie, output_bias=True, decoder_start="zero")


def _sides(folder: Path, config: SourceSettings, *, one: bool) -> MarianVocabularies:
    """The vocabularies in a folder; one: both sides have the same ids."""
    files = [folder / "vocab.json"] if one else [folder / "vocab.json", folder / "target_vocab.json"]
    ids, size = [source.read_vocabulary(file) for file in files], config.number("vocab_size")
    of_target = size if config.values.get("decoder_vocab_size") is None else config.number("decoder_vocab_size")
    found = marian_vocabulary.read(
        [folder / "source.spm", folder / "target.spm"], ids, [size, of_target][: len(files)], files
    )
    if config.values.get("eos_token_id") not in (ids[-1]["</s>"], [ids[-1]["</s>"]]):
        given = source.shown(config.values.get("eos_token_id"))
        raise NmtError(f"{config.path}: eos_token_id: {given}: in {files[-1].name} </s> is {ids[-1]['</s>']}")
    return found


def _read_weights(
    given: Weights, config: SourceSettings, model: TransformerConfig, rows: tuple[SubwordRows, SubwordRows]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Theirs by our names, with the model dimension in our order; and the settings with the start of the decoder."""
    half = model.d_model // 2
    # Theirs are all sines, then all cosines: their first half are ours of even numbers.
    dimensions = torch.stack([torch.arange(half), torch.arange(half, 2 * half)], dim=1).flatten()
    one, (source_size, size) = model.ties_embeddings, [max(side.theirs) + 1 for side in rows]
    own = {side: f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")}

    def matrix(names: Sequence[str], size: int) -> Tensor:
        """The first of these that there is [V, D]."""
        name = next((name for name in names if name in given), names[0])
        return given.take(name, size, model.d_model)[:, dimensions]

    target = matrix([_SHARED, own["decoder"]] if one else [own["decoder"], _SHARED], size)
    weights = {"target_embedding.weight": rows[1].matrix(target)}
    if not one:
        weights["source_embedding.weight"] = rows[0].matrix(matrix([own["encoder"], _SHARED], source_size))
    if not model.ties_output:
        weights["output.weight"] = rows[1].matrix(matrix(["lm_head.weight"], size))
    bias = given.take("final_logits_bias", 1, size)[0] if "final_logits_bias" in given else torch.zeros(size)
    weights["output.bias"] = rows[1].bias(bias)
    given.ignore([_SHARED, *own.values(), "lm_head.weight"])  # a file may hold a matrix under several names
    for side in own:
        _check_positions(given, f"model.{side}.embed_positions.weight", dimensions)
    weights |= layer_weights(model, HuggingFaceWeights(given, dimensions))
    given.check_all_taken()
    return _start_decoder(config, model, target, rows[1], weights)


def _check_positions(given: Weights, name: str, dimensions: Tensor) -> None:
    """Raise NmtError if a file holds other positions than the sinusoids that are computed."""
    if name in given:
        length, width = given.length(name), len(dimensions)
        table = given.take(name, length, width)[:, dimensions]
        if not torch.allclose(table, sinusoids(length, width, "interleaved"), atol=1e-3):
            raise NmtError(f"{given.where}: {name}: not the sinusoids of the paper: cannot be imported")


def _start_decoder(
    config: SourceSettings, model: TransformerConfig, target: Tensor, rows: SubwordRows, weights: dict[str, Tensor]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Settings and weights by which the decoder starts as theirs: with the row of one of its subwords, most often of
    padding, whose row is zeros. target: their embedding of the target [V, D]; rows: of the target."""
    start = config.number("decoder_start_token_id")
    if start >= len(target):
        raise NmtError(f"{config.path}: decoder_start_token_id: {start}: there are {len(target)} subwords")
    if not bool(target[start].any()):
        return model, weights
    if rows.theirs[BOS] == NONE:
        weights["target_embedding.weight"][BOS] = target[start]
    elif rows.theirs[BOS] != start:
        raise NmtError(f"{config.path}: decoder_start_token_id: {start}: cannot be imported: nmt starts with <s>")
    return replace(model, decoder_start="bos"), weights
