"""What is written for a line: text, scores, or JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from nmt.decoding.chunks import CHUNK_LINES
from nmt.decoding.translator import Translation, Translator
from nmt.errors import NmtError
from nmt.files.text import read_lines


@dataclass(frozen=True)
class Form:
    """What is written for each line: its translation; or, with scores, n_best or json, the rows that `of` gives."""

    n_best: int | None = None
    scores: bool = False
    json: bool = False

    def rows(
        self,
        translator: Translator,
        lines: Iterable[str],
        chunk_lines: int = CHUNK_LINES,
        *,
        first: int = 1,
        prefixes: Iterable[str] | None = None,
    ) -> Iterator[str]:
        """The rows for lines of which the first has the number `first`. Raises as `Translator.stream_hypotheses`."""
        if self.n_best is None and not self.scores and not self.json:
            yield from translator.stream(lines, chunk_lines, prefixes=prefixes, first=first)
            return
        aligned = self.json and translator.engine.aligns
        found = translator.stream_hypotheses(
            lines, self.n_best or 1, chunk_lines, alignment=aligned, prefixes=prefixes, first=first
        )
        for number, translations in enumerate(found, start=first):
            yield from of(number, translations, "json" if self.json else "text", numbered=self.n_best is not None)


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


def scored(number: int, translation: Translation | None, format: Literal["text", "json"]) -> str:
    """The row of a given translation: score, log-probability, and that per subword; or an object with all there is.

    For a pair that is too long to be scored it is `nan` three times, or an object without translations.
    """
    if format == "json":
        [row] = of(number, [translation] if translation else [], format, numbered=False)
        return row
    if translation is None:
        return "nan\tnan\tnan"
    each = translation.log_probability / max(1, len(translation.token_scores))
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
