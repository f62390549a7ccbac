"""The translations of a line, from the hypotheses of a search."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from nmt.config.special_subwords import TERM_TAGS
from nmt.data.subwords.vocabulary import EOS, Tokenizer
from nmt.decoding import long_input
from nmt.decoding.engine_protocol import Pair, SearchInput
from nmt.decoding.search.options import Hypothesis
from nmt.files.text import BREAKS
from nmt.terms.used_term import UsedTerm

Rated = tuple[str, float | None]  # a text with tags, and its confidence
Parts = Mapping[int, Sequence[SearchInput]]  # the parts of each line with words, by the index of the line


@dataclass(frozen=True)
class Translation:
    """One translation of one line.

    score is log P(Y|X) divided by the length penalty; pieces are its subwords and the end of sentence, and
    token_scores the log P of each. The translation of a line without words is empty, with score 0 and no pieces.
    On request, alignment has for each piece a weight for each of source_pieces (the end of sentence is last in both).
    If a line was translated in parts, each part has its end of sentence in pieces and source_pieces, and a row of the
    alignment covers the source pieces of its own part. terms: those of a glossary in the line; None without a glossary.
    subwords, source_subwords: the lengths, with language tokens of the source, what was cut, and the end of sentence of
    each part; 0 for a line without words.
    confidence: the expected chrF, from 0 to 100; None without a calibration (see nmt.decoding.confidence).
    """

    text: str
    score: float
    log_probability: float
    pieces: list[str]
    token_scores: list[float]
    source_pieces: list[str] | None = None
    alignment: list[list[float]] | None = None
    terms: list[UsedTerm] | None = None
    subwords: int = 0
    source_subwords: int = 0
    confidence: float | None = None


def texts(hypotheses: Sequence[Hypothesis], target: Tokenizer) -> list[str]:
    """The text of each hypothesis, without line breaks and tabs."""
    return [BREAKS.sub(" ", text) for text in long_input.decode(hypotheses, target.decode)]


def line_translations(
    hypotheses: Sequence[Sequence[Hypothesis]], target: Tokenizer, parts: Parts, has_glossary: bool
) -> list[list[Translation]]:
    """The hypotheses of each line as translations."""
    decoded = iter(texts(list(chain(*hypotheses)), target))  # all at once, which is faster
    lines = list[list[Translation]]()
    for i, line in enumerate(hypotheses):
        length = sum(part.length + 1 for part in parts.get(i, ()))
        lines.append(translations(line, islice(decoded, len(line)), target, length, has_glossary))
    return lines


def translations(
    hypotheses: Iterable[Hypothesis], texts: Iterable[str], target: Tokenizer, source_subwords: int, has_glossary: bool
) -> list[Translation]:
    """Hypotheses of one line and their texts as translations. A translation has as many pieces as token scores.
    source_subwords: as in Translation."""
    return [
        Translation(
            text,
            hypothesis.score,
            hypothesis.log_probability,
            target.pieces([*hypothesis.tokens, EOS])[: len(hypothesis.token_scores)],
            hypothesis.token_scores,
            terms=list(hypothesis.terms) if has_glossary else None,
            subwords=len(hypothesis.tokens) + 1 if source_subwords else 0,
            source_subwords=source_subwords,
        )
        for text, hypothesis in zip(texts, hypotheses, strict=True)
    ]


def alignment_pairs(parts: Parts, hypotheses: Sequence[Sequence[Hypothesis]]) -> list[Pair]:
    """The pairs to align: each part of each line with its output, for each of the line's hypotheses."""
    pairs = list[Pair]()
    for i, line_parts in parts.items():
        for hypothesis in hypotheses[i]:
            outputs = long_input.split_output(hypothesis.tokens)
            pairs += [source.pair(output) for source, output in zip(line_parts, outputs, strict=True)]
    return pairs


def add_alignment(
    lines: list[list[Translation]], weights: Iterable[list[list[float]]], parts: Parts, source: Tokenizer
) -> None:
    """Add the alignment to the translations of each line. weights: for each of `alignment_pairs`."""
    pair_weights = iter(weights)
    for i, line_parts in parts.items():
        for n, translation in enumerate(lines[i]):
            pieces, rows = list[str](), list[list[float]]()
            for part in line_parts:
                part_pieces, part_rows = source_alignment(source, part.ids, next(pair_weights)[len(part.start) :])
                pieces += part_pieces
                rows += part_rows
            lines[i][n] = dataclasses.replace(translation, source_pieces=pieces, alignment=rows)


def source_alignment(
    source: Tokenizer, ids: Sequence[int], weights: list[list[float]]
) -> tuple[list[str], list[list[float]]]:
    """The subwords of a source, EOS last, and an alignment to them, without the translations that follow its terms (see
    data.augment.terms): the attention of those counts for the subword before them."""
    opening, closing = map(source.tag, TERM_TAGS)
    if opening not in ids:
        return source.pieces([*ids, EOS]), weights
    kept, columns, is_inside = list[int](), list[int](), False
    for i in (*ids, EOS):
        is_inside |= i == opening
        if not is_inside:
            kept.append(i)
        columns.append(max(0, len(kept) - 1))
        is_inside &= i != closing
    sums = np.zeros((len(weights), len(kept)))
    np.add.at(sums.T, columns, np.array(weights).T)
    return source.pieces(kept), sums.tolist()
