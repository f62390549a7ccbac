"""The measured models and batch sizes, and the counted operations of a step."""

from dataclasses import dataclass

from nmt.config.schema import TransformerConfig

VOCABULARY, SMALL_VOCABULARY = 32_000, 400  # subwords
BATCH_TOKENS, SMALL_BATCH_TOKENS = 25_000, 4_096  # tokens of a step: in the paper, and for small corpora
SENTENCES, LENGTH = 864, 28  # of the counted batch: 24,192 tokens on each side

MODELS = {
    "base": TransformerConfig(d_model=512, feed_forward=2048, layers=6, heads=8, dropout=0.1),
    "big": TransformerConfig(d_model=1024, feed_forward=4096, layers=6, heads=16, dropout=0.3),
}
SMALL = TransformerConfig(d_model=128, feed_forward=256, layers=4, heads=4, dropout=0.3, positions="rotary")
TINY = TransformerConfig(d_model=32, feed_forward=64, layers=2, heads=4)

_LAUNCH = 1.5e-6  # seconds between two kernels


@dataclass(frozen=True)
class Counted:
    """Counts for a packed step in bfloat16 with compiled layers: the FLOPs of matrix products, the bytes that all other
    kernels move, and the number of kernels that PyTorch's compiler makes."""

    flops: float
    other_bytes: float
    kernels: int

    def tokens_per_second(self, flops: float, bandwidth: float) -> float:
        """Target tokens per second on a GPU that multiplies with this many FLOP/s and copies this many bytes/s."""
        seconds = self.flops / flops + self.other_bytes / bandwidth + _LAUNCH * self.kernels
        return SENTENCES * LENGTH / seconds


COUNTED = {"base": Counted(8.98e12, 37.1e9, 737), "big": Counted(31.18e12, 75.0e9, 737)}
