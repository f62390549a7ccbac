"""`nmt report`: writes a page about runs."""

from collections.abc import Sequence
from pathlib import Path

from nmt.checkpoints import model_file
from nmt.files.outputs import check_output
from nmt.files.text import lines_out
from nmt.pages.report.page import page
from nmt.pages.report.run import files_of, gather


def report(runs: Sequence[Path], output: Path | None) -> None:
    """Write the page. output: None for standard output. Raises NmtError for a folder that is not a run, and for a file
    that cannot be written."""
    runs = [model_file.run_folder(run) for run in runs]
    read = files_of(runs)
    if output is not None:
        check_output(output, read)
    html = page(gather(runs))
    with lines_out(output, read) as write:
        write(html)
