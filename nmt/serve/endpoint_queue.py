"""The queue between requests and an endpoint, in place of a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt.decoding.translation import Translation
from nmt.errors import NmtError
from nmt.serve.batching import BatchOptions, EndpointFailed, NBest, Offer, RequestQueue
from nmt.teachers.endpoint import Endpoint

if TYPE_CHECKING:
    from nmt.teachers.teacher import Teacher

_BYTES = 4  # of UTF-8 for a subword, about
_SUBWORDS = 25  # of a line, about
_MOST_SAMPLES = 8
_LINE_BREAKS = str.maketrans("\r\n", "  ")


class EndpointQueue(RequestQueue):
    """A queue of requests to an endpoint. About as many lines are sent together as it gets requests at once.

    There are samples if the temperature is above 0; no scores and no alignments. The subwords of a line are estimated.
    """

    close_seconds = 1.0  # the endpoint may not answer for minutes

    def __init__(self, teacher: "Teacher", endpoint: Endpoint, max_waiting: int):
        self.teacher, self.endpoint = teacher, endpoint
        self.offer = Offer(_MOST_SAMPLES if endpoint.temperature else 1, aligns=False, has_scores=False, keep=())
        super().__init__(max_waiting)

    def close(self) -> None:
        """As `RequestQueue.close`. Logs once what was used."""
        if not self._closed:
            super().close()
            self.teacher.log_counts()

    def _lengths(self, lines: list[str], options: BatchOptions) -> list[int]:
        if options.n_best > (most := self.offer.n_best):
            name = f"the samples of an endpoint with temperature {self.endpoint.temperature:g}"
            raise NmtError(f"n_best: {options.n_best} is more than {name}, {most}")
        if options.alignment:
            raise NmtError("alignment: an endpoint has none: leave it out")
        return [len(line.encode()) // _BYTES + 1 for line in lines]

    def _answer_bytes(self, lengths: Sequence[int], options: BatchOptions) -> int:
        return 0  # unknown

    def _room(self) -> int:
        return _SUBWORDS * self.endpoint.requests

    def _translations(self, lines: list[str], options: BatchOptions) -> NBest:
        try:
            candidates = self.teacher.candidates([line.translate(_LINE_BREAKS) for line in lines], options.n_best)
        except NmtError as error:
            raise EndpointFailed(str(error)) from None
        return [[Translation(text, 0.0, 0.0, [], []) for text in samples] for samples in candidates]
