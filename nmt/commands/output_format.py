"""What is written for each line: text, scores, or JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from nmt.decoding.markup.blocks import Markup
from nmt.decoding.translator import Translation, Translator


@dataclass(frozen=True)
class OutputFormat:
    """What is written for each line.

    Only its best translation; with scores or n_best, rows of `score TAB translation`, best first, with n_best after
    `number TAB`; with json {"line": number, "translations": [the fields of each Translation that are not None]}. With
    markup, which goes with none of these, each line is a text with tags.
    """

    n_best: int | None = None
    scores: bool = False
    json: bool = False
    markup: Markup | None = None

    def texts(
        self,
        translator: Translator,
        lines: Iterable[str],
        chunk_lines: int | None = None,
        *,
        first: int = 1,
        prefixes: Iterable[str] | None = None,
        read_ahead: bool = False,
    ) -> Iterator[str]:
        """What to write for each line; the first has the number `first`. As `Translator.stream_hypotheses`."""
        if self.n_best is None and not self.scores and not self.json:
            yield from translator.stream(
                lines, chunk_lines, markup=self.markup, prefixes=prefixes, first=first, read_ahead=read_ahead
            )
            return
        aligned = self.json and translator.engine.aligns
        of_lines = translator.stream_hypotheses(
            lines,
            self.n_best or 1,
            chunk_lines,
            alignment=aligned,
            token_scores=self.json,
            prefixes=prefixes,
            first=first,
            read_ahead=read_ahead,
        )
        for number, translations in enumerate(of_lines, start=first):
            yield self.to_text(number, translations)

    def to_text(self, number: int, translations: Sequence[Translation]) -> str:
        """What to write for a line with these translations: rows, or an object."""
        if self.json:
            return to_json(number, translations)
        place = f"{number}\t" if self.n_best is not None else ""
        return "\n".join(f"{place}{each.score:.6f}\t{each.text}" for each in translations)


def to_json(number: int, translations: Sequence[Translation]) -> str:
    """The JSON object of a line's translations."""
    fields = [{key: value for key, value in asdict(each).items() if value is not None} for each in translations]
    return json.dumps({"line": number, "translations": fields}, ensure_ascii=False)


def score_row(number: int, translation: Translation | None, format: Literal["text", "json"]) -> str:
    """Score, log-probability, and log-probability per subword; or a JSON object. None: a pair that is too long."""
    if format == "json":
        return to_json(number, [translation] if translation else [])
    if translation is None:
        return "nan\tnan\tnan"
    each = translation.log_probability / max(1, len(translation.token_scores))
    return f"{translation.score:.6f}\t{translation.log_probability:.6f}\t{each:.6f}"
