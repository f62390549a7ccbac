"""The progress of a run. Two states of one run differ only in their weights and their progress."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nmt.data.batches.batching import Step


@dataclass
class Position:
    """The position in the data."""

    epoch: int = 0  # from 0
    step_in_epoch: int = 0  # steps done in the epoch, or since a stage began in this epoch
    stage: int = 0  # its index in data.stages
    stage_step: int = 0  # optimizer steps done when the stage began
    stage_time: int = 0  # when the stage began, in the time of the mix
    stage_given: list[int] = field(default_factory=list)  # pairs of each corpus used before the stage; first stage: []
    pool_end: int | None = None  # when the pool of the last step ended, in the time of the mix; None within a pool

    @property
    def epochs_begun(self) -> int:
        """The number of the epoch of the last step, from 1."""
        return self.epoch + (self.step_in_epoch > 0)


@dataclass
class Best:
    """The best validation."""

    value: float | None = None  # of training.best_metric; higher is better, so a loss is negated
    step: int = 0
    validations_since: int = 0  # for training.patience; each stage starts at 0


@dataclass
class Interval:
    """Sums over the steps since the last row of metrics."""

    losses: list[float] = field(default_factory=lambda: [0.0, 0.0])  # the loss, then -log p of each corpus
    pair_counts: list[int] = field(default_factory=lambda: [0])  # pairs of each corpus
    target_token_counts: list[int] = field(default_factory=lambda: [0])  # of each corpus
    target_tokens: int = 0  # this and the following counts do not include steps that float16 skipped
    source_tokens: int = 0
    padded_tokens: int = 0  # tokens of both sides, padding included
    sentences: int = 0
    seconds: float = 0.0
    waiting: float = 0.0  # seconds of waiting for data

    @classmethod
    def for_corpora(cls, count: int) -> "Interval":
        """An empty interval of a run with this number of corpora."""
        return cls([0.0] * (1 + count), [0] * count, [0] * count)


@dataclass
class Progress:
    """The progress of a run."""

    step: int = 0  # optimizer steps done
    position: Position = field(default_factory=Position)
    best: Best = field(default_factory=Best)
    interval: Interval = field(default_factory=Interval)
    target_tokens: int = 0  # trained on, without padding
    seconds: float = 0.0  # of training, over all sessions
    pair_counts: list[int] = field(default_factory=lambda: [0])  # pairs of each corpus trained on
    overflows: int = 0  # steps that float16 skipped
    at_start: dict[str, dict[str, float]] = field(default_factory=dict)  # training.start_from: scores at step 0
    metrics_bytes: int = 0  # the size of metrics.jsonl
    samples_bytes: int = 0  # the size of samples.jsonl
    auto_micro_batch_tokens: int = 0  # the choice of training.micro_batch_tokens: auto; 0 without auto
    ranks: int = 1  # the number of ranks of this choice

    @classmethod
    def for_corpora(cls, count: int) -> "Progress":
        """The start of a run with this number of corpora."""
        return cls(interval=Interval.for_corpora(count), pair_counts=[0] * count)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Progress":
        """The reverse of `dataclasses.asdict`."""
        position, best, interval = Position(**saved["position"]), Best(**saved["best"]), Interval(**saved["interval"])
        return cls(**{**saved, "position": position, "best": best, "interval": interval})

    def count(self, step: Step, *, updated: bool, seconds: float, waiting: float) -> None:
        """Add a finished step; updated: whether the weights changed and `losses` include its loss, which is False after
        an overflow of float16; waiting: the part of `seconds` spent on waiting for data."""
        interval = self.interval
        self.overflows += not updated
        self.seconds += seconds
        self.target_tokens += step.target_tokens
        self.pair_counts = _sums(self.pair_counts, step.pair_counts)
        interval.pair_counts = _sums(interval.pair_counts, step.pair_counts)
        interval.seconds += seconds
        interval.waiting += waiting
        if not updated:
            return
        interval.target_token_counts = _sums(interval.target_token_counts, step.target_token_counts)
        interval.target_tokens += step.target_tokens
        interval.source_tokens += step.source_tokens
        interval.padded_tokens += step.padded_tokens
        interval.sentences += step.sentences

    def corpora(self, sizes: Sequence[int], nll: Sequence[float]) -> list[dict[str, float | None]]:
        """For each corpus: its share of the pairs in this interval, the number of passes over it since the start, and
        -log p per target token (None without pairs). sizes: pairs of each corpus; nll: sum of -log p of each."""
        total, rows = sum(self.interval.pair_counts), list[dict[str, float | None]]()
        for i, (size, value) in enumerate(zip(sizes, nll, strict=True)):
            tokens = self.interval.target_token_counts[i]
            share, passes = self.interval.pair_counts[i] / total, self.pair_counts[i] / size if size else 0.0
            rows.append(
                {"share": round(share, 5), "passes": round(passes, 4), "nll": value / tokens if tokens else None}
            )
        return rows


def _sums(counts: Sequence[int], others: Sequence[int]) -> list[int]:
    return [count + other for count, other in zip(counts, others, strict=True)]
