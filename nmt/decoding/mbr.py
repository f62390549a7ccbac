"""Minimum Bayes risk: of many translations the one that the others agree with most (Kumar and Byrne 2004)."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


def by_agreement(texts: Sequence[str], metric: Literal["chrf", "bleu"]) -> list[int]:
    """The places of the distinct texts, the one first that is likest to all of them on average.

    Each text is as probable as the times it stands there. Alikeness is sentence chrF, or sentence BLEU with
    exponential smoothing; of texts that score the same, the first comes first.
    """
    scorer: CHRF | BLEU = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    times = Counter(texts)
    expected = {
        one: sum(scorer.sentence_score(one, [other]).score * count for other, count in times.items()) for one in times
    }
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    return [first[text] for text in sorted(times, key=lambda text: (-expected[text], first[text]))]
