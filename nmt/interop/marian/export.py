"""Exports a model as a Hugging Face folder, for transformers' MarianMTModel and MarianTokenizer.

Marian's sinusoids are the paper's, with all sines before all cosines, so the model dimension of every weight is
reordered. Missing biases become zeros, and narrower heads are padded with zeros. Models that Marian cannot represent
are refused.
Source: transformers/models/marian.

Shapes: D d_model.
"""

import json
import logging
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import torch
from torch import Tensor, nn

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import Config, DecodingConfig, TransformerConfig
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK, Tokenizer, Vocabulary
from nmt.decoding.engine_support import changed
from nmt.errors import NmtError
from nmt.interop import export_folder, hugging_face, model_card
from nmt.interop.ctranslate2.export import length_exponent
from nmt.interop.exporter import ExportOptions
from nmt.interop.marian import in_transformers
from nmt.interop.marian.in_transformers import language_code
from nmt.interop.model_card import EngineUsage
from nmt.interop.weights import ATTENTION_PARTS, ATTENTIONS, NEVER_CHOSEN, Linear, pad_heads
from nmt.models.transformer.attention import MultiHeadAttention
from nmt.models.transformer.model import Transformer

if TYPE_CHECKING:
    from transformers import GenerationConfig, MarianConfig

log = logging.getLogger("nmt")

_TOKENS = {
    "decoder_start_token_id": BOS,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "pad_token_id": PAD,
    "forced_eos_token_id": EOS,
}


# The values that transformers' Marian supports, and why it does not support others.
_VALUES: Mapping[str, tuple[Sequence[str], str]] = {
    "norm": (["post"], "Marian normalizes after the residual sum"),
    "positions": (["interleaved"], "Marian always uses the paper's sinusoids"),
    "activation": (["relu", "gelu", "quick_gelu", "swish"], "nmt cannot write it for Marian"),
    "tie": (["all", "target", "none"], "nmt cannot write it for Marian"),
    "decoder_start": (["bos", "eos", "zero"], "nmt cannot write it for Marian"),
}
_FIXED = {"norm_epsilon": 1e-5, "position_offset": 0}  # the only values in transformers' Marian


class MarianExporter:
    """A folder for transformers' MarianMTModel and MarianTokenizer. As nmt.interop.exporter.Exporter."""

    program = "transformers"
    quantizations: Sequence[str] = ("float32",)
    suffix: str | None = None
    has_splitter = False
    has_shortlist = False
    model_values: Mapping[str, Collection[object]] = {
        **{key: values for key, (values, _) in _VALUES.items()},
        **{key: [value] for key, value in _FIXED.items()},
    }

    def load_package(self) -> object:
        return hugging_face.load_package()

    def check(self, config: Config, vocabulary: Vocabulary | None = None) -> None:
        check(config)

    def write(self, destination: Path, loaded: Checkpoint, options: ExportOptions) -> None:
        transformers = hugging_face.load_package()
        transformer = loaded.build().requires_grad_(False)
        assert isinstance(transformer, Transformer)
        marian_model = transformers.MarianMTModel(_config(loaded, transformer.config))
        marian_model.generation_config = _generation_config(loaded.config)
        marian_model.load_state_dict(dict(_weights(transformer)), strict=False)  # the positions are computed
        marian_model.save_pretrained(destination)
        export_folder.write(destination, loaded.config, loaded.vocabulary)
        _write_tokenizer(destination, loaded)
        model_card.write(destination, loaded, EngineUsage("transformers", _usage(loaded)))
        # safetensors gives access to the owner only; other files follow the umask.
        mode = (destination / export_folder.SETTINGS).stat().st_mode
        for weights in destination.glob("*.safetensors"):
            weights.chmod(mode)

    def translate(self, destination: Path, loaded: Checkpoint, lines: Sequence[str]) -> list[str]:
        return in_transformers.translate(destination, loaded.config, lines)

    def notes(self, loaded: Checkpoint, options: ExportOptions) -> list[str]:
        pairs = loaded.config.data.language_pairs
        if not pairs.has_tags:
            return []
        codes = ", ".join(map(language_code, pairs.targets))
        return [f"languages: each text must begin with the code of the target language: {codes}"]


def check(settings: Config) -> None:
    """Raises NmtError, which names the setting, if MarianMTModel cannot represent a Transformer exactly, or
    MarianTokenizer cannot tell it its languages."""
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
    for key, value in _FIXED.items():
        if getattr(model, key) != value:
            raise NmtError(f"model.{key}: {getattr(model, key)}: it is always {value:g} in Marian: {fix} {value:g}")
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
    """The ids of special subwords. A decoder that starts with a zero vector also starts with BOS: see `_target`."""
    starts = {"bos": BOS, "zero": BOS, "eos": EOS}
    return {**_TOKENS, "decoder_start_token_id": starts[sizes.decoder_start]}


