"""The subwords that text in some languages can need, of the SentencePiece model of a hundred languages or more.

Text whose pieces are all kept is cut as before:

- Of unigrams the likeliest sequence of pieces stays the likeliest when others are gone. The price of an unknown
  character depends on the lowest score: that piece is kept.
- Byte-pair encoding makes a piece by merges of shorter ones, and at each step does the merge with the highest score.
  Of each kept piece, those that it is made of are kept too: so every merge that was done before can be done, and
  nothing has a higher score than before.
"""

from collections.abc import Collection, Iterable
from itertools import islice, pairwise

import sentencepiece

from nmt.config.language_codes import scripts
from nmt.data.cleaning.rules.characters import in_scripts
from nmt.data.subwords import sentencepiece_model
from nmt.data.subwords.sentencepiece_model import SubwordKind
from nmt.errors import NmtError

_LINES = 10_000  # that are cut at once
_OF_TEXT = (SubwordKind.NORMAL, SubwordKind.USER_DEFINED, SubwordKind.UNUSED)
_CODES = {"ns": "nso"}  # of M2M-100, where it is not the code of a language


class Subwords:
    """Those of a SentencePiece model, by their ids there, and which of them languages need."""

    def __init__(self, proto: bytes):
        self.proto, every = proto, sentencepiece_model.subwords(proto)
        self.pieces = [each.piece for each in every]
        self._scores = {each.piece: each.score for each in every if each.kind in _OF_TEXT}
        self._bytes = {each.piece for each in every if each.kind == SubwordKind.BYTE}

    def of_languages(self, codes: Iterable[str]) -> set[str]:
        """Those in the scripts of the languages, with digits, punctuation and symbols, which are of all scripts; and
        every single character. All of them, where the scripts of a language are not known."""
        readable = self._readable(codes)
        return self.complete(readable | {piece for piece in self._scores if len(piece.lstrip("▁")) <= 1})

    def of_text(self, lines: Iterable[str], codes: Iterable[str]) -> set[str]:
        """Those that these lines are cut into, and the single characters of the languages' scripts, with digits,
        punctuation and symbols."""
        used = {piece for piece in self._readable(codes) if len(piece.lstrip("▁")) <= 1}
        processor, remaining = sentencepiece.SentencePieceProcessor(), iter(lines)
        processor.LoadFromSerializedProto(self.proto)
        while some := list(islice(remaining, _LINES)):
            used.update(*processor.Encode(some, out_type=str))
        return self.complete(used & self._scores.keys())

    def complete(self, kept: Collection[str]) -> set[str]:
        """These and what they need: those that they are made of, or the one with the lowest score; and single bytes."""
        if sentencepiece_model.merges(self.proto):
            return self._bytes.union(kept, *map(self._made_of, kept))
        lowest = min(self._scores, key=self._scores.__getitem__, default=None)
        return self._bytes.union(kept, [] if lowest is None else [lowest])

    def _readable(self, codes: Iterable[str]) -> set[str]:
        """Those in the scripts of languages."""
        of_codes = list(map(scripts_of, codes))
        if not all(of_codes):
            return set(self._scores)
        known = in_scripts(tuple(sorted({name for names in of_codes for name in names}))).tolist()
        return {piece for piece in self._scores if all(known[ord(character)] for character in piece)}

    def _made_of(self, piece: str) -> set[str]:
        """Those that merges go through on the way to this one: at each step the one with the highest score, of several
        the first."""
        parts, passed = list(piece), set(piece) & self._scores.keys()
        while len(parts) > 1:
            joined = [first + second for first, second in pairwise(parts)]
            known = [place for place, each in enumerate(joined) if each in self._scores]
            if not known:
                break
            place = max(known, key=lambda place: (self._scores[joined[place]], -place))
            parts[place : place + 2] = [joined[place]]
            passed.add(joined[place])
        return passed


def scripts_of(code: str) -> tuple[str, ...]:
    """Those that a language is written in; none if they are not known."""
    try:
        return scripts(_CODES.get(code, code))
    except NmtError:
        return ()
