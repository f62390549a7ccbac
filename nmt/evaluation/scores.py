"""sacreBLEU's scores of complete texts, with signatures, 95% intervals and differences from a baseline.

The statistics are sacreBLEU's own. Intervals come from bootstrap resampling (Koehn, 2004, Statistical Significance
Tests for Machine Translation Evaluation). Differences are tested by paired bootstrap (the same paper) and by
approximate randomisation (Riezler and Maxwell, 2005, On Some Pitfalls in Automatic Evaluation and Significance Testing
for MT).
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import ne

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result
from tqdm import tqdm

from nmt.errors import NmtError
from nmt.evaluation.aligned_texts import AlignedText, check_aligned
from nmt.evaluation.metrics import bleu_metric, chrf_metric, ter_metric
from nmt.evaluation.text_form import RAW

log = logging.getLogger("nmt")

# Resampling holds statistics of every line in every sample: about 2 GiB for this number of lines.
MOST_LINES_RESAMPLED = 10_000


@dataclass(frozen=True)
class ConfidenceInterval:
    """The mean over bootstrap samples of the lines; 95% of them are within about `half_width` of it."""

    mean: float
    half_width: float
    samples: int
    seed: str


@dataclass(frozen=True)
class Difference:
    """A score minus the baseline's, and the probability that chance alone gives a difference this large.

    p_randomisation: the share of trials with a larger difference if the two translations of each line are swapped at
    random, but not less than the probability of swapping all lines that differ, or none: these give the same
    difference. p_bootstrap: the share for resampled lines. Both are None if the scores are equal. sacreBLEU's bootstrap
    centres absolute differences, so its p-values are smaller than those of a two-sided test: below 0.05 for 17 of 150
    pairs that differed by chance alone; randomisation was below 0.05 for 7.
    """

    value: float
    p_bootstrap: float | None
    bootstrap_samples: int
    p_randomisation: float | None
    randomisation_trials: int


@dataclass(frozen=True)
class BleuParts:
    """The parts of BLEU (Papineni et al. 2002). precisions: of n-grams of 1 to 4 tokens, from 0 to 100; length_ratio:
    tokens of the system for each token of the reference (of several, the closest in length); brevity_penalty: the
    factor for a ratio below 1."""

    precisions: tuple[float, ...]
    length_ratio: float
    brevity_penalty: float


@dataclass(frozen=True)
class MetricScore:
    """The score of one system by one metric. BLEU and chrF are from 0 to 100, TER is an error rate. interval and
    difference are None for more than MOST_LINES_RESAMPLED lines; difference is also None for the baseline. parts: for
    BLEU. compared: the form of the texts, which sacreBLEU's signature does not name."""

    system: str
    name: str
    value: float
    interval: ConfidenceInterval | None
    difference: Difference | None
    signature: str
    parts: BleuParts | None = None
    compared: str = RAW.compared


def score(
    systems: Sequence[AlignedText],
    references: Sequence[AlignedText],
    target_language: str,
    test_set: str | None = None,
    language_pair: str | None = None,
    tokenizer: str | None = None,
) -> list[MetricScore]:
    """BLEU, chrF and TER of one or more translations of the same lines, all in one form; the first system is the
    baseline.

    Sorted by system, then metric. Each line has one or more reference translations. test_set and language_pair are
    written into the signatures. tokenizer: the name of a tokenizer of sacreBLEU for BLEU, in place of the language's
    own. Raises NmtError if the texts are empty, their numbers of lines differ, or a system is given twice.
    """
    check_names([system.name for system in systems])
    for system in systems:
        check_aligned(system, references)
    lines = len(systems[0].lines)
    resampled = lines <= MOST_LINES_RESAMPLED
    if not resampled:
        counts = f"{lines:,}", f"{MOST_LINES_RESAMPLED:,}"
        log.info("no intervals and p-values: the text has %s lines, more than %s", *counts)
    texts = [list(reference.lines) for reference in references]
    rows: list[list[MetricScore]] = []
    metrics = [bleu_metric(target_language, tokenizer=tokenizer), chrf_metric(), ter_metric(target_language)]
    for metric in tqdm(metrics, "scoring", disable=None, leave=False, delay=2):
        name, measured = _resampled(metric, systems, texts) if resampled else _plain(metric, systems, texts)
        signature = metric.get_signature()
        signature.update("test", test_set)
        signature.update("lang", language_pair)
        row = []
        for system, values in zip(systems, measured, strict=True):
            parts = _parts(metric, system, texts)
            row.append(MetricScore(system.name, name, *values, str(signature), parts, system.form.compared))
        rows.append(row)
    return list(chain(*zip(*rows, strict=True)))


