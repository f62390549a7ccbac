"""Imports M2M-100, SMaLL-100 and NLLB from folders of the Hugging Face hub, for transformers'
M2M100ForConditionalGeneration: for some of their languages, with the subwords that these need.

Their encoder and decoder are as nmt's with `norm: pre`; the decoder starts from EOS, and positions count from the one
after padding's id. M2M-100 and NLLB read the source's language before the source and write the target's before the
target; SMaLL-100 reads the target's before the source. Source: transformers/models/m2m_100 and nllb; for SMaLL-100
Mohammadshahi et al. 2022, SMaLL-100: Introducing Shallow Multilingual Machine Translation Model for Low-Resource
Languages, section 3.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import torch
from torch import Tensor

from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import DecodingConfig, TransformerConfig
from nmt.data.subwords.vocabulary import BOS, EOS
from nmt.errors import NmtError
from nmt.files.text import read_lines
from nmt.interop import hugging_face, imported, search_settings, source
from nmt.interop.imported import Imported
from nmt.interop.m2m100 import vocabulary as m2m100_vocabulary
from nmt.interop.search_settings import Tokens
from nmt.interop.source import Settings, Weights
from nmt.interop.subwords import NONE

log = logging.getLogger("nmt")

KIND = "m2m_100"  # model_type in config.json
_SHARED = "model.shared.weight"
# That a file may hold beside it: the same matrix by other names, and sinusoids.
_ALSO = ["lm_head.weight", *(f"model.{side}.embed_{kind}" for side in ("encoder", "decoder")
                             for kind in ("tokens.weight", "positions.weights"))]  # fmt: skip


def is_one(path: Path) -> bool:
    """Whether a folder holds one of these models."""
    return source.read_mapping(path / "config.json", optional=True).get("model_type") == KIND


def read(folder: Path, name: str, wanted: Sequence[str], text: Sequence[Path] = ()) -> Imported:
    """The model in a folder, for the wanted languages. name: what it is called; text: files in these languages: only
    subwords that they use are kept; none: all in the scripts of the languages.

    Raises NmtError if files are missing or damaged, if the model is of another kind than nmt's, or for languages that
    it does not have.
    """
    config = Settings(str(folder / "config.json"), source.read_mapping(folder / "config.json"))
    model, family = _settings(config), m2m100_vocabulary.family_of(folder)
    if empty := [path for path in text if not any(line.strip() for line in read_lines(path))]:
        raise NmtError(f"--text: {empty[0]} has no text: only the subwords that text needs would be kept")
    lines = (line for path in text for line in read_lines(path)) if text else None
    vocabulary, rows, codes = m2m100_vocabulary.read(folder, family, config, wanted, lines)
    weights = _M2M100Weights(source.read_weights(folder), model)
    ours, size = dict(weights.layers()), config.number("vocab_size")
    ours["target_embedding.weight"] = rows.matrix(weights.given.take(_SHARED, size, model.d_model))
    if NONE in rows.theirs:
        model, ours["output.bias"] = replace(model, output_bias=True), rows.bias(torch.zeros(size))
    weights.given.ignore(_ALSO)
    weights.given.check_all_taken()
    kept, removed = len(rows.theirs), (size - len(rows.theirs)) * model.d_model
    log.info("vocabulary: %s of %s subwords kept: %s parameters fewer", f"{kept:,}", f"{size:,}", f"{removed:,}")
    pairs = [LanguagePair(*pair) for pair in permutations(codes, 2)]
    settings = imported.settings(name, pairs, vocabulary, model, DecodingConfig(), family.language_tags)
    starts = {tag for pair in pairs for tag in settings.data.language_pairs.tags(pair, side=1)}
    targets = [rows.theirs[i] for i in vocabulary.target.tags(sorted(starts))]
    tokens = Tokens(rows.theirs[EOS], rows.theirs[: BOS + 1], targets, before=2 if targets else 1)
    search = search_settings.of_transformers(folder, config, tokens)
    return Imported(
        replace(settings, decoding=search.decoding),
        vocabulary,
        ours,
        (rows.theirs, rows.theirs),
        range(model.d_model),
        source.license_of(folder) or family.license,
        (*family.notes, *search.notes),
    )


def _settings(config: Settings) -> TransformerConfig:
    """Those of the model. Raises NmtError where it is of another kind than nmt's."""
    config.check("only models with one matrix for source, target and output", {"tie_word_embeddings": True})
    return replace(
        hugging_face.transformer(config, "relu"),
        norm="pre",
        positions="concatenated",
        position_offset=config.number("pad_token_id", 1) + 1,
        decoder_start="eos",
    )


@dataclass(frozen=True)
class _M2M100Weights:
    """Theirs by our names."""

    given: Weights
    model: TransformerConfig

    def layers(self) -> Iterator[tuple[str, Tensor]]:
        """All but the matrix with a row for each subword."""
        for side, count in (("encoder", self.model.encoder_layers), ("decoder", self.model.decoder_layers)):
            for number in range(count or 0):
                yield from self._layer(f"model.{side}.layers.{number}", f"{side}.{number}", decoder=side == "decoder")
            yield from self._norm(f"model.{side}.layer_norm", f"{side}_norm")

    def _layer(self, theirs: str, ours: str, *, decoder: bool) -> Iterator[tuple[str, Tensor]]:
        width, inner = self.model.d_model, self.model.feed_forward
        attentions = {"self_attn": "self_attention", **({"encoder_attn": "cross_attention"} if decoder else {})}
        for their_name, name in attentions.items():
            parts = {
                part: self._linear(f"{theirs}.{their_name}.{projection}", width, width)
                for projection, part in (
                    ("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "output"),
                )
            }  # fmt: skip
            yield from imported.attention(f"{ours}.{name}", parts)
            yield from self._norm(f"{theirs}.{their_name}_layer_norm", f"{ours}.{name}_residual.norm")
        for name, their_name, *sizes in (("inner", "fc1", inner, width), ("outer", "fc2", width, inner)):
            weight, bias = self._linear(f"{theirs}.{their_name}", *sizes)
            yield f"{ours}.feed_forward.{name}.weight", weight
            yield f"{ours}.feed_forward.{name}.bias", bias
        yield from self._norm(f"{theirs}.final_layer_norm", f"{ours}.feed_forward_residual.norm")

    def _linear(self, name: str, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
        return self.given.take(f"{name}.weight", outputs, inputs), self.given.take(f"{name}.bias", outputs)

    def _norm(self, theirs: str, ours: str) -> Iterator[tuple[str, Tensor]]:
        for part in ("weight", "bias"):
            yield f"{ours}.{part}", self.given.take(f"{theirs}.{part}", self.model.d_model)
