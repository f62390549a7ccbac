"""The names of the weights in Marian's own files, `.npz` and Bergamot's.

Source: marian, src/models/transformer.h and src/layers/generic.h.
"""

_BLOCKS = {"self_attention": "self", "cross_attention": "context", "feed_forward": "ffn"}
_PARTS = {"query": "q", "key": "k", "value": "v", "output": "o", "inner": "1", "outer": "2"}


def linear_names(side: str, layer: int, part: str) -> tuple[str, str]:
    """The names of a matrix and its bias. Parameters: as nmt.interop.weights.LayerReader."""
    block, name = part.split(".")
    prefix = f"{side}_l{layer + 1}_{_BLOCKS[block]}"
    return f"{prefix}_W{_PARTS[name]}", f"{prefix}_b{_PARTS[name]}"


def norm_names(side: str, layer: int, block: str) -> tuple[str, str]:
    """The names of the scale and the bias of a norm. Parameters: as nmt.interop.weights.LayerReader."""
    after = "ffn" if block == "feed_forward" else "Wo"
    prefix = f"{side}_l{layer + 1}_{_BLOCKS[block]}_{after}_ln"
    return f"{prefix}_scale", f"{prefix}_bias"