def _generation_config(settings: Config) -> "GenerationConfig":
    """The settings of transformers that are closest to nmt's search.

    In transformers, the longest and the shortest output are fixed numbers, and the length penalty is |Y|^β.
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
    """The settings of sampling, greedy search or beam search."""
    match decoding.method:
        case "sample":
            # The default top_k of transformers is 50.
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
    """The parameters with their names in Marian."""
    # For each dimension in Marian, the dimension in nmt: 0, 2, 4, …, then 1, 3, 5, …
    order = torch.cat([torch.arange(first, model.config.d_model, 2) for first in (0, 1)])
    yield "model.encoder.embed_tokens.weight", model.source_embedding.weight[:, order]
    target, output, bias = _target(model)
    yield "model.decoder.embed_tokens.weight", target[:, order]
    if model.config.ties_embeddings:
        yield "model.shared.weight", target[:, order]
    yield "lm_head.weight", output[:, order]
    yield "final_logits_bias", bias[None]
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for index, layer in enumerate(layers):
            yield from _layer(layer, side, index, order)


def _target(model: Transformer) -> tuple[Tensor, Tensor, Tensor]:
    """The target's embedding, the output layer's matrix and its bias. If the decoder starts with a zero vector, the
    embedding of BOS becomes zeros, and BOS is never chosen: its probability was close to zero before."""
    target, output = model.target_embedding.weight, model.output.weight
    bias = output.new_zeros(len(output)) if model.output.bias is None else model.output.bias.clone()
    match model.config.decoder_start:
        case "zero":
            target = target.index_fill(0, torch.tensor([BOS]), 0)
            output, bias[BOS] = target if model.config.ties_output else output, NEVER_CHOSEN
        case "bos" | "eos":
            pass
        case _:
            assert_never(model.config.decoder_start)
    return target, output, bias


def _layer(layer: Any, side: str, index: int, order: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The parameters of an EncoderLayer or a DecoderLayer with their names in Marian."""
    feed_forward = layer.feed_forward
    inner = feed_forward.inner.weight[:, order], _bias(feed_forward.inner)
    outer = feed_forward.outer.weight[order], _bias(feed_forward.outer)[order]
    linears = {"feed_forward.inner": inner, "feed_forward.outer": outer}
    norms = {"feed_forward": layer.feed_forward_residual.norm}
    for attention in ATTENTIONS[side]:
        projections = _attention(getattr(layer, attention), order)
        linears |= {f"{attention}.{part}": linear for part, linear in zip(ATTENTION_PARTS, projections, strict=True)}
        norms[attention] = getattr(layer, f"{attention}_residual").norm
    for part, (weight, bias) in linears.items():
        prefix = hugging_face.linear_name(side, index, part)
        yield f"{prefix}.weight", weight
        yield f"{prefix}.bias", bias
    for block, norm in norms.items():
        prefix = hugging_face.norm_name(side, index, block)
        yield f"{prefix}.weight", norm.weight[order]
        yield f"{prefix}.bias", norm.bias[order]


def _attention(attention: MultiHeadAttention, order: Tensor) -> list[Linear]:
    """Queries, keys, values and output, padded to heads of width d_model / heads."""
    joint, output, heads = attention.projection, attention.output, attention.heads
    width = len(order) // heads
    weights = [pad_heads(part, heads, width) for part in torch.split(joint.weight, attention.widths)]
    biases = [pad_heads(part, heads, width) for part in torch.split(_bias(joint), attention.widths)]
    scale = math.sqrt(width / attention.key_size)  # Marian divides by sqrt(width), nmt by sqrt(key_size)
    weights[0], biases[0] = scale * weights[0], scale * biases[0]
    linears = [(weight[:, order], bias) for weight, bias in zip(weights, biases, strict=True)]
    columns = pad_heads(output.weight.t(), heads, width).t()
    return [*linears, (columns[order], _bias(output)[order])]


def _bias(layer: nn.Linear) -> Tensor:
    """The bias of a layer, or zeros if it has none."""
    return layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias


def _write_tokenizer(folder: Path, loaded: Checkpoint) -> None:
    """Write the tokenizer's files except the SentencePiece models, which exist already. Ids stay the same."""
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


def _write_ids(path: Path, tokenizer: Tokenizer, names: Mapping[str, str]) -> None:
    """Write the ids of the subwords. names: new names of some subwords."""
    ids = {names.get(piece, piece): i for i, piece in enumerate(tokenizer.every_piece())}
    path.write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
