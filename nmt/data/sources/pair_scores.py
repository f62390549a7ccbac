"""Scores of the pairs of a corpus: of a file with a line for each pair, or of a column of the corpus's own table."""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.sources.corpus import column_values
from nmt.errors import NmtError
from nmt.files.text import read_lines

_LARGEST = float(np.finfo(np.float32).max)


def open_scores(corpus: schema.Corpus, data: schema.DataConfig) -> dict[str, Iterator[float]]:
    """The scores of the pairs by name, in the order of the pairs; NaN for a missing one: empty, null or nan. (A file of
    `nmt score`, given as `scores: FILE`, has no empty ones.)

    Reading them raises NmtError for a file that cannot be read, a column that does not exist, and a score that is no
    number."""
    return {name: _scores(place, corpus, data) for name, place in corpus.named_scores.items()}


def next_scores(
    scores: Mapping[str, Iterator[float]], count: int, corpus: schema.Corpus
) -> dict[str, npt.NDArray[np.float32]]:
    """The scores of the next pairs of a corpus, each [count]. count: the number of pairs; 0 at the end of the corpus.
    Raises NmtError if there are fewer or more scores than pairs."""
    taken = {name: np.fromiter(islice(values, max(1, count)), np.float32) for name, values in scores.items()}
    for name, values in taken.items():
        if len(values) != count:
            fewer = "fewer" if len(values) < count else "more"
            place = corpus.named_scores[name]
            remedy = f"{fewer} lines than {corpus.label} has pairs: score the same text again"
            raise NmtError(f"{place if isinstance(place, str) else f'the column {place.column}'}: has {remedy}")
    return taken


def _scores(place: str | schema.ScoreColumn, corpus: schema.Corpus, data: schema.DataConfig) -> Iterator[float]:
    if isinstance(place, str):  # the last column; of `nmt score` log P(target | source) per subword
        values: Iterator[object] = (line.rpartition("\t")[2].strip() for line in read_lines(Path(place)))
    else:
        values = column_values(corpus, data, str(place.column))
    for number, value in enumerate(values, start=1):
        try:
            is_missing = value is None or (value == "" and place != corpus.scores)
            score = math.nan if is_missing else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            score = math.inf
        if abs(score) > _LARGEST:
            where = f"{place}:{number}: expected a score in the last column"
            if isinstance(place, schema.ScoreColumn):
                where = f"{corpus.label}: pair {number:,}: expected a score in the column {place.column}"
            raise NmtError(f"{where}; found {str(value)[:40]!r}")
        yield score
