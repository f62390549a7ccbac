"""How large the answer to a request can become, known before anything is translated."""

import json
from collections.abc import Iterable

from nmt.decoding.translator import Translator

DECIMALS = 6  # of a number in an alignment
_SHARE = DECIMALS + 3  # bytes of such a number: `0.123456,`
_SCORE = 25  # bytes of a token's score: `-0.00012345678871497512,`
_AROUND = 200  # bytes of a translation beside its tokens: names of fields, its score and log-probability


class AnswerSize:
    """Of a translator's answers, the most bytes as JSON. What they take in memory before is about four times that."""

    def __init__(self, translator: Translator):
        self.translator = translator
        vocabulary = translator.vocabulary
        self._source_piece = _longest(vocabulary.source.every_piece())
        self._target_piece = _longest(vocabulary.target.every_piece())

    def most(self, parts: Iterable[int], n_best: int, alignment: bool) -> int:
        """For lines that are translated in parts of these numbers of subwords, each with n_best translations.

        Every subword of a translation is in the answer twice, in the text and alone with its score, and the end of
        each part once; with the alignment it has a number for each subword of its part of the source.
        """
        total = 0
        for source in parts:
            of_a_token = 2 * self._target_piece + _SCORE
            if alignment:
                of_a_token += _SHARE * (source + 1) + 2
                total += self._source_piece * (source + 1)
            total += of_a_token * (self.translator.longest_output(source) + 1) + _AROUND
        return total * n_best


def _longest(pieces: Iterable[str]) -> int:
    return max(len(json.dumps(piece, ensure_ascii=False).encode()) for piece in pieces) + 1  # the comma
