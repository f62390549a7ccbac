"""What a translator returns for a line."""

from dataclasses import dataclass


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
