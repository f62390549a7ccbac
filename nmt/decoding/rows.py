"""What is written for a line: text, scores, or JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Literal

from nmt.data.corpus import read_lines
from nmt.decoding.translator import CHUNK_LINES, Translation
from nmt.errors import NmtError


def of(
    number: int, translations: Sequence[Translation], format: Literal["text", "json"], *, numbered: bool
) -> list[str]:
    """The rows of a line's translations, best first.

    text: `score TAB translation` each, after `number TAB` if numbered. json: one object, {"line": number,
    "translations": [what a Translation holds, without what it has not]}.
    """
    if format == "json":
        found = [{key: value for key, value in asdict(one).items() if value is not None} for one in translations]
        return [json.dumps({"line": number, "translations": found}, ensure_ascii=False)]
    place = f"{number}\t" if numbered else ""
    return [f"{place}{one.score:.6f}\t{one.text}" for one in translations]


def scored(number: int, translation: Translation, format: Literal["text", "json"]) -> str:
    """The row of a given translation: score, log-probability, and that per subword; or an object with all there is."""
    if format == "json":
        [row] = of(number, [translation], format, numbered=False)
        return row
    each = translation.log_probability / len(translation.token_scores)
    return f"{translation.score:.6f}\t{translation.log_probability:.6f}\t{each:.6f}"


def pairs(source: Path, target: Path) -> Iterator[tuple[int, tuple[list[str], list[str]]]]:
    """Chunks of lines of two files, with the number of the first. NmtError where one has more lines."""
    sources, targets, first = read_lines(source), read_lines(target), 1
    while True:
        chunk = list(islice(sources, CHUNK_LINES)), list(islice(targets, CHUNK_LINES))
        if len(chunk[0]) != len(chunk[1]):
            shorter = source if len(chunk[0]) < len(chunk[1]) else target
            raise NmtError(f"{shorter}: ends after line {first + min(map(len, chunk)) - 1:,}, and the other does not")
        if not chunk[0]:
            return
        yield first, chunk
        first += len(chunk[0])
