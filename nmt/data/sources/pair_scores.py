"""Scores of the pairs of a corpus: of a file with a line for each pair, or of a column of the corpus's own table."""

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nmt.config import schema
from nmt.data.sources import arrow_tables, delimited_tables, tables
from nmt.errors import NmtError
from nmt.files import compression
from nmt.files.text import read_lines


def score_rows(corpus: schema.Corpus, data: schema.DataConfig) -> Iterator[tuple[float, ...]]:
    """Yield the scores of each pair, in the order of `named_scores`; NaN for a missing one: empty, null or nan. (A file
    of `nmt score`, given as `scores: FILE`, has no empty ones.) It ends with the shortest file or column.

    Raises NmtError for a file that cannot be read, a column that does not exist, and a score that is no number."""
    return zip(*(_scores(place, corpus, data) for place in corpus.named_scores.values()), strict=False)


def next_scores(rows: Iterator[tuple[float, ...]], count: int, corpus: schema.Corpus) -> list[tuple[float, ...]]:
    """The scores of the next pairs of a corpus. count: their number; 0 at the end of the corpus. Raises NmtError if the
    files of scores have fewer or more lines than the corpus has pairs."""
    taken = list(islice(rows, max(1, count)))
    if len(taken) != count:
        fewer = "fewer" if len(taken) < count else "more"
        files = " or ".join(place for place in corpus.named_scores.values() if isinstance(place, str))
        raise NmtError(f"{files}: has {fewer} lines than {corpus.label} has pairs: score the same text again")
    return taken


def _scores(place: str | schema.ScoreColumn, corpus: schema.Corpus, data: schema.DataConfig) -> Iterator[float]:
    for number, value in enumerate(_values(place, corpus, data), start=1):
        try:
            is_missing = value is None or (value == "" and place != corpus.scores)
            score = math.nan if is_missing else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            score = math.inf
        if math.isinf(score):
            where = f"{place}:{number}: expected a score in the last column"
            if isinstance(place, schema.ScoreColumn):
                where = f"{corpus.label}: pair {number:,}: expected a score in the column {place.column}"
            raise NmtError(f"{where}; found {str(value)[:40]!r}")
        yield score


def _values(place: str | schema.ScoreColumn, corpus: schema.Corpus, data: schema.DataConfig) -> Iterator[object]:
    """The values as they are written: of a file the last column, of `nmt score` log P(target | source) per subword."""
    if isinstance(place, str):
        return (line.rpartition("\t")[2].strip() for line in read_lines(Path(place)))
    name, path = str(place.column), Path(corpus.file or "")
    match compression.plain_ending(path):
        case ".tsv" | ".csv":
            return delimited_tables.column_values(path, corpus, data.with_languages_of(corpus), name)
        case ".jsonl":
            return tables.jsonl_column(path, name)
    return arrow_tables.column_values(corpus, name)
