"""Splits sources longer than the text that the model was trained on, and joins the translations of the parts."""

import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from nmt.data.subwords.sentences import has_several, join_texts, sentences
from nmt.data.subwords.vocabulary import EOS
from nmt.decoding.search.options import Hypothesis

Encode = Callable[[list[str]], list[list[int]]]

_CLAUSE_END = re.compile(r"(?:[,;:–—،؛](?=\s)|[，、；：])\s*")
_SPACE = re.compile(r"\s+")


class SourcePart(NamedTuple):
    """A part of a text and its subwords, without EOS. space: what stands between it and the next part: at the end of a
    sentence a space at least, inside of one perhaps nothing."""

    text: str
    ids: list[int]
    space: str = ""


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
        """Whether a line of these subwords is translated in one piece."""
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
    """The lowest of these limits, of which None is none."""
    return min((limit for limit in limits if limit is not None), default=None)


def split(texts: Iterable[str], limit: int, encode: Encode, together: int = 0) -> list[SourcePart]:
    """Split the sentences of a text into parts of at most `limit` subwords each; their texts concatenated are the text.

    A part is a sentence, or as many as have at most `together` subwords. A sentence that is too long is halved until
    the parts fit: near its middle at the end of a clause, else at white space, else between characters. If one
    character has too many subwords, these are split, and the first part has the text. `encode` returns each text's
    subwords; a part without words may have none.
    """
    parts: list[SourcePart] = []
    for group in _in_groups(list(texts), min(limit, together), encode):
        parts += _fit(group, limit, encode)
        last = parts[-1]
        parts[-1] = last._replace(space=last.space or " ")
    return parts


def _in_groups(texts: list[str], together: int, encode: Encode) -> list[SourcePart]:
    """The sentences, as many in a part as have at most `together` subwords."""
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
        fits = len(group) == 1 or len(ids) <= together  # sentences can have fewer subwords alone
        parts += [_part(text, ids)] if fits else group
    return parts


def _encoded(texts: list[str], encode: Encode) -> list[list[int]]:
    """Without the white space around a part, of which some vocabularies know only the plain space."""
    return encode([text.strip() for text in texts])


def _part(text: str, ids: list[int]) -> SourcePart:
    return SourcePart(text, ids, text[len(text.rstrip()) :])


def _fit(part: SourcePart, limit: int, encode: Encode) -> list[SourcePart]:
    """A part in as many as are needed for the limit."""
    text, ids = part.text, part.ids
    if len(ids) <= limit:
        return [part]
    if len(text) > 1:
        middle = _middle(text)
        halves = [text[:middle], text[middle:]]
        return [small for half in map(_part, halves, _encoded(halves, encode)) for small in _fit(half, limit, encode)]
    return [SourcePart("" if start else text, ids[start : start + limit]) for start in range(0, len(ids), limit)]


def _middle(text: str) -> int:
    """Where to halve a text of two characters or more: at the best boundary near its middle."""
    least, most = len(text) // 4, len(text) - len(text) // 4
    for boundary in (_CLAUSE_END, _SPACE):
        places = [match.end() for match in boundary.finditer(text, least, most)]
        if places := [place for place in places if 0 < place < len(text)]:
            return min(places, key=lambda place: abs(2 * place - len(text)))
    return len(text) // 2


def join_hypotheses(parts: Sequence[list[Hypothesis]], spaces: Sequence[str] = ()) -> list[Hypothesis]:
    """Join the hypotheses for the parts of a line, each best first. The i-th for the line consists of the i-th for
    each part, or of the part's last if it has fewer. spaces: after each part in the line.

    EOS separates the parts' tokens, so that token_scores are still log P of each token. log_probability is the sum
    over the parts, and so is score, which therefore cannot be compared with that of a line translated in one part.
    """
    if len(parts) == 1:
        return parts[0]
    lines = []
    for i in range(max(map(len, parts), default=0)):
        chosen = [part[min(i, len(part) - 1)] for part in parts]
        tokens = [token for part in chosen for token in (*part.tokens, EOS)][:-1]
        token_scores = [score for part in chosen for score in part.token_scores]
        score, total = sum(part.score for part in chosen), sum(part.log_probability for part in chosen)
        lines.append(Hypothesis(tokens, score, total, token_scores, tuple(spaces)))
    return lines


def decode(hypotheses: Sequence[Hypothesis], by: Callable[[list[list[int]]], list[str]]) -> list[str]:
    """The text of each. Its parts, which EOS separates, are decoded with `by` and joined."""
    parts = [split_output(hypothesis.tokens) for hypothesis in hypotheses]
    texts = iter(by([part for output in parts for part in output]))
    pairs = zip(hypotheses, parts, strict=True)
    return [join_texts([next(texts) for _ in output], hypothesis.spaces) for hypothesis, output in pairs]


def split_output(tokens: list[int]) -> list[list[int]]:
    """The tokens of each part in a joined hypothesis."""
    if EOS not in tokens:  # most outputs: looking at each token takes longer
        return [tokens]
    ends = [-1, *(place for place, token in enumerate(tokens) if token == EOS), len(tokens)]
    return [tokens[start + 1 : end] for start, end in pairwise(ends)]
