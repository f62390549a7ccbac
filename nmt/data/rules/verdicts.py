"""What the rules say of a chunk of pairs: a job that other processes can do."""

import json
import zlib
from collections.abc import Sequence
from functools import cache
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.corpus import Pair, digest
from nmt.data.rules.examples import DropExamples
from nmt.data.rules.judge import judge, rules_of
from nmt.data.rules.near_duplicates import folded_hashes
from nmt.files.journal import Arrays

_rules = cache(rules_of)  # in each process, as they cannot be sent to another


class Job(NamedTuple):
    """A chunk of pairs and the rules for it."""

    pairs: Sequence[Pair]
    scores: npt.NDArray[np.float32] | None  # [pairs], for the rule on scores
    clean: schema.CleaningConfig
    languages: tuple[str, str]  # of source and target

    def digest(self) -> bytes:
        """A hash of the pairs and their scores."""
        return digest(self.pairs, b"" if self.scores is None else self.scores.tobytes())


class Verdict(NamedTuple):
    """What the rules say of a chunk."""

    job: bytes  # its hash
    kept: npt.NDArray[np.bool_]  # [pairs]
    dropped: dict[str, int]  # by each rule
    examples: DropExamples
    hashes: npt.NDArray[np.uint64]  # of the pairs kept, for finding near-duplicates

    def pack(self) -> Arrays:
        """As arrays for a journal."""
        text = json.dumps({"dropped": self.dropped, "examples": self.examples.to_json()})
        return {
            "job": np.frombuffer(self.job, np.uint8),
            "kept": self.kept,
            "hashes": self.hashes,
            "text": np.frombuffer(zlib.compress(text.encode()), np.uint8),
        }

    @classmethod
    def unpack(cls, arrays: Arrays) -> "Verdict":
        """What `pack` gave."""
        text = json.loads(zlib.decompress(arrays["text"].tobytes()))
        examples, job = DropExamples.from_json(text["examples"]), arrays["job"].tobytes()
        return cls(job, arrays["kept"], text["dropped"], examples, arrays["hashes"])


def verdict(job: Job) -> Verdict:
    """What the rules say."""
    judgement, examples = judge(job.pairs, _rules(job.clean, job.languages), job.scores), DropExamples()
    examples.add(job.pairs, judgement)
    dropped = {rule.name: int((judgement.dropped_by == number).sum()) for number, rule in enumerate(judgement.rules)}
    kept = list(compress(job.pairs, judgement.kept.tolist()))
    hashes = folded_hashes(kept if job.clean.near_duplicates else [])
    return Verdict(job.digest(), judgement.kept, dropped, examples, hashes)
