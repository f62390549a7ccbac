"""The size of the text that `nmt init` is given."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.config.schema import Corpus, DataConfig
from nmt.data.sources.corpus import read_pairs
from nmt.errors import NmtError

log = logging.getLogger("nmt")

_BYTES = 4  # of text in a subword, about


class TextSize(NamedTuple):
    """The size of parallel text. pairs: those of a corpus that is used in both directions count once; subwords: of the
    longer side, approximately."""

    pairs: int
    subwords: int


def size_of_text(data: DataConfig, corpora: Sequence[Corpus], config: Path, longest: int) -> TextSize | None:
    """The size of training corpora of `data`. Their files are read as streams, and only up to `longest` subwords. None
    if a file does not exist, and, with a warning, if the text cannot be read. config: the file with the settings."""
    files = [tuple(filter(None, (corpus.file, corpus.source, corpus.target))) for corpus in corpora]
    if not all(Path(name).is_file() for names in files for name in names):
        return None
    pairs, sizes = 0, [0, 0]  # bytes of each side
    try:
        for i, corpus in enumerate(corpora):
            for pair in read_pairs(corpus, data, "train"):
                pairs += files[i] not in files[:i]
                for side, text in enumerate(pair):
                    sizes[side] += len(text.encode(errors="replace"))
                if max(sizes) >= longest * _BYTES:
                    return TextSize(pairs, longest)
    except NmtError as error:
        log.warning("%s: correct the text, or data.train in %s", error, config)
        return None
    return TextSize(pairs, max(sizes) // _BYTES)
