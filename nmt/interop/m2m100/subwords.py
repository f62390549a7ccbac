"""Selects the subwords that text in some languages needs from a SentencePiece model of a hundred languages or more.

Text whose pieces are all kept is split as before:

- Unigrams: the sequence of pieces with the highest probability stays the same when other pieces are removed. The cost
  of an unknown character depends on the lowest score, so the piece with that score is kept.
- Byte-pair encoding: a piece is made by merges of shorter pieces; each step does the merge with the highest score. The
  pieces that a kept piece is made of are kept too, so every earlier merge is still possible, and no score is higher
  than before.
"""

from collections.abc import Collection, Iterable
from itertools import islice, pairwise

import sentencepiece

from nmt.config.language_codes import scripts
from nmt.data.cleaning.rules.characters import in_scripts
from nmt.data.subwords import sentencepiece_model
from nmt.data.subwords.sentencepiece_model import SubwordKind
from nmt.errors import NmtError

_LINES = 10_000  # that are split at once
_TEXT_KINDS = (SubwordKind.NORMAL, SubwordKind.USER_DEFINED, SubwordKind.UNUSED)
_CODES = {"ns": "nso"}  # M2M-100 has a code that is not the code of a language


class Subwords:
    """The subwords of a SentencePiece model, in the order of their ids, and those that languages need."""

    def __init__(self, proto: bytes):
        self.proto, subwords = proto, sentencepiece_model.subwords(proto)
        self.pieces = [subword.piece for subword in subwords]
        self._scores = {subword.piece: subword.score for subword in subwords if subword.kind in _TEXT_KINDS}
        self._bytes = {subword.piece for subword in subwords if subword.kind == SubwordKind.BYTE}

    def for_languages(self, codes: Iterable[str]) -> set[str]:
        """The subwords in the scripts of the languages, with digits, punctuation and symbols, which belong to all
        scripts; and every single character. All subwords if the scripts of a language are not known."""
        readable = self._readable(codes)
        return self.complete(readable | {piece for piece in self._scores if len(piece.lstrip("▁")) <= 1})

    def for_text(self, lines: Iterable[str], codes: Iterable[str]) -> set[str]:
        """The subwords in these lines, and the single characters of the languages' scripts, with digits, punctuation
        and symbols."""
        used = {piece for piece in self._readable(codes) if len(piece.lstrip("▁")) <= 1}
        processor, remaining = sentencepiece.SentencePieceProcessor(), iter(lines)
        processor.LoadFromSerializedProto(self.proto)
        while batch := list(islice(remaining, _LINES)):
            used.update(*processor.Encode(batch, out_type=str))
        return self.complete(used & self._scores.keys())

    def complete(self, kept: Collection[str]) -> set[str]:
        """These subwords, the ones that they need (the parts of their merges, or the subword with the lowest score),
        and single bytes."""
        if sentencepiece_model.merges(self.proto):
            return self._bytes.union(kept, *map(self._made_of, kept))
        lowest = min(self._scores, key=self._scores.__getitem__, default=None)
        return self._bytes.union(kept, [] if lowest is None else [lowest])

    def _readable(self, codes: Iterable[str]) -> set[str]:
        """The subwords in the scripts of languages."""
        names = set[str]()
        for code in codes:
            if not (scripts_of_language := scripts_of(code)):
                return set(self._scores)
            names.update(scripts_of_language)
        readable = in_scripts(tuple(sorted(names))).tolist()
        return {piece for piece in self._scores if all(readable[ord(character)] for character in piece)}

    def _made_of(self, piece: str) -> set[str]:
        """The subwords that merges make on the way to this one. Each step does the merge with the highest score, or the
        first of several."""
        parts, passed = list(piece), set(piece) & self._scores.keys()
        while len(parts) > 1:
            joined = [first + second for first, second in pairwise(parts)]
            mergeable = [pair for pair in joined if pair in self._scores]
            if not mergeable:
                break
            best = max(mergeable, key=self._scores.__getitem__)  # the first of several
            i = joined.index(best)
            parts[i : i + 2] = [best]
            passed.add(best)
        return passed


def scripts_of(code: str) -> tuple[str, ...]:
    """The scripts of a language; none if they are not known."""
    try:
        return scripts(_CODES.get(code, code))
    except NmtError:
        return ()
