"""The size of the text that `nmt init` is given."""

import logging
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from nmt.config.schema import Corpus, DataConfig
from nmt.data.sources import table_layout
from nmt.data.sources.corpus import read_pairs
from nmt.errors import NmtError
from nmt.files.compression import plain_ending

log = logging.getLogger("nmt")

_BYTES = 4  # of text in a subword, about


class TextSize(NamedTuple):
    """The size of parallel text. subwords: of the longer side, approximately."""

    pairs: int
    subwords: int


def size_of_text(data: DataConfig, config: Path, longest: int, *, only_new: bool) -> TextSize | None:
    """The size of the training text, or of its first corpus alone. None if a file does not exist, and, with a warning,
    if the text cannot be read as pairs. Says how columns are chosen. config: the file with the settings."""
    try:
        for corpus in data.train:
            if corpus.file and Path(corpus.file).is_file() and has_unclear_columns(corpus, data):
                log.info("%s: to read other columns, set source_column and target_column in %s", corpus.file, config)
        return text_size(data, data.train[:1] if only_new else data.train, longest)
    except NmtError as error:
        log.warning("%s: correct the text, or data.train in %s", error, config)
        return None


def text_size(data: DataConfig, corpora: Sequence[Corpus], longest: int) -> TextSize | None:
    """The size of the corpora of `data`; None if a file does not exist. Their files are read as streams, and only up to
    `longest` subwords. Raises NmtError as `read_pairs` does."""
    files = [file for corpus in corpora for file in (corpus.file, corpus.source, corpus.target) if file]
    if not all(Path(file).is_file() for file in files):
        return None
    pairs, sizes = 0, [0, 0]  # bytes of each side
    for pair in chain.from_iterable(read_pairs(corpus, data, "train") for corpus in corpora):
        pairs += 1
        for side, text in enumerate(pair):
            sizes[side] += len(text.encode(errors="replace"))
        if max(sizes) >= longest * _BYTES:
            break
    return TextSize(pairs, max(sizes) // _BYTES)


def has_unclear_columns(corpus: Corpus, data: DataConfig) -> bool:
    """Whether a .tsv or .csv file has more than two columns, and no headings. Raises NmtError if it cannot be read."""
    if corpus.file is None or plain_ending(Path(corpus.file)) not in (".tsv", ".csv"):
        return False
    layout = table_layout.layout_of(Path(corpus.file), corpus, data.with_languages_of(corpus))
    return layout.columns > 2 and not layout.skipped
