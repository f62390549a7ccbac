"""Floating-point operations of training, to compare a run's speed with what its device can do."""

from nmt.config import schema


def training_flops(config: schema.ModelConfig, vocabulary: int, sentences: int, source: int, target: int) -> float:
    """Floating-point operations of the matrix products of one forward and backward pass, without padding.

    vocabulary: target subwords; source, target: tokens of all sentences, EOS counted, padding not counted. A
    multiplication and an addition are two operations; the backward pass counts twice the forward pass; recomputation is
    not counted. Attention grows with the square of the length: it is counted as if all sentences had the mean length.
    """
    d, inner = config.d_model, config.feed_forward
    keys = config.heads * (config.key_size or d // config.heads)
    values = config.heads * (config.value_size or d // config.heads)
    mean_source, mean_target = source / max(sentences, 1), target / max(sentences, 1)
    feed_forward, both = 2 * d * inner, keys + values  # both: q kᵀ, and weights times values
    encoder = source * (d * (2 * keys + values) + values * d + feed_forward + mean_source * both)
    self_attention = target * (d * (2 * keys + values) + values * d + mean_target * both)
    cross_attention = source * d * both + target * (d * keys + values * d + mean_source * both)
    decoder = self_attention + cross_attention + target * feed_forward
    layers = (config.encoder_layers or config.layers) * encoder + (config.decoder_layers or config.layers) * decoder
    return 3 * 2 * (layers + target * d * vocabulary)
