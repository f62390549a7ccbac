"""Warnings of text that a model's vocabulary cannot write, such as glossary terms and banned words."""

import logging
from collections.abc import Sequence

from nmt.config.located_yaml import shortened
from nmt.data.subwords.vocabulary import Tokenizer

log = logging.getLogger("nmt")

_SHOWN = 10  # texts


def warn(label: str, texts: Sequence[str], target: Tokenizer) -> None:
    """Log a warning that names the texts that the target vocabulary changes. label: the kind of the texts; the
    message begins with it."""
    changed = target.changed(list(texts))
    if not changed:
        return
    examples = [f"{shortened(text)!r} becomes {shortened(written)!r}" for text, written in changed.items()]
    if len(examples) > _SHOWN:
        examples[_SHOWN:] = ["…"]
    log.warning(
        "%s: %s of %s cannot be written with the model's vocabulary: %s",
        *(label, f"{len(changed):,}", f"{len(texts):,}", ", ".join(examples)),
    )
