"""The scores of a corpus's pairs, as `nmt score` writes them: a line for each pair."""

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nmt.config import schema
from nmt.errors import NmtError
from nmt.files.text import read_lines


def read_scores(path: Path) -> Iterator[float]:
    """The last column of each line: log P(target | source) per subword; NaN for a pair that was too long for the model.

    Raises NmtError for a file that cannot be read, and for a line that does not end in such a number."""
    for number, line in enumerate(read_lines(path), start=1):
        last = line.rpartition("\t")[2]
        try:
            score = float(last)
        except ValueError:
            score = math.inf
        if math.isinf(score):
            expected = "expected a score in the last column, as nmt score writes it in its text format"
            raise NmtError(f"{path}:{number}: {expected}; found {last[:40]!r}")
        yield score


def next_scores(scores: Iterator[float], count: int, corpus: schema.Corpus) -> list[float]:
    """The scores of the next `count` pairs of a corpus; 0: it has ended. Raises NmtError where the file of scores has
    fewer lines than the corpus has pairs, or more."""
    taken = list(islice(scores, max(1, count)))
    if len(taken) == count:
        return taken
    fewer = "fewer" if len(taken) < count else "more"
    raise NmtError(
        f"{corpus.scores}: has {fewer} lines than {corpus.label} has pairs: score the same text with nmt score again"
    )
