"""The queue between requests and an endpoint, in place of a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt.decoding.translation import Translation
from nmt.errors import NmtError
from nmt.serve.batching import BatchOptions, EndpointFailed, NBest, Offer, RequestQueue

if TYPE_CHECKING:
    from nmt.teachers.teacher import Teacher

_BYTES = 4  # of UTF-8 for a token, about
_TOKENS = 25  # of a line, about
_MOST_SAMPLES = 8
_LINE_BREAKS = str.maketrans("\r\n", "  ")


class EndpointQueue(RequestQueue):
    """A queue of requests to an endpoint. About as many lines are sent together as it takes requests at once.

    The subwords of lines are estimated. There are samples if the temperature is above 0, and no scores and alignments.
    """

    close_seconds = 1.0  # an endpoint may not answer for minutes

    def __init__(self, teacher: "Teacher", at_once: int, max_waiting: int):
        """at_once: the most requests that the endpoint gets at once. Raises NmtError for settings of the teacher that
        do not go together."""
        teacher.check_samples(1)
        try:
            teacher.check_samples(_MOST_SAMPLES)
            n_best = _MOST_SAMPLES
        except NmtError:  # all samples would be equal
            n_best = 1
        self.teacher, self._at_once = teacher, at_once
        self.offer = Offer(n_best, aligns=False, has_scores=False, keep=())
        super().__init__(max_waiting)

    def close(self) -> None:
        """As `RequestQueue.close`. Logs once what the endpoint has used."""
        if not self._closed:
            super().close()
            self.teacher.log_counts()

    def _lengths(self, lines: list[str], options: BatchOptions) -> list[int]:
        if options.n_best > self.offer.n_best:
            most = f"n_best: {options.n_best} is more than {self.offer.n_best}"
            raise NmtError(most if self.offer.n_best > 1 else f"{most}: the endpoint has temperature 0, so no samples")
        if options.alignment:
            raise NmtError("alignment: an endpoint has none: leave it out")
        return [len(line.encode()) // _BYTES + 1 for line in lines]

    def _answer_bytes(self, lengths: Sequence[int], options: BatchOptions) -> int:
        return 0  # unknown

    def _room(self) -> int:
        return _TOKENS * self._at_once

    def _translations(self, lines: list[str], options: BatchOptions) -> NBest:
        try:
            candidates = self.teacher.candidates([line.translate(_LINE_BREAKS) for line in lines], options.n_best)
        except NmtError as error:
            raise EndpointFailed(str(error)) from None
        return [[Translation(text, 0.0, 0.0, [], []) for text in samples] for samples in candidates]
