"""What the encoder-decoders of transformers, Marian and M2M-100, have in common: their config.json as settings of nmt,
the names of their weights, and the package itself."""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nmt.config.schema import TransformerConfig
from nmt.errors import NmtError, in_one_line
from nmt.files.packages import install_command
from nmt.interop import source
from nmt.interop.source import SourceSettings
from nmt.interop.weights import Linear, Weights

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "quick_gelu": "quick_gelu", "swish": "swish", "silu": "swish"}
_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_PARTS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj", "inner": "fc1", "outer": "fc2"}
_MOST_TOKENS = 200  # of a translation that is only used for a comparison
_GREEDY = {"num_beams": 1, "do_sample": False, "min_length": 0, "no_repeat_ngram_size": 0, "repetition_penalty": 1.0}


def linear_name(side: str, layer: int, part: str) -> str:
    """The name of a linear layer in transformers. Parameters: as nmt.interop.weights.LayerReader."""
    block, name = part.split(".")
    inside = f"{_ATTENTIONS[block]}." if block in _ATTENTIONS else ""
    return f"model.{side}.layers.{layer}.{inside}{_PARTS[name]}"


def norm_name(side: str, layer: int, block: str) -> str:
    """The name of the norm of a block in transformers. Parameters: as nmt.interop.weights.LayerReader."""
    return f"model.{side}.layers.{layer}.{_ATTENTIONS.get(block, 'final')}_layer_norm"


class HuggingFaceWeights:
    """Reads the layers, as nmt.interop.weights.LayerReader. dimensions: for each dimension of nmt's model, the
    dimension in transformers, [D]."""

    def __init__(self, weights: Weights, dimensions: Tensor):
        self.weights, self.dimensions = weights, dimensions

    def linear(self, side: str, layer: int, part: str, outputs: int, inputs: int) -> Linear:
        name = linear_name(side, layer, part)
        weight = self.weights.take(f"{name}.weight", outputs, inputs)
        bias = self.weights.take(f"{name}.bias", outputs)
        # The model's dimensions are the outputs of these parts, and the inputs of the others.
        if part.endswith(("output", "outer")):
            return weight[self.dimensions], bias[self.dimensions]
        return weight[:, self.dimensions], bias

    def norm(self, side: str, layer: int, block: str) -> Linear:
        return self.norm_called(norm_name(side, layer, block))

    def norm_called(self, name: str) -> Linear:
        """The scale and the bias [D] of the norm with this name."""
        width = len(self.dimensions)
        scale, bias = (self.weights.take(f"{name}.{part}", width) for part in ("weight", "bias"))
        return scale[self.dimensions], bias[self.dimensions]


def transformer(config: SourceSettings, activation: str) -> TransformerConfig:
    """The widths, the depths and the activation function. activation: the default if config.json names none. Raises
    NmtError if nmt has no model with these settings."""
    config.check("nmt multiplies embeddings by the root of their width", {"scale_embedding": True})
    width, heads = config.width_and_heads("d_model", "encoder_attention_heads")
    inner = config.number("encoder_ffn_dim")
    same = {"decoder_attention_heads": heads, "decoder_ffn_dim": inner}
    config.check("in nmt it is the same in encoder and decoder", same)
    if not 64 <= (longest := config.number("max_position_embeddings", 1024)) <= 1_000_000:
        raise NmtError(f"{config.path}: max_position_embeddings: {source.shown(longest)}: 64 to 1,000,000 is expected")
    return TransformerConfig(
        d_model=width,
        feed_forward=inner,
        encoder_layers=config.number("encoder_layers"),
        decoder_layers=config.number("decoder_layers"),
        heads=heads,
        activation=config.choice("activation_function", _ACTIVATIONS, activation),  # type: ignore[arg-type]
    )


def load_package() -> Any:
    """The transformers package, with its messages off. Raises NmtError if it is not installed."""
    try:
        import transformers
    except ImportError as error:
        # The message has several lines if a package that transformers needs is too old.
        raise NmtError(f"transformers cannot be loaded ({in_one_line(error)}): {install_command('marian')}") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # MarianTokenizer loads sacremoses, but does not use it to split text into subwords.
    warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
    return transformers


@torch.inference_mode()
def translate(model: Any, tokenizer: Any, lines: Sequence[str], first: int | None = None) -> list[str]:
    """Translates lines with a model and a tokenizer of transformers, by greedy search on the CPU. first: the id of the
    token that each output begins with, if there is one."""
    config = model.config
    outputs = (
        model.float()
        .eval()
        .generate(
            **tokenizer(list(lines), return_tensors="pt", padding=True, truncation=True),
            **_GREEDY,
            max_length=min(_MOST_TOKENS, config.max_position_embeddings),
            forced_bos_token_id=first,
            bad_words_ids=[[tokenizer.pad_token_id], [tokenizer.unk_token_id]],  # which nmt never writes
            decoder_start_token_id=config.decoder_start_token_id,
            eos_token_id=config.eos_token_id,
            pad_token_id=config.pad_token_id,
        )
    )
    return list(tokenizer.batch_decode(outputs, skip_special_tokens=True, clean_up_tokenization_spaces=False))
