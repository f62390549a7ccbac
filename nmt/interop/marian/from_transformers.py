"""Imports MarianMT models (OPUS-MT) from folders of the Hugging Face hub, for transformers' MarianMTModel.

Its sinusoids are the paper's, with all sines before all cosines, so the model dimension of every weight is reordered.
The decoder starts with the embedding of padding, which is a zero vector. Source: transformers/models/marian.

Shapes: D d_model, V subwords of theirs, W of ours.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from nmt.config.schema import TransformerConfig
from nmt.data.subwords.vocabulary import BOS, EOS
from nmt.errors import NmtError
from nmt.interop import hugging_face, imported, languages, search_settings, source
from nmt.interop.imported import Imported
from nmt.interop.languages import NamedLanguages
from nmt.interop.marian import vocabulary as marian_vocabulary
from nmt.interop.marian.vocabulary import Sides
from nmt.interop.search_settings import Tokens
from nmt.interop.source import Settings, Weights
from nmt.interop.subwords import NONE, Rows
from nmt.models.transformer.positions import sinusoids

_SHARED = "model.shared.weight"


def read(folder: Path, name: str, wanted: Sequence[str]) -> Imported:
    """The model in a folder. name: what it is called; wanted: codes of languages, as `languages.pairs_of`.

    Raises NmtError if files are missing or damaged, or the model is of another kind than nmt's.
    """
    config = Settings(str(folder / "config.json"), source.read_mapping(folder / "config.json"))
    about = source.read_mapping(folder / "tokenizer_config.json", optional=True)
    model, sides = _settings(config), _sides(folder, config, one=not about.get("separate_vocabs"))
    named = NamedLanguages.find(about, name)
    pairs = languages.pairs_of(named, sides.codes, wanted)
    of_target = sides.rows[1].theirs
    search = search_settings.of_transformers(folder, config, Tokens(of_target[EOS], of_target[: BOS + 1]))
    tags = languages.tags_of(pairs, sides.codes)
    settings = imported.settings(name, pairs, sides.vocabulary, model, search.decoding, tags)
    weights = _MarianWeights(source.read_weights(folder), model)
    ours = {**weights.embeddings(sides.rows), **weights.layers()}
    model, ours = _started(config, model, weights, sides.rows[1], ours)
    weights.given.check_all_taken()
    return Imported(
        replace(settings, model=model),
        sides.vocabulary,
        ours,
        (sides.rows[0].theirs, sides.rows[1].theirs),
        weights.dimensions.tolist(),
        source.license_of(folder),
        search.notes,
        says_languages=named.source is not None,
    )


def _settings(config: Settings) -> TransformerConfig:
    """Those of the model. Raises NmtError where it is of another kind than nmt's."""
    shared, tied = config.flag("share_encoder_decoder_embeddings", True), config.flag("tie_word_embeddings", True)
    tie: Literal["all", "target", "none"] = ("all" if shared else "target") if tied else "none"
    return replace(hugging_face.transformer(config, "gelu"), tie=tie, output_bias=True, decoder_start="zero")


def _sides(folder: Path, config: Settings, *, one: bool) -> Sides:
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


