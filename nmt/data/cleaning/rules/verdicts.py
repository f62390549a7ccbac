"""What the rules say of a chunk of pairs: a job that other processes can do."""

from collections.abc import Sequence
from functools import cache
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.rules.judge import judge, rules_of
from nmt.data.cleaning.rules.near_duplicates import folded_hashes
from nmt.data.sources.corpus import Pair

_rules = cache(rules_of)  # in each process, as they cannot be sent to another


class Job(NamedTuple):
    """A chunk of pairs and the rules for it."""

    pairs: Sequence[Pair]
    scores: npt.NDArray[np.float32] | None  # [pairs], for the rule on scores
    clean: schema.CleaningConfig
    languages: tuple[str, str]  # of source and target


class Verdict(NamedTuple):
    """What the rules say of a chunk."""

    kept: npt.NDArray[np.bool_]  # [pairs]
    dropped: dict[str, int]  # by each rule
    examples: DropExamples
    hashes: npt.NDArray[np.uint64]  # of the pairs kept, for finding near-duplicates


def verdict(job: Job) -> Verdict:
    """What the rules say."""
    judgement, examples = judge(job.pairs, _rules(job.clean, job.languages), job.scores), DropExamples()
    examples.add(job.pairs, judgement)
    dropped = {rule.name: int((judgement.dropped_by == number).sum()) for number, rule in enumerate(judgement.rules)}
    kept = list(compress(job.pairs, judgement.kept.tolist()))
    hashes = folded_hashes(kept if job.clean.near_duplicates else [])
    return Verdict(judgement.kept, dropped, examples, hashes)
