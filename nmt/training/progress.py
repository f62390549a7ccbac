"""How far a run is."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nmt.data.batches.batching import Step


@dataclass
class Progress:
    """How far a run is; with the weights, everything in which two states of a run can differ.

    step: optimizer steps done; epoch, step_in_epoch: the position in the data, both from 0; in the epoch in which a
    stage began, counted from its beginning. stage: its number in data.stages, from 0; stage_step, stage_time,
    stage_given: when it began, in steps and in the time of the mix, and the pairs that each corpus had given by then
    (none: the first stage); pool_end: when the pool of the last step ended, None within a pool. target_tokens: target
    subwords trained on, without padding; seconds: spent training, over all sessions. best, best_step, without_best: the
    best validation (higher is better, a loss negated), and how many validations came after it. at_start: with
    training.start_from, the scores of each validation set before the first step. pairs_of: pairs trained on, of each
    corpus. losses and interval_…: sums over the steps since the last row of metrics; interval_cells are padded tokens
    of both sides, interval_waiting seconds spent waiting for data. overflows: steps that float16 skipped.
    metrics_bytes, samples_bytes: the sizes of metrics.jsonl and samples.jsonl. micro_cells, ranks: the padded tokens
    that training.micro_batch_tokens: auto chose (0 without auto), and for how many ranks. interval_cells and
    micro_cells keep these names because they are in saved files.
    """

    step: int = 0
    epoch: int = 0
    step_in_epoch: int = 0
    stage: int = 0
    stage_step: int = 0
    stage_time: int = 0
    stage_given: list[int] = field(default_factory=list)
    pool_end: int | None = None
    target_tokens: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    without_best: int = 0
    at_start: dict[str, dict[str, float]] = field(default_factory=dict)
    losses: list[float] = field(default_factory=lambda: [0.0, 0.0])
    pairs_of: list[int] = field(default_factory=lambda: [0])
    interval_pairs_of: list[int] = field(default_factory=lambda: [0])
    interval_target_tokens_of: list[int] = field(default_factory=lambda: [0])
    interval_target_tokens: int = 0
    interval_source_tokens: int = 0
    interval_cells: int = 0
    interval_sentences: int = 0
    interval_seconds: float = 0.0
    interval_waiting: float = 0.0
    overflows: int = 0
    metrics_bytes: int = 0
    samples_bytes: int = 0
    micro_cells: int = 0
    ranks: int = 1

    @classmethod
    def of(cls, corpora: int) -> "Progress":
        """The start of a run on this number of corpora."""
        zeros = [0] * corpora
        return cls(
            losses=[0.0] * (1 + corpora), pairs_of=zeros, interval_pairs_of=zeros, interval_target_tokens_of=zeros
        )

    @property
    def epochs_begun(self) -> int:
        """The number of the epoch of the last step, from 1."""
        return self.epoch + (self.step_in_epoch > 0)

    def count(self, step: Step, *, updated: bool, seconds: float, waiting: float) -> None:
        """Add a step that was trained on; updated: float16 did not overflow, and its loss is among `losses`; waiting:
        seconds of it without data."""
        self.overflows += not updated
        self.seconds += seconds
        self.target_tokens += step.target_tokens
        self.pairs_of = _sums(self.pairs_of, step.pairs_of)
        self.interval_pairs_of = _sums(self.interval_pairs_of, step.pairs_of)
        self.interval_seconds += seconds
        self.interval_waiting += waiting
        if not updated:
            return
        self.interval_target_tokens_of = _sums(self.interval_target_tokens_of, step.target_tokens_of)
        self.interval_target_tokens += step.target_tokens
        self.interval_source_tokens += step.source_tokens
        self.interval_cells += step.padded_tokens
        self.interval_sentences += step.sentences

    def corpora(self, sizes: Sequence[int], nll: Sequence[float]) -> list[dict[str, float | None]]:
        """For each corpus: its share of the pairs of this interval, how many passes over it were made since the start,
        and -log p per target token (None if it gave no pairs). sizes: its pairs; nll: its sum of -log p."""
        total, rows = sum(self.interval_pairs_of), list[dict[str, float | None]]()
        for i, (size, value) in enumerate(zip(sizes, nll, strict=True)):
            tokens = self.interval_target_tokens_of[i]
            share, passes = self.interval_pairs_of[i] / total, self.pairs_of[i] / size if size else 0.0
            rows.append(
                {"share": round(share, 5), "passes": round(passes, 4), "nll": value / tokens if tokens else None}
            )
        return rows

    def start_interval(self) -> None:
        """Set the sums to zero: a row of metrics has been written."""
        self.losses = [0.0] * len(self.losses)
        self.interval_pairs_of = self.interval_target_tokens_of = [0] * len(self.pairs_of)
        self.interval_target_tokens = self.interval_source_tokens = self.interval_cells = self.interval_sentences = 0
        self.interval_seconds = self.interval_waiting = 0.0


def _sums(left: Sequence[int], right: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(left, right, strict=True)]
