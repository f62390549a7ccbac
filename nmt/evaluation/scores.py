"""Scores of whole texts by sacreBLEU: each with its signature, how sure it is, and how it differs from a baseline's.

The statistics are sacreBLEU's own. Intervals are by bootstrap resampling (Koehn, 2004, Statistical Significance Tests
for Machine Translation Evaluation); differences are tested by paired bootstrap (the same) and by approximate
randomisation (Riezler and Maxwell, 2005, On Some Pitfalls in Automatic Evaluation and Significance Testing for MT).
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result
from tqdm import tqdm

from nmt.errors import NmtError
from nmt.evaluation.aligned_texts import Lines, check_alike
from nmt.evaluation.metrics import bleu_metric, ter_metric

log = logging.getLogger("nmt")

# Resampling holds numbers for every line and sample at once: over so many lines it would need some 2 GiB.
MOST_LINES_RESAMPLED = 10_000
_SECONDS_WITHOUT_PROGRESS = 2


@dataclass(frozen=True)
class Interval:
    """The mean over bootstrap samples of the lines; 95% of them are within about `half_width` of it."""

    mean: float
    half_width: float
    samples: int
    seed: str


@dataclass(frozen=True)
class Difference:
    """How a score differs from the baseline's, and how probable so large a difference is by chance.

    A p-value is the share of trials with a larger difference, were both texts the work of one system: of lines swapped
    at random, and of resampled lines. None where the scores are equal: there is nothing to explain. sacreBLEU's
    bootstrap centres absolute differences, which makes its p-value smaller than that of a two-sided test: under 0.05
    for 17 of 150 pairs that differed by chance alone, where randomisation's was for 7.
    """

    value: float
    p_bootstrap: float | None
    bootstrap_samples: int
    p_randomisation: float | None
    randomisation_trials: int


@dataclass(frozen=True)
class Score:
    """One number for a whole text: BLEU and chrF from 0 to 100, TER an error rate; `signature` is sacreBLEU's.

    interval: None for more than MOST_LINES_RESAMPLED lines. difference: None for the baseline too.
    """

    system: str
    name: str
    value: float
    interval: Interval | None
    difference: Difference | None
    signature: str


def score(
    systems: Sequence[Lines],
    references: Sequence[Lines],
    target_language: str,
    test_set: str | None = None,
    language_pair: str | None = None,
    tokenizer: str | None = None,
) -> list[Score]:
    """BLEU, chrF and TER of one or more translations of the same lines; the first system is the baseline of the others.

    By system, then metric. Each line has one or more reference translations. test_set and language_pair are written
    into the signatures; tokenizer: sacreBLEU's name of one for BLEU, rather than the language's. Raises NmtError where
    the texts are empty or do not have as many lines as each other, or a system is given twice.
    """
    for place, system in enumerate(systems):
        check_alike(system, references)
        if any(system.name == other.name for other in systems[:place]):
            raise NmtError(f"{system.name} is given twice: a system is compared with others")
    lines = len(systems[0].lines)
    resampled = lines <= MOST_LINES_RESAMPLED
    if not resampled:
        log.info("%s lines: no intervals and tests, which are for up to %s", f"{lines:,}", f"{MOST_LINES_RESAMPLED:,}")
    texts = [list(reference.lines) for reference in references]
    rows: list[list[Score]] = []
    # BLEU warns of text that looks tokenized whenever it reads it: the second test is to be quiet.
    loud, quiet_ones = (_metrics(target_language, tokenizer, quiet=quiet) for quiet in (False, True))
    metrics = list(zip(loud, quiet_ones, strict=True))
    for metric, quiet in tqdm(metrics, "scoring", disable=None, leave=False, delay=_SECONDS_WITHOUT_PROGRESS):
        name, measured = _resampled(metric, quiet, systems, texts) if resampled else _plain(metric, systems, texts)
        signature = metric.get_signature()
        signature.update("test", test_set)
        signature.update("lang", language_pair)
        rows.append(
            [Score(system.name, name, *found, str(signature)) for system, found in zip(systems, measured, strict=True)]
        )
    return [row[place] for place in range(len(systems)) for row in rows]


def check_seed() -> None:
    """Raises NmtError where the environment has a seed that sacreBLEU cannot take."""
    seed = os.environ.get("SACREBLEU_SEED", "none")
    if seed.lower() != "none" and not seed.strip().isdecimal():
        raise NmtError(f"SACREBLEU_SEED={seed}: expected a whole number, or none for another one each time")


_Measured = tuple[float, Interval | None, Difference | None]


def _metrics(language: str, tokenizer: str | None, *, quiet: bool) -> tuple[Metric, Metric, Metric]:
    return bleu_metric(language, tokenizer=tokenizer, quiet=quiet), CHRF(), ter_metric(language)


def _plain(metric: Metric, systems: Sequence[Lines], references: list[list[str]]) -> tuple[str, list[_Measured]]:
    found = [metric.corpus_score(list(system.lines), references) for system in systems]
    return found[0].name, [(one.score, None, None) for one in found]


def _resampled(
    metric: Metric, quiet: Metric, systems: Sequence[Lines], references: list[list[str]]
) -> tuple[str, list[_Measured]]:
    """The metric's name and, for each system, the score with its interval and difference from the first one's."""
    name, samples, seed, by_bootstrap = _tested(metric, systems, references, "bs")
    trials, by_randomisation = 0, by_bootstrap
    if len(systems) > 1:
        _, trials, _, by_randomisation = _tested(quiet, systems, references, "ar")
    baseline, measured = by_bootstrap[0].score, list[_Measured]()
    for place, (one, other) in enumerate(zip(by_bootstrap, by_randomisation, strict=True)):
        # Two texts of equal score are given the least p there is: a larger difference was never seen by chance.
        p_values = (None, None) if one.score == baseline else (one.p_value, other.p_value)
        difference = Difference(one.score - baseline, p_values[0], samples, p_values[1], trials)
        assert one.mean is not None and one.ci is not None
        interval = Interval(float(one.mean), float(one.ci), samples, seed)
        measured.append((one.score, interval, difference if place else None))
    return name, measured


def _tested(
    metric: Metric, systems: Sequence[Lines], references: list[list[str]], kind: str
) -> tuple[str, int, str, list[Result]]:
    """The metric's name, the number of samples, their seed, and a result for each system: `bs` or `ar`."""
    named: list[tuple[str, Sequence[str]]] = [(system.name, list(system.lines)) for system in systems]
    signatures, results = PairedTest(named, {"metric": metric}, references, test_type=kind)()
    ((name, signature),) = signatures.items()
    found = [result for result in results[name] if isinstance(result, Result)]  # all are: names are under another key
    return name, signature.info[kind], signature.info["seed"], found
