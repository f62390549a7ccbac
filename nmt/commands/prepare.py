"""`nmt prepare`: builds the vocabulary, prepares the data, and reports on it."""

from collections.abc import Sequence
from pathlib import Path

from nmt.checkpoints import run_folder
from nmt.commands import requirements
from nmt.commands.train import with_initial_model
from nmt.data import prepare as preparation
from nmt.data.cleaning.summary import DataSummary
from nmt.data.sources.corpus import files_of
from nmt.files import text
from nmt.files.outputs import check_output
from nmt.pages.prepare.page import page
from nmt.training.freezing import check_names


def prepare(config: Path, overrides: Sequence[str], report: Path | None) -> DataSummary:
    """Build what is missing, and return a summary of the data. report: a page about the data to write. Raises NmtError
    for wrong settings, and for data or files that cannot be read or written."""
    settings, vocabulary = run_folder.load_config(config, overrides), None
    if settings.training.start_from is not None:
        settings, start = with_initial_model(settings)
        vocabulary = start.vocabulary if start else None
    if settings.training.freeze:
        check_names(settings.model, settings.training.freeze)
    requirements.check_data(settings)
    if report is None:
        return preparation.prepare(settings, vocabulary).summary
    read = [config, *files_of(settings.data)]
    check_output(report, read, "--report")  # before the work
    prepared = preparation.prepare(settings, vocabulary)
    html = page(settings, prepared)
    with text.lines_out(report, read, "--report") as write:
        write(html)
    return prepared.summary
