"""Splits sources longer than the model was trained on into parts, and joins the translations of the parts."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from nmt.data.vocabulary import EOS
from nmt.decoding.search.options import Hypothesis

Encode = Callable[[list[str]], list[list[int]]]

_CLOSING = "[\"'”’»›)\\]}」』）】》〉]*"
# The end of a sentence: before a space in most scripts, anywhere in scripts without spaces. A match begins only at
# the first of several stops: otherwise a line of stops would take quadratic time.
_SENTENCE_END = re.compile(
    rf"(?:(?<![.!?…؟۔।॥])[.!?…؟۔।॥]++{_CLOSING}(?=\s)|(?<![。！？｡…])[。！？｡…]*[。！？｡]{_CLOSING})\s*"
)
_CLAUSE_END = re.compile(r"(?:[,;:–—،؛](?=\s)|[，、；：])\s*")
_SPACE = re.compile(r"\s+")
_INITIAL = re.compile(r"(?:^|[\W_])[^\W\d_]\.\Z")  # the end of `J.`, `z. B.`, `U.S.`
# Scripts written without spaces: Thai to Myanmar, Khmer, CJK with its punctuation and kana, full-width forms.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uff00-\uffef\U00020000-\U0003ffff]"
)


class Part(NamedTuple):
    """A part of a text and its subwords, without EOS."""

    text: str
    ids: list[int]


def split(text: str, limit: int, encode: Encode) -> list[Part]:
    """Split a text into parts of at most `limit` subwords each; their texts concatenated are the text.

    A part is a sentence. A sentence that is too long is halved until the parts fit: near its middle at the end of a
    clause, else at white space, else between characters. If one character has too many subwords, these are split,
    and the first part has the text. `encode` returns each text's subwords; a part without words may have none.
    """
    return [part for sentence in sentences(text) for part in _fit(sentence, limit, encode)]


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, each with the white space after it; concatenated they are the text. A full stop does
    not end a sentence after a single letter (an initial, most abbreviations) or before a lowercase letter."""
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if end.end() < len(text) and not _is_abbreviation(text, end):
            yield text[start : end.end()]
            start = end.end()
    if start < len(text):
        yield text[start:]


def _is_abbreviation(text: str, end: re.Match[str]) -> bool:
    stops = end[0].strip()
    initial = stops == "." and _INITIAL.search(text, max(0, end.start() - 2), end.start() + 1)
    return stops[0] in ".…" and (text[end.end()].islower() or bool(initial))


def _fit(text: str, limit: int, encode: Encode) -> list[Part]:
    [ids] = encode([text])
    if len(ids) <= limit:
        return [Part(text, ids)]
    if len(text) > 1:
        middle = _middle(text)
        return [*_fit(text[:middle], limit, encode), *_fit(text[middle:], limit, encode)]
    return [Part("" if start else text, ids[start : start + limit]) for start in range(0, len(ids), limit)]


def _middle(text: str) -> int:
    """Where to halve a text of two characters or more: at the best boundary near its middle."""
    least, most = len(text) // 4, len(text) - len(text) // 4
    for boundary in (_CLAUSE_END, _SPACE):
        places = [found.end() for found in boundary.finditer(text, least, most)]
        if places := [place for place in places if 0 < place < len(text)]:
            return min(places, key=lambda place: abs(2 * place - len(text)))
    return len(text) // 2


def join_hypotheses(parts: Sequence[list[Hypothesis]]) -> list[Hypothesis]:
    """Join the hypotheses for the parts of a line, each best first. The i-th for the line consists of the i-th for
    each part, or of the part's last if it has fewer.

    EOS separates the parts' tokens, so that token_scores are still log P of each token. log_probability is the sum
    over the parts, and so is score, which therefore cannot be compared with that of a line translated in one part.
    """
    if len(parts) == 1:
        return parts[0]
    lines = []
    for i in range(max(map(len, parts), default=0)):
        chosen = [part[min(i, len(part) - 1)] for part in parts]
        tokens = [token for one in chosen for token in (*one.tokens, EOS)][:-1]
        token_scores = [score for one in chosen for score in one.token_scores]
        score, total = sum(one.score for one in chosen), sum(one.log_probability for one in chosen)
        lines.append(Hypothesis(tokens, score, total, token_scores))
    return lines


def decode(outputs: list[list[int]], by: Callable[[list[list[int]]], list[str]]) -> list[str]:
    """The text of each output. Its parts, which EOS separates, are decoded with `by` and joined."""
    parts = [split_output(output) for output in outputs]
    texts = iter(by([part for output in parts for part in output]))
    return [join_texts([next(texts) for _ in output]) for output in parts]


def split_output(tokens: list[int]) -> list[list[int]]:
    """The tokens of each part in a joined hypothesis."""
    if EOS not in tokens:  # most outputs: looking at each token takes longer
        return [tokens]
    ends = [-1, *(place for place, token in enumerate(tokens) if token == EOS), len(tokens)]
    return [tokens[start + 1 : end] for start, end in pairwise(ends)]


def join_texts(texts: Sequence[str]) -> str:
    """Join translations of parts with spaces, but without a space next to a script that has none."""
    line = ""
    for text in texts:
        spaced = line and text and not _UNSPACED.match(line[-1]) and not _UNSPACED.match(text)
        line += (" " if spaced else "") + text
    return line
