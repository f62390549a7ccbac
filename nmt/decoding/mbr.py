"""Minimum Bayes risk decoding: choose the translation most similar to the others (Kumar and Byrne 2004)."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, assert_never

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.config.unspaced_scripts import is_unspaced


def rank_by_agreement(texts: Sequence[str], metric: Literal["chrf", "bleu"]) -> list[int]:
    """Indices of the distinct texts, highest mean similarity to all texts first.

    A text that occurs several times counts as often. Similarity is sentence chrF, or sentence BLEU with exponential
    smoothing; of characters in scripts without spaces between words. Of texts with equal scores, the first comes first.
    """
    units = "char" if any(is_unspaced(letter) for text in texts for letter in text) else "13a"
    scorer: CHRF | BLEU
    match metric:
        case "chrf":
            scorer = CHRF()
        case "bleu":
            scorer = BLEU(tokenize=units, effective_order=True)
        case _:
            assert_never(metric)
    times = Counter(texts)
    expected = {
        text: sum(scorer.sentence_score(text, [other]).score * count for other, count in times.items())
        for text in times
    }
    return [texts.index(text) for text in sorted(times, key=lambda text: -expected[text])]  # a stable sort