def check_names(names: Sequence[str]) -> None:
    """Raises NmtError if two systems have the same name."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise NmtError(f"{name} is given twice: give each system once")


def check_seed() -> None:
    """Raises NmtError if the environment variable SACREBLEU_SEED is not a seed."""
    seed = os.environ.get("SACREBLEU_SEED", "none")
    if seed.lower() != "none" and not seed.strip().isdecimal():
        raise NmtError(f"SACREBLEU_SEED={seed}: expected an integer, or none for a new seed each time")


def _parts(metric: Metric, system: AlignedText, references: list[list[str]]) -> BleuParts | None:
    if not isinstance(metric, BLEU):
        return None
    bleu = metric.corpus_score(list(system.lines), references)
    return BleuParts(tuple(bleu.precisions), bleu.ratio, bleu.bp)


_Measured = tuple[float, ConfidenceInterval | None, Difference | None]


def _plain(metric: Metric, systems: Sequence[AlignedText], references: list[list[str]]) -> tuple[str, list[_Measured]]:
    scores = [metric.corpus_score(list(system.lines), references) for system in systems]
    return scores[0].name, [(score.score, None, None) for score in scores]


def _resampled(
    metric: Metric, systems: Sequence[AlignedText], references: list[list[str]]
) -> tuple[str, list[_Measured]]:
    """The metric's name and, for each system, its score, interval and difference from the first system."""
    name, samples, seed, by_bootstrap = _tested(metric, systems, references, "bs")
    trials, by_randomisation = 0, by_bootstrap
    if len(systems) > 1:
        _, trials, _, by_randomisation = _tested(metric, systems, references, "ar")
    differing = [sum(map(ne, systems[0].lines, system.lines)) for system in systems]
    baseline, measured = by_bootstrap[0].score, list[_Measured]()
    for i, (result, randomised) in enumerate(zip(by_bootstrap, by_randomisation, strict=True)):
        p_bootstrap, p_randomised = result.p_value, _at_least(randomised.p_value, differing[i])
        if result.score == baseline:  # sacreBLEU returns its smallest p-value, which would look significant
            p_bootstrap = p_randomised = None
        difference = Difference(result.score - baseline, p_bootstrap, samples, p_randomised, trials)
        assert result.mean is not None and result.ci is not None
        interval = ConfidenceInterval(float(result.mean), float(result.ci), samples, seed)
        measured.append((result.score, interval, difference if i else None))
    return name, measured


def _at_least(p: float | None, differing: int) -> float | None:
    """sacreBLEU's p-value of randomisation for two texts with `differing` different lines. sacreBLEU counts larger
    differences only. But two of the 2^differing ways to swap these lines, all and none, give the observed
    difference."""
    return None if p is None else max(p, 2.0 ** (1 - differing))


def _tested(
    metric: Metric, systems: Sequence[AlignedText], references: list[list[str]], kind: str
) -> tuple[str, int, str, list[Result]]:
    """sacreBLEU's paired test of a kind, `bs` or `ar`. Returns the metric's name, the number of samples, the seed, and
    a result for each system."""
    named_texts: list[tuple[str, Sequence[str]]] = [(system.name, list(system.lines)) for system in systems]
    signatures, results = PairedTest(named_texts, {"metric": metric}, references, test_type=kind)()
    ((name, signature),) = signatures.items()
    system_results = [result for result in results[name] if isinstance(result, Result)]  # all are; for mypy
    return name, signature.info[kind], signature.info["seed"], system_results
