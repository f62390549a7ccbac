"""Scores, intervals and p-values equal those of sacreBLEU called directly."""

import random

import pytest
import sacrebleu
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from nmt.errors import NmtError
from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.scores import BleuParts, MetricScore, score

HYPOTHESIS = AlignedText("out.de", ["The dog runs in the park.", "Two men talk about a red car.", "Nothing"])
REFERENCE = AlignedText(
    "one.de", ["The dog is running in the park.", "Two men talk about a car that is red.", "Nothing here"]
)
OTHER = AlignedText("two.de", ["A dog runs through the park.", "A pair of men talk about a red car.", "Nothing"])


@pytest.mark.parametrize("references", [[REFERENCE], [REFERENCE, OTHER]])
def test_equal_to_sacrebleu(references: list[AlignedText]) -> None:
    texts = [list(reference.lines) for reference in references]
    bleu, chrf, ter = score([HYPOTHESIS], references, "de")
    assert (bleu.name, chrf.name, ter.name) == ("BLEU", "chrF2", "TER")
    assert bleu.value == sacrebleu.corpus_bleu(HYPOTHESIS.lines, texts).score
    assert chrf.value == sacrebleu.corpus_chrf(HYPOTHESIS.lines, texts).score
    assert ter.value == sacrebleu.corpus_ter(HYPOTHESIS.lines, texts).score
    assert 0 < bleu.value < 100
    assert bleu.parts is not None and chrf.parts is ter.parts is None


def test_the_parts_of_bleu_are_sacrebleus() -> None:
    references = [REFERENCE, OTHER]
    short = AlignedText("short.de", [line.rpartition(" ")[0] or line for line in REFERENCE.lines])
    parts = score([short], references, "de")[0].parts
    direct = sacrebleu.corpus_bleu(short.lines, [list(reference.lines) for reference in references])
    assert parts == BleuParts(tuple(direct.precisions), direct.sys_len / direct.ref_len, direct.bp)
    assert parts.brevity_penalty < 1


def test_what_cannot_be_scored() -> None:
    with pytest.raises(NmtError, match=r"^out\.de has 3 lines and two\.de has 2: they must be the same text"):
        score([HYPOTHESIS], [REFERENCE, AlignedText("two.de", OTHER.lines[:2])], "de")


# ------------------------------------------------------------------------ intervals and differences


def noisy(share: float, seed: int) -> AlignedText:
    """The long reference without this number of its words."""
    random_ = random.Random(seed)
    lines = [" ".join(word for word in line.split() if random_.random() > share) for line in LONG.lines]
    return AlignedText(f"noisy {seed}", lines)


LONG = AlignedText(
    "long.de", [f"The dog number {i} runs in park {i % 7} , not in street {i * i % 11} ." for i in range(40)]
)
SYSTEMS = [noisy(0.1, 1), noisy(0.3, 3)]


@pytest.fixture(scope="module")
def resampled() -> list[MetricScore]:
    return score(SYSTEMS, [LONG], "de")


def metrics() -> dict[str, Metric]:
    return {"BLEU": BLEU(trg_lang="de"), "chrF2": CHRF(), "TER": TER()}


def test_intervals_are_sacrebleus_own(resampled: list[MetricScore]) -> None:
    """As `sacrebleu --confidence` computes them, system by system."""
    found = iter(resampled)
    for system in SYSTEMS:
        for metric in metrics().values():
            one, direct = next(found), metric.corpus_score(list(system.lines), [list(LONG.lines)], n_bootstrap=1000)
            assert (one.system, one.name, one.value) == (system.name, direct.name, direct.score)
            assert one.interval is not None and (one.interval.samples, one.interval.seed) == (1000, "12345")
            assert one.interval.mean == pytest.approx(direct._mean, rel=1e-5)
            assert one.interval.half_width == pytest.approx(direct._ci, rel=1e-5)
    assert next(found, None) is None


def test_p_values_are_sacrebleus_own(resampled: list[MetricScore]) -> None:
    named = [(system.name, list(system.lines)) for system in SYSTEMS]
    _, bootstrap = PairedTest(named, metrics(), [list(LONG.lines)], test_type="bs")()
    _, randomised = PairedTest(named, metrics(), [list(LONG.lines)], test_type="ar")()
    found = {(one.system, one.name): one for one in resampled}
    for place, system in enumerate(SYSTEMS):
        for name in metrics():
            difference = found[system.name, name].difference
            if not place:
                assert difference is None
                continue
            assert difference is not None
            assert difference.value == found[system.name, name].value - found[SYSTEMS[0].name, name].value
            assert difference.p_bootstrap == bootstrap[name][place].p_value
            assert difference.p_randomisation == randomised[name][place].p_value
            assert (difference.bootstrap_samples, difference.randomisation_trials) == (1000, 10_000)
    worst = found[SYSTEMS[1].name, "BLEU"].difference
    assert worst is not None and worst.p_randomisation is not None and worst.p_randomisation < 0.01
