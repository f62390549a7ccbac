"""Imports M2M-100, SMaLL-100 and NLLB from folders of the Hugging Face hub, for transformers'
M2M100ForConditionalGeneration: for some of their languages, with the subwords that these need.

Their encoder and decoder are nmt's with `norm: pre`. The decoder starts with EOS, and positions are counted from the id
of padding plus one. In M2M-100 and NLLB, the token of the source language comes before the source, and the token of the
target language before the target; in SMaLL-100, the token of the target language comes before the source.
Source: transformers/models/m2m_100 and nllb; for SMaLL-100
Mohammadshahi et al. 2022, SMaLL-100: Introducing Shallow Multilingual Machine Translation Model for Low-Resource
Languages, section 3.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, permutations
from pathlib import Path

import torch

from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import Config, DecodingConfig, TransformerConfig
from nmt.data.subwords.vocabulary import BOS, EOS
from nmt.errors import NmtError
from nmt.files.text import read_lines
from nmt.interop import hugging_face, imported, search_settings, source
from nmt.interop.hugging_face import HuggingFaceWeights
from nmt.interop.imported import Imported
from nmt.interop.m2m100 import vocabulary as m2m100_vocabulary
from nmt.interop.search_settings import Tokens
from nmt.interop.source import SourceSettings
from nmt.interop.subwords import NONE
from nmt.interop.weights import layer_weights

log = logging.getLogger("nmt")

KIND = "m2m_100"  # model_type in config.json
_SHARED = "model.shared.weight"
# What a file can have besides: the same matrix by other names, and sinusoids.
_REDUNDANT = [
    "lm_head.weight",
    "model.encoder.embed_tokens.weight",
    "model.encoder.embed_positions.weights",
    "model.decoder.embed_tokens.weight",
    "model.decoder.embed_positions.weights",
]


class M2M100Importer:
    """As nmt.interop.imported.Importer."""

    program = "transformers"
    reads_text = True

    def read(self, path: Path, name: str, codes: Sequence[str], text: Sequence[Path] = ()) -> Imported:
        config = SourceSettings(str(path / "config.json"), source.read_mapping(path / "config.json"))
        model, family = _settings(config), m2m100_vocabulary.family_of(path)
        if empty := [file for file in text if not any(line.strip() for line in read_lines(file))]:
            raise NmtError(f"--text: {empty[0]} has no text, and only the subwords of text are kept: give another file")
        lines = chain.from_iterable(map(read_lines, text)) if text else None
        vocabulary, rows, known_codes = m2m100_vocabulary.read(path, family, config, codes, lines)
        original, size, width = source.read_weights(path), config.number("vocab_size"), model.d_model
        reader = HuggingFaceWeights(original, torch.arange(width))
        weights = dict(layer_weights(model, reader))
        for side in ("encoder", "decoder"):
            scale, bias = reader.norm_called(f"model.{side}.layer_norm")
            weights |= {f"{side}_norm.weight": scale, f"{side}_norm.bias": bias}
        weights["target_embedding.weight"] = rows.matrix(original.take(_SHARED, size, width))
        if NONE in rows.original_ids:
            model, weights["output.bias"] = replace(model, output_bias=True), rows.bias(torch.zeros(size))
        original.ignore(_REDUNDANT)
        original.check_all_taken()
        kept, removed = len(rows.original_ids), (size - len(rows.original_ids)) * width
        log.info("vocabulary: %s of %s subwords kept: %s parameters fewer", f"{kept:,}", f"{size:,}", f"{removed:,}")
        pairs = [LanguagePair(*pair) for pair in permutations(known_codes, 2)]
        settings = imported.settings(name, pairs, vocabulary, model, DecodingConfig(), family.language_tags)
        starts = set[str]()
        for pair in pairs:
            starts.update(settings.data.language_pairs.tags(pair, side=1))
        targets = [rows.original_ids[i] for i in vocabulary.target.tags(sorted(starts))]
        tokens = Tokens(rows.original_ids[EOS], rows.original_ids[: BOS + 1], targets, before=2 if targets else 1)
        search = search_settings.from_transformers(path, config, tokens)
        license = source.license_of(path) or family.license
        settings = replace(settings, decoding=search.decoding)
        return Imported(settings, vocabulary, weights, license, (*family.notes, *search.notes))

    def translate(self, path: Path, config: Config, lines: Sequence[str]) -> list[str]:
        """As Importer.translate. SMaLL-100's tokenizer is code in its folder, which is not executed; M2M-100's
        tokenizer puts the same tokens before a text."""
        transformers, pairs = hugging_face.load_package(), config.data.language_pairs
        is_nllb = m2m100_vocabulary.family_of(path).is_nllb
        kind = transformers.NllbTokenizer if is_nllb else transformers.M2M100Tokenizer
        tokenizer = kind.from_pretrained(path, local_files_only=True)
        model = transformers.M2M100ForConditionalGeneration.from_pretrained(path, local_files_only=True)
        pair = pairs.pairs[0]
        if pairs.tagged != "sides":
            tokenizer.src_lang = pair.target
            return hugging_face.translate(model, tokenizer, lines)
        tokenizer.src_lang = pair.source
        token = pair.target if is_nllb else f"__{pair.target}__"
        return hugging_face.translate(model, tokenizer, lines, first=tokenizer.convert_tokens_to_ids(token))


def _settings(config: SourceSettings) -> TransformerConfig:
    """The settings of the model. Raises NmtError if nmt has no such model."""
    config.check("only models with one matrix for source, target and output", {"tie_word_embeddings": True})
    return replace(
        hugging_face.transformer(config, "relu"),
        norm="pre",
        positions="concatenated",
        position_offset=config.number("pad_token_id", 1) + 1,
        decoder_start="eos",
    )
