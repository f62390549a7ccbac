"""Exports a model as a Hugging Face folder, for transformers' MarianMTModel and MarianTokenizer.

Marian's sinusoids are the paper's, with all sines before all cosines, so the model dimension of every weight is
reordered in this way. Biases that our model does not have are zeros there, and narrower heads are padded with zeros
(`padded`). Models that Marian cannot represent are refused.
Source: transformers/models/marian.

Shapes: H heads, D d_model, d the width of a head, W the common width of all.
"""

import json
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_pairs import LanguagePairs
from nmt.config.schema import Config, DecodingConfig, TransformerConfig
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK, Tokenizer
from nmt.decoding.engine_support import changed
from nmt.errors import NmtError, in_one_line
from nmt.files.packages import install_command
from nmt.interop import export_folder, model_card
from nmt.interop.ctranslate2.export import length_exponent
from nmt.interop.model_card import Usage
from nmt.models.transformer.attention import MultiHeadAttention
from nmt.models.transformer.model import Transformer

if TYPE_CHECKING:
    from transformers import GenerationConfig, MarianConfig

log = logging.getLogger("nmt")

_ALL = slice(None)
_TOKENS = {
    "decoder_start_token_id": BOS,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "pad_token_id": PAD,
    "forced_eos_token_id": EOS,
}


# The values that transformers' Marian can have, and why no others.
_VALUES: Mapping[str, tuple[Sequence[str], str]] = {
    "norm": (["post"], "Marian normalizes after the residual sum"),
    "positions": (["interleaved"], "Marian always uses the paper's sinusoids"),
    "activation": (["relu", "gelu", "quick_gelu", "swish"], "nmt writes no such model for Marian"),
    "tie": (["all", "target", "none"], "nmt writes no such model for Marian"),
    "decoder_start": (["bos", "eos", "zero"], "nmt writes no such model for Marian"),
}
_NONE = -1000.0  # the bias of a subword without a share of the probability


def load_package() -> Any:
    """The transformers package, with its messages off. Raises NmtError if it is not installed."""
    try:
        import transformers
    except ImportError as error:
        # It has several lines where a package that it needs is too old.
        raise NmtError(f"transformers cannot be loaded ({in_one_line(error)}): {install_command('marian')}") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # MarianTokenizer loads sacremoses, but does not use it to split text into subwords.
    warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
    return transformers


def check(settings: Config) -> None:
    """Raises NmtError, with the setting, if MarianMTModel cannot represent a Transformer exactly, or MarianTokenizer
    cannot tell it its languages."""
    model = settings.model
    assert isinstance(model, TransformerConfig)
    fix = "export with --format ctranslate2, or train with"
    for key, (values, reason) in _VALUES.items():
        if (value := getattr(model, key)) not in values:
            raise NmtError(f"model.{key}: {value}: {reason}: {fix} {' or '.join(values)}")
    if model.d_model % model.heads:
        raise NmtError(
            f"model.heads: {model.heads}: Marian needs model.d_model: {model.d_model} to be a multiple of it: {fix} "
            "a divisor of it"
        )
    for key, value in (("norm_epsilon", 1e-5), ("position_offset", 0)):
        if getattr(model, key) != value:
            raise NmtError(f"model.{key}: {getattr(model, key)}: it is always {value:g} there: {fix} {value:g}")
    width = model.d_model // model.heads
    for key, size in (("key_size", model.key_size), ("value_size", model.value_size)):
        if size is not None and size > width:
            raise NmtError(f"model.{key}: {size}: Marian's heads are d_model / heads wide: {fix} at most {width}")
    pairs = settings.data.language_pairs
    if pairs.tag_count() > 1 or pairs.tag_count(side=1):
        raise NmtError(
            f"data.language_tags: {settings.data.language_tags}: MarianTokenizer puts one token before a source: {fix} "
            "target"
        )


def write(folder: Path, loaded: Checkpoint) -> None:
    """Write model, tokenizer and settings into an empty folder. Raises NmtError as `check`."""
    transformers = load_package()
    ours = loaded.build().requires_grad_(False)
    assert isinstance(ours, Transformer)
    check(loaded.config)
    theirs = transformers.MarianMTModel(_config(loaded, ours.config))
    theirs.generation_config = _generation_config(loaded.config)
    theirs.load_state_dict(dict(_weights(ours)), strict=False)  # the positions are computed
    theirs.save_pretrained(folder)
    export_folder.write(folder, loaded.config, loaded.vocabulary)
    _write_tokenizer(folder, loaded)
    model_card.write(folder, loaded, Usage("transformers", _usage(loaded)))
    mode = (folder / export_folder.SETTINGS).stat().st_mode  # as the umask wants; safetensors allows only the owner
    for weights in folder.glob("*.safetensors"):
        weights.chmod(mode)


