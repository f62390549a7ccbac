"""Opens the queue of a service: of a model, or of an endpoint in place of it."""

from collections.abc import Sequence
from pathlib import Path

from nmt.config.language_pairs import LanguagePairs
from nmt.decoding.translation import Translation
from nmt.errors import NmtError
from nmt.loading.command_models import load_translator, log_chosen_files
from nmt.loading.opened_model import open_model
from nmt.serve.batching import BatchingQueue, BatchOptions, EndpointFailed, NBest, Offer, RequestQueue
from nmt.serve.glossaries import GlossaryFile
from nmt.teachers.endpoint import Endpoint, NotAnswering, is_endpoint
from nmt.teachers.opened_endpoint import OpenedEndpoint
from nmt.teachers.teacher import Teacher

_BYTES = 4  # of UTF-8 for a subword, about
_SUBWORDS = 25  # of a line, about
_MOST_SAMPLES = 8
_PATIENCE = 20.0  # seconds without any answer, after which waiting clients get an error
_LINE_BREAKS = str.maketrans("\r\n", "  ")


class EndpointQueue(RequestQueue):
    """A queue of requests to an endpoint. About as many lines are sent together as it gets requests at once.

    There are samples if the temperature is above 0; no scores and no alignments. The subwords of a line are estimated.
    """

    close_seconds = 1.0  # the endpoint may not answer for minutes

    def __init__(self, teacher: Teacher, endpoint: Endpoint, max_waiting: int, glossary: GlossaryFile | None = None):
        self.teacher, self.endpoint = teacher, endpoint
        most = _MOST_SAMPLES if endpoint.temperature else 1
        self.offer = Offer(most, aligns=False, has_scores=False, keep=(), uses_terms=False)
        super().__init__(max_waiting, glossary)

    def close(self) -> None:
        """As `RequestQueue.close`. Logs once what was used."""
        if not self._closed:
            super().close()
            self.teacher.log_counts()

    def _lengths(self, lines: list[str], options: BatchOptions) -> list[int]:
        if options.n_best > (most := self.offer.n_best):
            problem = f"is more than {most}, the most of an endpoint with temperature {self.endpoint.temperature:g}"
            raise NmtError(f"n_best: {options.n_best} {problem}")
        if options.alignment:
            raise NmtError("alignment: an endpoint has none: leave it out")
        return [len(line.encode()) // _BYTES + 1 for line in lines]

    def _room(self) -> int:
        return _SUBWORDS * self.endpoint.requests

    def _translations(self, lines: list[str], options: BatchOptions) -> NBest:
        try:
            candidates = self.teacher.candidates([line.translate(_LINE_BREAKS) for line in lines], options.n_best)
        except NmtError as error:
            raise EndpointFailed(str(error), isinstance(error, NotAnswering)) from None
        return [[Translation(text, 0.0, 0.0, [], []) for text in samples] for samples in candidates]


def open_queue(
    path: Path, device: str, overrides: Sequence[str], max_waiting: int, glossary: Path | None = None
) -> tuple[RequestQueue, LanguagePairs]:
    """The queue of a model, or of the file of an endpoint, and its languages. glossary: a file of terms. Raises
    NmtError as opening them does."""
    if is_endpoint(path):
        endpoint = OpenedEndpoint.open(path, patience=_PATIENCE)
        file = None if glossary is None else GlossaryFile(glossary, endpoint.languages)
        endpoint.log()
        queue = EndpointQueue(endpoint.teacher(overrides), endpoint.endpoint, max_waiting, file)
        return queue, endpoint.languages
    opened = open_model(path)
    file = None if glossary is None else GlossaryFile(glossary, opened.languages)
    log_chosen_files(opened)
    return BatchingQueue(load_translator(opened, device, overrides), max_waiting, file), opened.languages
