"""How much arithmetic a model asks for, to be held against what a device can do."""

from nmt.config import schema


def training_flops(sizes: schema.ModelConfig, vocabulary: int, sentences: int, source: int, target: int) -> float:
    """Floating-point operations of the matrix products of a forward and a backward pass over real tokens.

    vocabulary: target subwords; source, target: tokens of all sentences, EOS counted and padding not. Two
    operations a multiplication and addition, the backward pass twice the forward. Recomputation counts for
    nothing, and every sentence counts as one of mean length in attention, whose products grow with the square.
    """
    d, inner = sizes.d_model, sizes.feed_forward
    keys = sizes.heads * (sizes.key_size or d // sizes.heads)
    values = sizes.heads * (sizes.value_size or d // sizes.heads)
    mean_source, mean_target = source / max(sentences, 1), target / max(sentences, 1)
    feed_forward, both = 2 * d * inner, keys + values  # both: of q kᵀ, and of the weights with the values
    encoder = source * (d * (2 * keys + values) + values * d + feed_forward + mean_source * both)
    self_attention = target * (d * (2 * keys + values) + values * d + mean_target * both)
    cross_attention = source * d * both + target * (d * keys + values * d + mean_source * both)
    decoder = self_attention + cross_attention + target * feed_forward
    layers = (sizes.encoder_layers or sizes.layers) * encoder + (sizes.decoder_layers or sizes.layers) * decoder
    return 3 * 2 * (layers + target * d * vocabulary)