def _started(
    config: Settings, model: TransformerConfig, weights: "_MarianWeights", rows: Rows, ours: dict[str, Tensor]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Settings and weights by which the decoder starts as theirs: with the row of one of its subwords, most often of
    padding, whose row is zeros."""
    start, theirs = config.number("decoder_start_token_id"), weights.target
    if start >= len(theirs):
        raise NmtError(f"{config.path}: decoder_start_token_id: {start}: there are {len(theirs)} subwords")
    if not bool(theirs[start].any()):
        return model, ours
    if rows.theirs[BOS] == NONE:
        ours["target_embedding.weight"][BOS] = theirs[start]
    elif rows.theirs[BOS] != start:
        raise NmtError(f"{config.path}: decoder_start_token_id: {start}: cannot be imported: nmt starts with <s>")
    return replace(model, decoder_start="bos"), ours


class _MarianWeights:
    """Theirs by our names, with the model dimension in our order. dimensions: for each of ours theirs [D]; target
    [V, D]: the target's embedding."""

    def __init__(self, given: Weights, model: TransformerConfig):
        self.given, self.model = given, model
        width = model.d_model
        # Theirs are all sines, then all cosines: their first half are ours of even numbers.
        self.dimensions = torch.stack([torch.arange(width // 2), torch.arange(width // 2, width)], dim=1).flatten()
        self.target = torch.empty(0, width)

    def embeddings(self, rows: tuple[Rows, Rows]) -> dict[str, Tensor]:
        """The matrices with a row for each subword, and the output bias."""
        one, (source_size, size) = self.model.ties_embeddings, [max(side.theirs) + 1 for side in rows]
        own = {side: f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")}
        self.target = self._matrix([_SHARED, own["decoder"]] if one else [own["decoder"], _SHARED], size)
        found = {"target_embedding.weight": rows[1].matrix(self.target)}
        if not one:
            of_source = self._matrix([own["encoder"], _SHARED], source_size)
            found["source_embedding.weight"] = rows[0].matrix(of_source)
        if not self.model.ties_output:
            found["output.weight"] = rows[1].matrix(self._matrix(["lm_head.weight"], size))
        bias, zeros = "final_logits_bias", torch.zeros(size)
        found["output.bias"] = rows[1].bias(self.given.take(bias, 1, size)[0] if bias in self.given else zeros)
        self.given.ignore([_SHARED, *own.values(), "lm_head.weight"])  # a file may hold a matrix under several names
        return found

    def _matrix(self, names: Sequence[str], size: int) -> Tensor:
        """The first of these that there is [V, D]."""
        name = next((name for name in names if name in self.given), names[0])
        return self.given.take(name, size, self.model.d_model)[:, self.dimensions]

    def layers(self) -> dict[str, Tensor]:
        """Those of the encoder's and the decoder's layers."""
        counts = {"encoder": self.model.encoder_layers, "decoder": self.model.decoder_layers}
        found = dict[str, Tensor]()
        for side, count in counts.items():
            self._check_positions(f"model.{side}.embed_positions.weight")
            for number in range(count or 0):
                found |= self._layer(f"model.{side}.layers.{number}", f"{side}.{number}", decoder=side == "decoder")
        return found

    def _check_positions(self, name: str) -> None:
        """Raise NmtError if a file holds other positions than the sinusoids that are computed."""
        if name in self.given:
            length = self.given.length(name)
            table = self.given.take(name, length, self.model.d_model)[:, self.dimensions]
            if not torch.allclose(table, sinusoids(length, self.model.d_model, "interleaved"), atol=1e-3):
                raise NmtError(f"{self.given.where}: {name}: not the sinusoids of the paper: cannot be imported")

    def _layer(self, theirs: str, ours: str, *, decoder: bool) -> Iterator[tuple[str, Tensor]]:
        width, inner = self.model.d_model, self.model.feed_forward
        attentions = {"self_attn": "self_attention", **({"encoder_attn": "cross_attention"} if decoder else {})}
        for their_name, name in attentions.items():
            parts = {
                part: self._linear(f"{theirs}.{their_name}.{letter}_proj", width, width, by_inputs=True)
                for letter, part in (("q", "query"), ("k", "key"), ("v", "value"))
            }
            parts["output"] = self._linear(f"{theirs}.{their_name}.out_proj", width, width, by_outputs=True)
            yield from imported.attention(f"{ours}.{name}", parts)
            yield from self._norm(f"{theirs}.{their_name}_layer_norm", f"{ours}.{name}_residual.norm")
        sizes = {"inner": ("fc1", inner, width), "outer": ("fc2", width, inner)}
        for name, (their_name, outputs, inputs) in sizes.items():
            of_inner = name == "inner"
            linear = self._linear(
                f"{theirs}.{their_name}", outputs, inputs, by_inputs=of_inner, by_outputs=not of_inner
            )
            yield from zip((f"{ours}.feed_forward.{name}.{part}" for part in ("weight", "bias")), linear, strict=True)
        yield from self._norm(f"{theirs}.final_layer_norm", f"{ours}.feed_forward_residual.norm")

    def _linear(
        self, name: str, outputs: int, inputs: int, *, by_inputs: bool = False, by_outputs: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Weight and bias; its inputs or its outputs are the model dimension."""
        weight, bias = self.given.take(f"{name}.weight", outputs, inputs), self.given.take(f"{name}.bias", outputs)
        if by_inputs:
            weight = weight[:, self.dimensions]
        return (weight[self.dimensions], bias[self.dimensions]) if by_outputs else (weight, bias)

    def _norm(self, theirs: str, ours: str) -> Iterator[tuple[str, Tensor]]:
        for part in ("weight", "bias"):
            yield f"{ours}.{part}", self.given.take(f"{theirs}.{part}", self.model.d_model)[self.dimensions]
