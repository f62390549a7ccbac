"""Opens the queue of a service: of a model, or of an endpoint."""

from collections.abc import Sequence
from pathlib import Path

from nmt.config.language_pairs import LanguagePairs
from nmt.loading.command_models import load_translator, log_chosen_files
from nmt.loading.opened_model import open_model
from nmt.serve.batching import BatchingQueue, RequestQueue
from nmt.serve.endpoint_queue import EndpointQueue
from nmt.teachers.endpoint import is_endpoint


def open_queue(
    path: Path, device: str, overrides: Sequence[str], max_waiting: int
) -> tuple[RequestQueue, LanguagePairs]:
    """The queue of a model, or of the file of an endpoint, and its languages. Raises NmtError as opening them does."""
    if is_endpoint(path):
        from nmt.teachers.opened_endpoint import OpenedEndpoint  # its HTTP client may be missing

        endpoint = OpenedEndpoint.open(path)
        endpoint.log()
        queue = EndpointQueue(endpoint.teacher(overrides), endpoint.endpoint, max_waiting)
        return queue, endpoint.languages
    opened = open_model(path)
    log_chosen_files(opened)
    return BatchingQueue(load_translator(opened, device, overrides), max_waiting), opened.languages
