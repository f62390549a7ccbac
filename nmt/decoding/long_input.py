"""Splits sources that are longer than the training text, and joins the translations of the parts."""

import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

from nmt.data.subwords.sentences import has_several, join_texts, sentences
from nmt.data.subwords.vocabulary import EOS
from nmt.decoding.search.options import Hypothesis

Encode = Callable[[list[str]], list[list[int]]]

_CLAUSE_END = re.compile(r"(?:[,;:–—،؛](?=\s)|[，、；：])\s*")
_SPACE = re.compile(r"\s+")


class SourcePart(NamedTuple):
    """A part of a text and its subwords, without EOS. space: the white space between it and the next part: at least a
    space after a sentence, possibly nothing inside a sentence. cut: the subwords after it that are not translated."""

    text: str
    ids: list[int]
    space: str = ""
    cut: int = 0


@dataclass(frozen=True)
class Splitter:
    """Splits the lines that are too long for a model.

    longest: the most subwords of a part; None: no limit. several: the most subwords of several sentences together;
    None: such a line is split only where it is longer than `longest`, into single sentences. language, first_words: as
    for `nmt.data.subwords.sentences.sentences`; first_words are not used for lines shorter than half of `longest`.
    """

    longest: int | None
    several: int | None
    language: str
    first_words: Set[str]
    encode: Encode

    def fits(self, line: str, ids: list[int]) -> bool:
        """Whether a line with the subwords `ids` is translated in one piece."""
        if self.longest is None:
            return True
        if self.several is None or len(ids) <= self.several or len(ids) > self.longest:
            return len(ids) <= self.longest
        return not has_several(line, self.language, self._first_words(ids))

    def split(self, line: str, ids: list[int]) -> list[SourcePart]:
        """The parts of a line that does not fit."""
        assert self.longest is not None
        texts = sentences(line, self.language, self._first_words(ids))
        return split(texts, self.longest, self.encode, self.several or 0)

    def _first_words(self, ids: list[int]) -> Set[str]:
        return self.first_words if 2 * len(ids) > (self.longest or 0) else frozenset()


def shortest(limits: Iterable[int | None]) -> int | None:
    """The lowest of these limits; None is no limit."""
    return min((limit for limit in limits if limit is not None), default=None)


def split(texts: Iterable[str], limit: int, encode: Encode, together: int = 0) -> list[SourcePart]:
    """Split the sentences of a text into parts of at most `limit` subwords each. The concatenated texts of the parts
    are the text.

    A part is one sentence, or several with at most `together` subwords. A sentence that is too long is halved until the
    parts fit: near its middle at the end of a clause, else at white space, else between characters. If one character
    has too many subwords, these are split, and the first part has the text. `encode` returns each text's subwords; a
    part without words may have none.
    """
    parts: list[SourcePart] = []
    for group in _in_groups(list(texts), min(limit, together), encode):
        parts += _fit(group, limit, encode)
        last = parts[-1]
        parts[-1] = last._replace(space=last.space or " ")
    return parts


def _in_groups(texts: list[str], together: int, encode: Encode) -> list[SourcePart]:
    """Parts of one sentence, or of several with at most `together` subwords."""
    parts = list(map(_part, texts, _encoded(texts, encode)))
    if not together:
        return parts
    groups: list[list[SourcePart]] = []
    room = 0
    for part in parts:
        if not groups or len(part.ids) > room:
            groups.append([])
            room = together
        groups[-1].append(part)
        room -= len(part.ids)
    joined = ["".join(part.text for part in group) for group in groups]
    parts = []
    for group, text, ids in zip(groups, joined, _encoded(joined, encode), strict=True):
        fits = len(group) == 1 or len(ids) <= together  # the joined text can have more subwords than its sentences
        parts += [_part(text, ids)] if fits else group
    return parts


def _encoded(texts: list[str], encode: Encode) -> list[list[int]]:
    """The subwords of each text, without the white space around it: some vocabularies have only the plain space."""
    return encode([text.strip() for text in texts])


def _part(text: str, ids: list[int]) -> SourcePart:
    return SourcePart(text, ids, text[len(text.rstrip()) :])


def _fit(part: SourcePart, limit: int, encode: Encode) -> list[SourcePart]:
    """Split a part into parts of at most `limit` subwords."""
    text, ids = part.text, part.ids
    if len(ids) <= limit:
        return [part]
    if len(text) > 1:
        middle = _middle(text)
        halves = [text[:middle], text[middle:]]
        first, second = map(_part, halves, _encoded(halves, encode))
        return _fit(first, limit, encode) + _fit(second, limit, encode)
    return [SourcePart("" if start else text, ids[start : start + limit]) for start in range(0, len(ids), limit)]


def _middle(text: str) -> int:
    """Where to halve a text of two characters or more: at the best boundary near its middle."""
    least, most = len(text) // 4, len(text) - len(text) // 4
    for boundary in (_CLAUSE_END, _SPACE):
        ends = [match.end() for match in boundary.finditer(text, least, most)]
        if inner := [end for end in ends if 0 < end < len(text)]:
            return min(inner, key=lambda end: abs(2 * end - len(text)))
    return len(text) // 2


def join_hypotheses(parts: Sequence[list[Hypothesis]], spaces: Sequence[str] = ()) -> list[Hypothesis]:
    """Join the hypotheses for the parts of a line, each best first. The i-th hypothesis of the line consists of the
    i-th of each part, or of the last one if the part has fewer. spaces: the white space after each part in the line.

    EOS separates the parts' tokens, so that token_scores are still log P of each token. log_probability is the sum
    over the parts, and so is score, which therefore cannot be compared with that of a line translated in one part.
    """
    if len(parts) == 1:
        return parts[0]
    lines = []
    for i in range(max(map(len, parts), default=0)):
        chosen = [part[min(i, len(part) - 1)] for part in parts]
        tokens, token_scores = list[int](), list[float]()
        for part in chosen:
            tokens += [*part.tokens, EOS]
            token_scores += part.token_scores
        score, total = sum(part.score for part in chosen), sum(part.log_probability for part in chosen)
        terms = tuple(chain(*(part.terms for part in chosen)))
        lines.append(Hypothesis(tokens[:-1], score, total, token_scores, tuple(spaces), terms))
    return lines


def decode(hypotheses: Sequence[Hypothesis], decode_tokens: Callable[[list[list[int]]], list[str]]) -> list[str]:
    """The text of each hypothesis. Its parts, which EOS separates, are decoded and joined."""
    outputs = [split_output(hypothesis.tokens) for hypothesis in hypotheses]
    texts = iter(decode_tokens(list(chain(*outputs))))  # all at once, which is faster
    pairs = zip(hypotheses, outputs, strict=True)
    return [join_texts([next(texts) for _ in parts], hypothesis.spaces) for hypothesis, parts in pairs]


def split_output(tokens: list[int]) -> list[list[int]]:
    """The tokens of each part in a joined hypothesis."""
    if EOS not in tokens:  # most outputs: looking at each token takes longer
        return [tokens]
    ends = [-1, *(i for i, token in enumerate(tokens) if token == EOS), len(tokens)]
    return [tokens[start + 1 : end] for start, end in pairwise(ends)]
