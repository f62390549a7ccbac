"""Minimum Bayes risk decoding: choose the translation most similar to the others (Kumar and Byrne 2004)."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Literal, assert_never

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.config.unspaced_scripts import is_unspaced


def rank_by_agreement(texts: Sequence[str], metric: Literal["chrf", "bleu"]) -> list[int]:
    """Indices of the distinct texts, highest mean similarity to all texts first.

    A text that occurs n times counts n times. Similarity is sentence chrF, or sentence BLEU with exponential smoothing,
    which counts characters in scripts without spaces between words. Texts with equal scores stay in their order.
    """
    units = "char" if any(map(is_unspaced, chain(*texts))) else "13a"
    scorer: CHRF | BLEU
    match metric:
        case "chrf":
            scorer = CHRF()
        case "bleu":
            scorer = BLEU(tokenize=units, effective_order=True)
        case _:
            assert_never(metric)
    counts = Counter(texts)
    similarity = dict[str, float]()
    for text in counts:
        scores = (scorer.sentence_score(text, [other]).score * count for other, count in counts.items())
        similarity[text] = sum(scores)
    return [texts.index(text) for text in sorted(counts, key=lambda text: -similarity[text])]  # a stable sort
