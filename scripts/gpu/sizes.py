"""The models and the batch that are measured and counted."""

from nmt.config.schema import TransformerConfig

VOCABULARY = 32_000
BATCH_TOKENS = 25_000  # padded tokens of a step
SENTENCES, LENGTH = 864, 28  # of the counted batch: 24,192 tokens on each side

MODELS = {
    "base": TransformerConfig(d_model=512, feed_forward=2048, layers=6, heads=8, dropout=0.1),
    "big": TransformerConfig(d_model=1024, feed_forward=4096, layers=6, heads=16, dropout=0.3),
}
