"""What a translator returns for a line, from the hypotheses of a search."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from nmt.data.subwords.vocabulary import EOS, Tokenizer
from nmt.decoding import long_input
from nmt.decoding.engine_protocol import Pair, SearchInput
from nmt.decoding.search.options import Hypothesis

# Every character that some program takes for the end of a line, and the tab, which separates columns.
_BREAKS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True)
class Translation:
    """One translation of one line.

    score is log P(Y|X) divided by the length penalty; pieces are its subwords and the end of sentence, and
    token_scores the log P of each. The translation of a line without words is empty, with score 0 and no pieces.
    On request, alignment has for each piece a weight for each of source_pieces (the end of sentence is last in both).
    If a line was translated in parts, each part has its end of sentence in pieces and source_pieces, and a row of the
    alignment covers the source pieces of its own part.
    """

    text: str
    score: float
    log_probability: float
    pieces: list[str]
    token_scores: list[float]
    source_pieces: list[str] | None = None
    alignment: list[list[float]] | None = None


def texts(hypotheses: Sequence[Hypothesis], target: Tokenizer) -> list[str]:
    """What each writes, without line breaks and tabs."""
    return [_BREAKS.sub(" ", text) for text in long_input.decode(hypotheses, target.decode)]


def of_lines(hypotheses: Sequence[Sequence[Hypothesis]], target: Tokenizer) -> list[list[Translation]]:
    """Of each line, its hypotheses as translations."""
    decoded = iter(texts([each for line in hypotheses for each in line], target))  # all at once, which is faster
    return [translations(line, list(islice(decoded, len(line))), target) for line in hypotheses]


def translations(hypotheses: Sequence[Hypothesis], texts: Sequence[str], target: Tokenizer) -> list[Translation]:
    """Each with its text, its scores and its subwords, as many of these as have a score."""
    return [
        Translation(
            text,
            each.score,
            each.log_probability,
            target.pieces([*each.tokens, EOS])[: len(each.token_scores)],
            each.token_scores,
        )
        for text, each in zip(texts, hypotheses, strict=True)
    ]


def pairs_of(parts: Mapping[int, Sequence[SearchInput]], hypotheses: Sequence[Sequence[Hypothesis]]) -> list[Pair]:
    """Each part of each line with its output, for each of the line's hypotheses, to be aligned. parts: of each line
    with words, by its place among all."""
    return [
        source.pair(output)
        for place, of_line in parts.items()
        for hypothesis in hypotheses[place]
        for source, output in zip(of_line, long_input.split_output(hypothesis.tokens), strict=True)
    ]


def add_alignment(
    lines: list[list[Translation]],
    weights: Iterable[list[list[float]]],
    parts: Mapping[int, Sequence[SearchInput]],
    source: Tokenizer,
) -> None:
    """Add the alignment to the translations of each line. weights: of each of `pairs_of`."""
    rows = iter(weights)
    for place, of_line in parts.items():
        starts = [len(part.start) for part in of_line]
        pieces = [piece for part in of_line for piece in source.pieces([*part.ids, EOS])]
        lines[place] = [
            dataclasses.replace(
                translation, source_pieces=pieces, alignment=[row for start in starts for row in next(rows)[start:]]
            )
            for translation in lines[place]
        ]
