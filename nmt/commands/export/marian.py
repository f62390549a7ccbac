"""Our model as a Hugging Face folder, for transformers' MarianMTModel and MarianTokenizer.

Marian's sinusoids are the paper's with all sines before all cosines, so a model with interleaved ones becomes
Marian's when the model dimension of every weight is brought into that order. Biases that we have not are zeros
there, narrower heads are filled up with zeros (`attention_weights.py`), and what Marian has no place for is
refused by name.
Source: transformers/models/marian.
"""

import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nmt.checkpoints import export_folder
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.export.architecture import build_transformer
from nmt.commands.export.attention_weights import Linear, linear, padded, scale_for
from nmt.config.schema import Config, DecodingConfig
from nmt.data.vocabulary import BOS, EOS, PAD, UNK, Tokenizer
from nmt.errors import NmtError
from nmt.models.transformer.attention import MultiHeadAttention
from nmt.models.transformer.model import Transformer

if TYPE_CHECKING:
    from transformers import GenerationConfig, MarianConfig

log = logging.getLogger("nmt")

_NOT_CARRIED = ("banned", "coverage_penalty", "min_length_ratio", "consensus")  # of decoding: transformers has none


def load_package() -> Any:
    """The transformers package, quiet. Raises NmtError where it is not installed."""
    try:
        import transformers
    except ImportError as error:
        raise NmtError(f"transformers cannot be loaded ({error}): pip install 'nmt[marian]'") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # Its normaliser of punctuation is loaded by MarianTokenizer, but not used in cutting text into subwords.
    warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
    return transformers


def check(settings: Config) -> None:
    """Raise NmtError, naming the setting, for a model that MarianMTModel cannot hold exactly."""
    model = settings.model
    mend = "export with --format ctranslate2, or train with"
    if model.norm != "post":
        raise NmtError(f"model.norm: {model.norm}: Marian's layer norms come after the sums: {mend} post")
    if model.positions != "interleaved":
        raise NmtError(
            f"model.positions: {model.positions}: Marian computes the paper's sinusoids by itself: {mend} interleaved"
        )
    if model.d_model % model.heads:
        raise NmtError(
            f"model.heads: {model.heads}: Marian's heads share out model.d_model: {model.d_model} evenly: {mend} "
            "a divisor of it"
        )
    width = model.d_model // model.heads
    for key, size in (("key_size", model.key_size), ("value_size", model.value_size)):
        if size is not None and size > width:
            raise NmtError(f"model.{key}: {size}: Marian's heads are d_model / heads wide: {mend} at most {width}")


def write(folder: Path, loaded: Checkpoint) -> None:
    """Write model, tokenizer and settings into a folder that is there and empty, in float32.

    Raises NmtError as `check` and `build_transformer` do.
    """
    transformers = load_package()
    check(loaded.config)
    ours = build_transformer(loaded)
    theirs = transformers.MarianMTModel(_config(loaded))
    theirs.generation_config = _generation_config(loaded.config)
    theirs.load_state_dict(dict(_weights(ours)), strict=False)  # without positions, computed, and a bias of zeros
    theirs.save_pretrained(folder)
    export_folder.write(folder, loaded.config, loaded.vocabulary)
    _write_tokenizer(folder, loaded)
    readable = (
        (folder / export_folder.SETTINGS).stat().st_mode
    )  # what the umask allows; safetensors lets the owner alone
    for weights in folder.glob("*.safetensors"):
        weights.chmod(readable)


def _config(loaded: Checkpoint) -> "MarianConfig":
    from transformers import MarianConfig

    sizes, vocabulary = loaded.config.model, loaded.vocabulary
    return MarianConfig(
        vocab_size=len(vocabulary.source),
        decoder_vocab_size=len(vocabulary.target),
        share_encoder_decoder_embeddings=sizes.tie == "all",
        tie_word_embeddings=sizes.tie != "none",
        max_position_embeddings=export_folder.longest_position(loaded.config),
        d_model=sizes.d_model,
        scale_embedding=True,
        encoder_layers=sizes.encoder_layers or sizes.layers,
        decoder_layers=sizes.decoder_layers or sizes.layers,
        encoder_attention_heads=sizes.heads,
        decoder_attention_heads=sizes.heads,
        encoder_ffn_dim=sizes.feed_forward,
        decoder_ffn_dim=sizes.feed_forward,
        activation_function=sizes.activation,
        dropout=sizes.dropout,
        attention_dropout=sizes.attention_dropout,
        activation_dropout=sizes.activation_dropout,
        decoder_start_token_id=BOS,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
        forced_eos_token_id=EOS,
    )


def _generation_config(settings: Config) -> "GenerationConfig":
    """Our search as nearly as transformers has it: the longest output is one number, as is the shortest, and the
    length penalty |Y|^β. That is ours where it is an average or none; of ((5+|Y|)/6)^α it is the β with the same
    slope at 20 subwords: at that length both prefer alike."""
    from transformers import GenerationConfig

    decoding = settings.decoding
    _warn_of_what_is_lost(decoding)
    longest = export_folder.longest_position(settings)
    return GenerationConfig(
        max_length=longest if decoding.max_length is None else min(longest, decoding.max_length + 2),  # BOS and EOS
        min_length=decoding.min_length + 1 if decoding.min_length else None,  # BOS
        no_repeat_ngram_size=decoding.no_repeat_ngram,
        bad_words_ids=[[PAD], [UNK], [BOS]],
        decoder_start_token_id=BOS,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
        forced_eos_token_id=EOS,
        **_choice(decoding),
    )


