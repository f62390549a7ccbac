"""Text that a user wants in translations, or not in them, but that a model cannot write as it is given."""

import logging
from collections.abc import Sequence

from nmt.config.located_yaml import shortened
from nmt.data.subwords.vocabulary import Tokenizer

log = logging.getLogger("nmt")

_SHOWN = 10  # texts


def warn(what: str, texts: Sequence[str], target: Tokenizer) -> None:
    """Log a warning that names the texts which the vocabulary of the target changes. what: heads the message, and says
    what the texts are."""
    changed = target.changed(list(texts))
    if not changed:
        return
    named = [f"{shortened(text)!r} becomes {shortened(written)!r}" for text, written in changed.items()]
    log.warning(
        "%s: %s of %s cannot be written as given, because the model's vocabulary changes them: %s",
        *(what, f"{len(changed):,}", f"{len(texts):,}", ", ".join([*named[:_SHOWN], *["…"] * (len(named) > _SHOWN)])),
    )
