"""An upper bound for the size of an answer, known before anything is translated."""

import json
from collections.abc import Iterable

from nmt.decoding.translator import Translator

DECIMALS = 6  # of a number in an alignment
_BYTES_PER_WEIGHT = DECIMALS + 3  # a number in an alignment: `0.123456,`
_BYTES_PER_SCORE = 25  # a token's score: `-0.00012345678871497512,`
_BYTES_PER_TRANSLATION = 200  # names of the fields, score and log-probability


class AnswerSize:
    """The largest JSON answer of a translator. Before it is JSON, it takes about four times as much memory."""

    def __init__(self, translator: Translator):
        self.translator = translator
        vocabulary = translator.vocabulary
        self._source_subword = _longest(vocabulary.source.every_piece())
        self._target_subword = _longest(vocabulary.target.every_piece())

    def upper_bound(self, parts: Iterable[int], n_best: int, alignment: bool) -> int:
        """Bytes for lines that are translated in parts of these lengths in subwords, each with n_best translations.

        Each subword of a translation is in the answer twice, in the text and alone with its score; the end of each part
        once. With the alignment it has a number for each source subword of its part.
        """
        total = 0
        for source in parts:
            per_subword = 2 * self._target_subword + _BYTES_PER_SCORE
            if alignment:
                per_subword += _BYTES_PER_WEIGHT * (source + 1) + 2
                total += self._source_subword * (source + 1)
            total += per_subword * (self.translator.longest_output(source) + 1) + _BYTES_PER_TRANSLATION
        return total * n_best


def _longest(subwords: Iterable[str]) -> int:
    """Bytes of the longest one as JSON, with a comma."""
    return max(len(json.dumps(subword, ensure_ascii=False).encode()) for subword in subwords) + 1
