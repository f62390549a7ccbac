"""Whether the weights that training computes on a CPU depend on the number of threads."""

from typing import assert_never

from nmt.config.schema import Config, TransformerConfig


def same_with_any_threads(config: Config) -> bool:
    """Whether each step gives the same weights, bit for bit, with any number of threads on a CPU.

    The products of float32 matrices do (`device.make_products_repeatable`, `models.linear`), and so do sums over rows
    (`models.norm`). PyTorch computes exponentials with vector instructions, but the last numbers of each thread's part
    without them, which can round otherwise: so not with activations other than ReLU, nor in recurrent models. The
    same is true of dropout of attention weights; compiled code divides sums among threads.
    """
    model, training = config.model, config.training
    if not isinstance(model, TransformerConfig) or model.attention_dropout > 0:
        return False
    match model.activation:
        case "relu":
            return training.precision == "float32" and not training.compile
        case "gelu" | "quick_gelu" | "swish":
            return False
        case _:
            assert_never(model.activation)