def _config(loaded: Checkpoint, sizes: TransformerConfig) -> "MarianConfig":
    from transformers import MarianConfig

    vocabulary = loaded.vocabulary
    return MarianConfig(
        vocab_size=len(vocabulary.source),
        decoder_vocab_size=len(vocabulary.target),
        share_encoder_decoder_embeddings=sizes.ties_embeddings,
        tie_word_embeddings=sizes.ties_output,
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
        **_tokens(sizes),
    )


def _tokens(sizes: TransformerConfig) -> dict[str, int]:
    """The ids of special subwords. The decoder starts with BOS also where it starts with a zero vector: see
    `_target`."""
    return {**_TOKENS, "decoder_start_token_id": {"bos": BOS, "zero": BOS, "eos": EOS}[sizes.decoder_start]}


def _generation_config(settings: Config) -> "GenerationConfig":
    """The settings of transformers that are nearest to our search.

    Its longest and shortest outputs are fixed numbers, and its length penalty is |Y|^β.
    """
    from transformers import GenerationConfig

    decoding = settings.decoding
    if lost := [f"decoding.{name}" for name, support in changed(decoding) if not support.in_transformers]:
        log.warning("%s: not exported, because transformers has no such setting", ", ".join(lost))
    longest, model = export_folder.longest_position(settings), settings.model
    assert isinstance(model, TransformerConfig)
    return GenerationConfig(
        max_length=longest if decoding.max_length is None else min(longest, decoding.max_length + 2),  # BOS and EOS
        min_length=decoding.min_length + 1 if decoding.min_length else None,  # BOS
        no_repeat_ngram_size=decoding.no_repeat_ngram,
        bad_words_ids=[[PAD], [UNK], [BOS]],
        **_tokens(model),
        **_method(decoding),
    )


def _method(decoding: DecodingConfig) -> dict[str, Any]:
    """Sampling, greedy search or beam search."""
    match decoding.method:
        case "sample":
            # The default of transformers is the 50 most probable ones.
            cuts = {"top_k": decoding.top_k or 0, "top_p": 1.0 if decoding.top_p is None else decoding.top_p}
            return {"num_beams": 1, "do_sample": True, "temperature": decoding.temperature, **cuts}
        case "beam" if decoding.beam_size == 1:
            return {"num_beams": 1}
        case "beam":
            beta = length_exponent(decoding)
            return {"num_beams": decoding.beam_size, "early_stopping": True, "length_penalty": beta}
        case _:
            assert_never(decoding.method)


