"""Choosing among hypotheses: by agreement, by coverage."""

import math

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.decoding.engine import rank_by_coverage
from nmt.decoding.mbr import rank_by_agreement
from nmt.decoding.search.decoder_model import Hypothesis

TEXTS = ["a dog runs", "the dog runs fast", "a dog runs fast", "completely other words", "a dog runs", ""]


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_the_text_most_similar_to_all_comes_first(metric: str) -> None:
    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    expected = [sum(scorer.sentence_score(one, [other]).score for other in TEXTS) for one in TEXTS]
    order = rank_by_agreement(TEXTS, metric)  # type: ignore[arg-type]
    assert sorted(order) == [0, 1, 2, 3, 5], "each text once, where it stands first"
    assert [expected[i] for i in order] == sorted((expected[i] for i in (0, 1, 2, 3, 5)), reverse=True)


def test_texts_without_spaces_are_compared_by_their_letters() -> None:
    """By words, all of them would be completely different."""
    texts = ["他明天要吃饭吗？", "我今天早上去学校了。", "我今天早上去了学校。", "我今天早上去学校。"]
    assert rank_by_agreement(texts, "bleu")[-1] == rank_by_agreement(texts, "chrf")[-1] == 0


def test_the_coverage_penalty_is_equation_14() -> None:
    half, whole = Hypothesis([5], -1.0, -1.0, [-0.5, -0.5]), Hypothesis([6], -1.2, -1.2, [-0.6, -0.6])
    alignments = [[[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.1, 0.9]]]
    assert rank_by_coverage([half, whole], alignments, 0.0) == [half, whole]
    first, second = rank_by_coverage([half, whole], alignments, 0.5)
    assert (first.tokens, second.tokens) == ([6], [5])
    assert first.score == pytest.approx(-1.2)
    assert second.score == pytest.approx(-1.0 + 0.5 * math.log(0.3))
