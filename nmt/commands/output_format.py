"""The output format of translations: text, scores, a table or JSON. Loads no PyTorch."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import tee
from typing import TYPE_CHECKING, Literal

from nmt.decoding.markup.blocks import Markup
from nmt.files.text import BREAKS

if TYPE_CHECKING:
    from nmt.decoding.translator import Translation, Translator


@dataclass(frozen=True)
class OutputFormat:
    """What is written for each line.

    By default the best translation. With scores or n_best, rows of `score TAB translation`, best first; with n_best,
    each row begins with `line number TAB`. With json, {"line": number, "translations": [the fields of each Translation
    that are not None]}. As a table, rows of `line number TAB confidence TAB source TAB translation`. With markup, lines
    are text with tags. A table and markup cannot be combined with the others.
    """

    n_best: int | None = None
    scores: bool = False
    json: bool = False
    table: Literal["input", "confidence"] | None = None  # in which order; confidence: least sure first
    markup: Markup | None = None

    def texts(
        self,
        translator: "Translator",
        lines: Iterable[str],
        chunk_lines: int | None = None,
        *,
        first: int = 1,
        prefixes: Iterable[str] | None = None,
        read_ahead: bool = False,
    ) -> Iterator[str]:
        """The text to write for each line. first: the number of the first line; other parameters as
        `Translator.stream_hypotheses`."""
        if self.n_best is None and not self.scores and not self.json and not self.table:
            yield from translator.stream(
                lines, chunk_lines, markup=self.markup, prefixes=prefixes, first=first, read_ahead=read_ahead
            )
            return
        sources, lines = tee(lines)
        aligned = self.json and translator.engine.aligns
        translations_of_lines = translator.stream_hypotheses(
            lines,
            self.n_best or 1,
            chunk_lines,
            alignment=aligned,
            token_scores=not self.table,
            prefixes=prefixes,
            first=first,
            read_ahead=read_ahead,
        )
        for line_number, translations in enumerate(translations_of_lines, start=first):
            yield self.to_text(line_number, next(sources), translations)

    def in_order(self, rows: Iterable[str]) -> Iterable[str]:
        """All rows, given in the order of the input, as they are written. Rows without confidence are last."""
        by_confidence = self.table == "confidence"
        return sorted(rows, key=lambda row: float(row.split("\t", 2)[1] or "inf")) if by_confidence else rows

    def to_text(self, line_number: int, source: str, translations: Sequence["Translation"]) -> str:
        """The text to write for a line with these translations: rows, or a JSON object."""
        if self.json:
            return to_json(line_number, translations)
        if self.table:
            [best] = translations
            confidence = "" if best.confidence is None else f"{best.confidence:.1f}"
            return "\t".join([str(line_number), confidence, *(BREAKS.sub(" ", text) for text in (source, best.text))])
        first_column = f"{line_number}\t" if self.n_best is not None else ""
        return "\n".join(f"{first_column}{translation.score:.6f}\t{translation.text}" for translation in translations)

    def of_samples(self, line_number: int, texts: Sequence[str]) -> str:
        """As `to_text`, for translations without scores: in a row, the score and its tab are missing."""
        if self.json:
            translations = [{"text": text} for text in texts]
            return json.dumps({"line": line_number, "translations": translations}, ensure_ascii=False)
        if self.n_best is None:
            return texts[0]
        return "\n".join(f"{line_number}\t{text}" for text in texts)


def to_json(line_number: int, translations: Sequence["Translation"]) -> str:
    """The JSON object of a line's translations."""
    objects = []
    for translation in translations:
        objects.append({key: value for key, value in asdict(translation).items() if value is not None})
    return json.dumps({"line": line_number, "translations": objects}, ensure_ascii=False)


def score_row(line_number: int, translation: "Translation | None", format: Literal["text", "json"]) -> str:
    """Score, log-probability and log-probability per subword, or a JSON object. translation: None for a pair that is
    too long."""
    if format == "json":
        return to_json(line_number, [translation] if translation else [])
    if translation is None:
        return "nan\tnan\tnan"
    per_subword = translation.log_probability / max(1, len(translation.token_scores))
    return f"{translation.score:.6f}\t{translation.log_probability:.6f}\t{per_subword:.6f}"
