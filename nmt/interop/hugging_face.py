"""What config.json says of the encoder-decoders of transformers, in our settings."""

from nmt.config.schema import TransformerConfig
from nmt.errors import NmtError
from nmt.interop import source
from nmt.interop.source import Settings

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "quick_gelu": "quick_gelu", "swish": "swish", "silu": "swish"}


def transformer(config: Settings, activation: str) -> TransformerConfig:
    """The widths, the depths and the activation function. activation: where none is named. Raises NmtError where they
    are those of a model of another kind than nmt's."""
    config.check("nmt multiplies embeddings by the root of their width", {"scale_embedding": True})
    heads, inner, width = map(config.number, ("encoder_attention_heads", "encoder_ffn_dim", "d_model"))
    same = {"decoder_attention_heads": heads, "decoder_ffn_dim": inner}
    config.check("in nmt it is the same in encoder and decoder", same)
    if heads == 0 or width % heads or width % 2:
        raise NmtError(f"{config.path}: d_model: {width}: not an even multiple of encoder_attention_heads: {heads}")
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
