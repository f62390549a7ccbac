"""Scores of the pairs of a corpus: of a file with a line for each pair, or of a column of the corpus's own table."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from nmt.config import schema
from nmt.data.sources import arrow_tables, delimited_tables, tables
from nmt.errors import NmtError
from nmt.files import compression
from nmt.files.text import read_lines


def score_rows(corpus: schema.Corpus, data: schema.DataConfig) -> Iterator[tuple[float, ...]]:
    """Yield the scores of each pair of a corpus, in the order of `named_scores`. A missing score (empty, null or nan)
    is NaN; but a file that is given as `scores: FILE` has a number or nan in each line, as `nmt score` writes it.

    It ends with the shortest file. Raises NmtError for a file that cannot be read, a column that does not exist, and a
    score that is no number."""
    places = list(corpus.named_scores.values())
    names = [place.column for place in places if isinstance(place, schema.ScoreColumn)]
    # All columns are read together: the columns of each row come from one iterator.
    rows = _rows(corpus, data.with_languages_of(corpus), names) if names else None
    files = [_file_scores(Path(place), corpus) for place in places if isinstance(place, str)]
    if rows is None:
        yield from zip(*files, strict=False)
        return
    for columns, *others in zip(rows, *files, strict=False):
        from_columns, from_files = iter(columns), iter(others)
        yield tuple(next(from_files if isinstance(place, str) else from_columns) for place in places)


def next_scores(rows: Iterator[tuple[float, ...]], count: int, corpus: schema.Corpus) -> list[tuple[float, ...]]:
    """The scores of the next pairs of a corpus. count: their number; 0 at the end of the corpus. Raises NmtError if the
    corpus has more or fewer pairs."""
    taken = list(islice(rows, max(1, count)))
    if len(taken) == count:
        return taken
    fewer = "fewer" if len(taken) < count else "more"
    files = " or ".join(place for place in corpus.named_scores.values() if isinstance(place, str)) or corpus.label
    remedy = (
        "score the same text with nmt score again" if isinstance(corpus.scores, str) else "score the same text again"
    )
    raise NmtError(f"{files}: has {fewer} lines than {corpus.label} has pairs: {remedy}")


def _file_scores(path: Path, corpus: schema.Corpus) -> Iterator[float]:
    """The last column of each line; of `nmt score` this is log P(target | source) per subword."""
    of_nmt = isinstance(corpus.scores, str)
    for line_number, line in enumerate(read_lines(path), start=1):
        last = line.rpartition("\t")[2]
        score = math.inf if of_nmt and not last else _number(last)
        if math.isinf(score):
            how = ", as nmt score writes it in its text format" if of_nmt else ""
            raise NmtError(f"{path}:{line_number}: expected a score in the last column{how}; found {last[:40]!r}")
        yield score


def _number(value: object) -> float:
    """The number; NaN for a missing one, and infinity for what is no number."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return math.nan
    try:
        return math.inf if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.inf


def _rows(corpus: schema.Corpus, data: schema.DataConfig, names: Sequence[int | str]) -> Iterator[list[float]]:
    """The numbers in these columns of each row that is a pair."""
    for row, values in enumerate(_cells(corpus, data, names), start=1):
        scores = list(map(_number, values))
        if math.inf in scores or -math.inf in scores:
            wrong = next(i for i, score in enumerate(scores) if math.isinf(score))
            raise NmtError(
                f"{corpus.label}: pair {row:,}: expected a number in the column {names[wrong]}; "
                f"found {str(values[wrong])[:40]!r}"
            )
        yield scores


def _cells(corpus: schema.Corpus, data: schema.DataConfig, names: Sequence[int | str]) -> Iterator[Sequence[object]]:
    if corpus.hub:
        return arrow_tables.column_rows(arrow_tables.hub_tables(corpus, "train"), corpus, list(map(str, names)))
    path = Path(corpus.file or "")
    match compression.plain_ending(path):
        case ".tsv" | ".csv":
            return delimited_tables.column_rows(path, corpus, data, names)
        case ".jsonl":
            return tables.column_rows(path, list(map(str, names)))
        case _:
            return arrow_tables.column_rows(arrow_tables.parquet_tables(path, corpus), corpus, list(map(str, names)))
