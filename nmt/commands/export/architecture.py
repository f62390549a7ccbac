"""The architecture that both export formats need."""

from nmt.checkpoints.model_file import Checkpoint
from nmt.errors import NmtError
from nmt.models.transformer.model import Transformer


def build_transformer(loaded: Checkpoint) -> Transformer:
    """The model of a model file. Raises NmtError if it is not a Transformer, and as Checkpoint.build does."""
    model = loaded.build()
    if not isinstance(model, Transformer):
        raise NmtError(
            f"the model is a {type(model).__name__}, and only a Transformer can be exported: use the model file itself "
            "(nmt translate, nmt serve)"
        )
    return model
