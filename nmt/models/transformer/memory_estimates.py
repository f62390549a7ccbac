"""How much memory a Transformer needs in training and in search, estimated from its settings."""

from nmt.config.schema import ModelConfig


def activation_bytes(config: ModelConfig, padded_tokens: int, longest: int) -> int:
    """What forward and backward need at most on the CPU in float32, besides weights and gradients.

    padded_tokens: tokens of each side, padding included; longest: length of the longest sentence. The numbers kept for
    one token were counted on models of many sizes; three chunks of logits are added.
    """
    width = max(config.d_model, config.heads * max(config.key_size or 0, config.value_size or 0))
    inner = 3.5 + 3.5 * (config.activation_dropout > 0) + 2.5 * (config.activation != "relu")
    weights = 24 * config.heads * longest * (config.attention_dropout > 0)  # without dropout none are kept
    layers = max(config.encoder_layers or config.layers, config.decoder_layers or config.layers)
    numbers = layers * (28 * width + inner * config.feed_forward + weights) + 40 * width
    return int(4 * padded_tokens * numbers) + (192 << 20)


def search_bytes(config: ModelConfig, number: int, sentences: int, longest: int) -> tuple[int, int]:
    """What the encoder's widest layer needs, and each decoder layer's keys and values of the source; number: bytes of
    a weight, longest: source positions."""
    tokens = sentences * longest
    heads = config.heads * sum(size or config.d_model // config.heads for size in (config.key_size, config.value_size))
    return number * tokens * config.feed_forward, number * tokens * heads * (config.decoder_layers or config.layers)