def _weights(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    """Marian's parameters by name."""
    # For each dimension of Marian the dimension of ours: 0, 2, 4, …, then 1, 3, 5, …
    order = torch.cat([torch.arange(first, model.config.d_model, 2) for first in (0, 1)])
    yield "model.encoder.embed_tokens.weight", model.source_embedding.weight[:, order]
    target, output, bias = _target(model)
    yield "model.decoder.embed_tokens.weight", target[:, order]
    if model.config.ties_embeddings:
        yield "model.shared.weight", target[:, order]
    yield "lm_head.weight", output[:, order]
    yield "final_logits_bias", bias[None]
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number, layer in enumerate(layers):
            for name, tensor in _layer(layer, order):
                yield f"model.{side}.layers.{number}.{name}", tensor


def _target(model: Transformer) -> tuple[Tensor, Tensor, Tensor]:
    """The target's embedding, the output layer's matrix and its bias. For a decoder that starts with a zero vector, the
    embedding of BOS is zeros; then BOS must have no share of the probability, of which it had next to none."""
    target, output = model.target_embedding.weight, model.output.weight
    bias = output.new_zeros(len(output)) if model.output.bias is None else model.output.bias.clone()
    match model.config.decoder_start:
        case "zero":
            target = target.index_fill(0, torch.tensor([BOS]), 0)
            output, bias[BOS] = target if model.config.ties_output else output, _NONE
        case "bos" | "eos":
            pass
        case _:
            assert_never(model.config.decoder_start)
    return target, output, bias


def _layer(layer: Any, order: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The parameters of an EncoderLayer or a DecoderLayer, by Marian's names."""
    yield from _attention("self_attn", layer.self_attention, layer.self_attention_residual.norm, order)
    if hasattr(layer, "cross_attention"):
        yield from _attention("encoder_attn", layer.cross_attention, layer.cross_attention_residual.norm, order)
    yield from _linear("fc1", layer.feed_forward.inner, inputs=order)
    yield from _linear("fc2", layer.feed_forward.outer, outputs=order)
    yield from _norm("final_layer_norm", layer.feed_forward_residual.norm, order)


def _attention(
    name: str, attention: MultiHeadAttention, norm: nn.LayerNorm, order: Tensor
) -> Iterator[tuple[str, Tensor]]:
    width = len(order) // attention.heads
    # Marian divides by sqrt(width), our model by sqrt(key_size).
    *projections, output = padded(attention, width, math.sqrt(width / attention.key_size))
    for letter, projection in zip("qkv", projections, strict=True):
        yield from _linear(f"{name}.{letter}_proj", projection, inputs=order)
    yield from _linear(f"{name}.out_proj", output, outputs=order)
    yield from _norm(f"{name}_layer_norm", norm, order)


@dataclass(frozen=True)
class Linear:
    """y = x weight^T + bias: weight [outputs, inputs], bias [outputs] or None."""

    weight: Tensor
    bias: Tensor | None


def padded(attention: MultiHeadAttention, width: int, query_scale: float) -> tuple[Linear, ...]:
    """Queries, keys and values [H·W, D] and output [D, H·W] with heads of W = `width` numbers, at least dk and dv.

    The queries are multiplied by query_scale. The added columns are zeros, so the result does not change: they add
    nothing to the product of a query and a key, and the output projection multiplies the zeros of the values by zeros.
    """

    def separate(rows: Tensor) -> list[Tensor]:
        query, key, value = (_widen(part, attention.heads, width) for part in torch.split(rows, attention.widths))
        return [query * query_scale, key, value]

    joint, output = attention.projection, attention.output
    biases = [None] * 3 if joint.bias is None else separate(joint.bias)
    query, key, value = map(Linear, separate(joint.weight), biases)
    widened = _widen(output.weight.t(), attention.heads, width).t().contiguous()
    return query, key, value, Linear(widened, output.bias)


def _widen(rows: Tensor, heads: int, width: int) -> Tensor:
    """Rows of H heads, [H·d, …] → [H·W, …], zeros at the end of each head."""
    by_head = rows.reshape(heads, len(rows) // heads, *rows.shape[1:])  # [H, d, …]
    missing = width - by_head.shape[1]
    return F.pad(by_head, (0, 0) * (by_head.dim() - 2) + (0, missing)).flatten(0, 1)


def _linear(
    name: str, projection: Linear | nn.Linear, outputs: Tensor | slice = _ALL, inputs: Tensor | slice = _ALL
) -> Iterator[tuple[str, Tensor]]:
    """A projection with its outputs or its inputs reordered: those that are the model dimension."""
    bias = projection.weight.new_zeros(len(projection.weight)) if projection.bias is None else projection.bias
    yield f"{name}.weight", projection.weight[outputs][:, inputs]
    yield f"{name}.bias", bias[outputs]


def _norm(name: str, norm: nn.LayerNorm, order: Tensor) -> Iterator[tuple[str, Tensor]]:
    yield f"{name}.weight", norm.weight[order]
    yield f"{name}.bias", norm.bias[order]


def _write_tokenizer(folder: Path, loaded: Checkpoint) -> None:
    """Write the tokenizer's files; the SentencePiece models are already there. Ids stay the same."""
    from transformers import MarianTokenizer

    vocabulary, settings = loaded.vocabulary, loaded.config
    pairs = settings.data.language_pairs
    pair, codes = pairs.pairs[0], {f"<2{target}>": language_code(target) for target in pairs.targets}
    _write_ids(folder / "vocab.json", vocabulary.source, codes if pairs.has_tags else {})
    if not vocabulary.shared:
        _write_ids(folder / "target_vocab.json", vocabulary.target, {})
    pad, unknown, _, end = vocabulary.source.pieces([PAD, UNK, BOS, EOS])
    MarianTokenizer(
        str(folder / export_folder.SOURCE),
        str(folder / export_folder.TARGET),
        str(folder / "vocab.json"),
        target_vocab_file=None if vocabulary.shared else str(folder / "target_vocab.json"),
        separate_vocabs=not vocabulary.shared,
        source_lang=pair.source,
        target_lang=pair.target,
        pad_token=pad,
        unk_token=unknown,
        eos_token=end,
        model_max_length=settings.longest_source + 1 + pairs.tag_count(),
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


def language_code(target: str) -> str:
    """What stands before a text for MarianTokenizer, which makes one subword of it: that of the target language."""
    return f">>{target}<<"


def _usage(loaded: Checkpoint) -> str:
    pairs = loaded.config.data.language_pairs
    code = f"{language_code(pairs.targets[0])} " if pairs.has_tags else ""
    return f"""
With `pip install torch transformers sentencepiece`, in this folder:

```python
from transformers import MarianMTModel, MarianTokenizer
model, tokenizer = MarianMTModel.from_pretrained("."), MarianTokenizer.from_pretrained(".")
outputs = model.generate(**tokenizer(["{code}A sentence."], return_tensors="pt"))
print(tokenizer.batch_decode(outputs, skip_special_tokens=True)[0])
```
"""


def explain_languages(pairs: LanguagePairs) -> str:
    """How a model of several pairs is told the languages."""
    codes = ", ".join(map(language_code, pairs.targets))
    return f"each text must begin with the code of the target language: {codes}"


def _write_ids(path: Path, tokenizer: Tokenizer, names: Mapping[str, str]) -> None:
    """names: other names of some subwords."""
    ids = {names.get(piece, piece): i for i, piece in enumerate(tokenizer.every_piece())}
    path.write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