def _choice(decoding: DecodingConfig) -> dict[str, Any]:
    """How the next subword is chosen: drawn, greedily, or by beam search."""
    if decoding.method == "sample":
        # Without a number transformers samples from the 50 likeliest.
        cuts = {"top_k": decoding.top_k or 0, "top_p": 1.0 if decoding.top_p is None else decoding.top_p}
        return {"num_beams": 1, "do_sample": True, "temperature": decoding.temperature, **cuts}
    if decoding.beam_size == 1:
        return {"num_beams": 1}
    slope = {"gnmt": 20 / (5 + 20), "average": 1.0, "none": 0.0}[decoding.normalization]
    beta = decoding.length_penalty * slope
    return {"num_beams": decoding.beam_size, "early_stopping": True, "length_penalty": beta}


def _warn_of_what_is_lost(decoding: DecodingConfig) -> None:
    ordinary = DecodingConfig()
    lost = [f"decoding.{key}" for key in _NOT_CARRIED if getattr(decoding, key) != getattr(ordinary, key)]
    if lost:
        log.warning("%s: transformers has no such setting: its search in the folder goes without", ", ".join(lost))


def _weights(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    """Marian's parameters by name."""
    order = _sines_first(model.config.d_model)
    yield "model.encoder.embed_tokens.weight", model.source_embedding.weight.detach()[:, order]
    yield "model.decoder.embed_tokens.weight", model.target_embedding.weight.detach()[:, order]
    if model.config.tie == "all":
        yield "model.shared.weight", model.target_embedding.weight.detach()[:, order]
    yield "lm_head.weight", model.output.weight.detach()[:, order]
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number, layer in enumerate(layers):
            for name, tensor in _layer(layer, order):
                yield f"model.{side}.layers.{number}.{name}", tensor


def _sines_first(d_model: int) -> Tensor:
    """Where each dimension of Marian's is in ours: 0, 2, 4, …, then 1, 3, 5, …"""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def _layer(layer: Any, order: Tensor) -> Iterator[tuple[str, Tensor]]:
    """An EncoderLayer's or a DecoderLayer's parameters by Marian's names."""
    yield from _attention("self_attn", layer.self_attention, layer.self_attention_residual.norm, order)
    if hasattr(layer, "cross_attention"):
        yield from _attention("encoder_attn", layer.cross_attention, layer.cross_attention_residual.norm, order)
    yield from _reading("fc1", linear(layer.feed_forward.inner), order)
    yield from _writing("fc2", linear(layer.feed_forward.outer), order)
    yield from _norm("final_layer_norm", layer.feed_forward_residual.norm, order)


def _attention(
    name: str, attention: MultiHeadAttention, norm: nn.LayerNorm, order: Tensor
) -> Iterator[tuple[str, Tensor]]:
    width = len(order) // attention.heads
    parts = padded(attention, width, scale_for(attention, width))
    yield from _reading(f"{name}.q_proj", parts.query, order)
    yield from _reading(f"{name}.k_proj", parts.key, order)
    yield from _reading(f"{name}.v_proj", parts.value, order)
    yield from _writing(f"{name}.out_proj", parts.output, order)
    yield from _norm(f"{name}_layer_norm", norm, order)


def _reading(name: str, of: Linear, order: Tensor) -> Iterator[tuple[str, Tensor]]:
    """A projection from the model dimension."""
    yield f"{name}.weight", of.weight[:, order]
    yield f"{name}.bias", of.weight.new_zeros(len(of.weight)) if of.bias is None else of.bias


def _writing(name: str, of: Linear, order: Tensor) -> Iterator[tuple[str, Tensor]]:
    """A projection to the model dimension."""
    yield f"{name}.weight", of.weight[order]
    yield f"{name}.bias", of.weight.new_zeros(len(order)) if of.bias is None else of.bias[order]


def _norm(name: str, norm: nn.LayerNorm, order: Tensor) -> Iterator[tuple[str, Tensor]]:
    yield f"{name}.weight", norm.weight.detach()[order]
    yield f"{name}.bias", norm.bias.detach()[order]


def _write_tokenizer(folder: Path, loaded: Checkpoint) -> None:
    """The tokenizer's own files, beside the SentencePiece models that are there; ids stay as they are."""
    from transformers import MarianTokenizer

    vocabulary, settings = loaded.vocabulary, loaded.config
    _write_ids(folder / "vocab.json", vocabulary.source)
    if not vocabulary.shared:
        _write_ids(folder / "target_vocab.json", vocabulary.target)
    pad, unknown, _, end = vocabulary.source.pieces([PAD, UNK, BOS, EOS])
    MarianTokenizer(
        str(folder / export_folder.SOURCE),
        str(folder / export_folder.TARGET),
        str(folder / "vocab.json"),
        target_vocab_file=None if vocabulary.shared else str(folder / "target_vocab.json"),
        separate_vocabs=not vocabulary.shared,
        source_lang=settings.data.source_language,
        target_lang=settings.data.target_language,
        pad_token=pad,
        unk_token=unknown,
        eos_token=end,
        model_max_length=settings.longest_source + 1,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


def _write_ids(path: Path, tokenizer: Tokenizer) -> None:
    ids = {piece: i for i, piece in enumerate(tokenizer.every_piece())}
    path.write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
