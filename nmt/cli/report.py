"""`nmt report`."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import terminal
from nmt.cli.options import UnusedDevice, file_or_dash, to_path


@terminal.reporting()
def report(
    runs: Annotated[list[Path], typer.Argument(parser=to_path, metavar="RUN", help="Run folders, in training or not.")],
    output: Annotated[
        Path | None,
        typer.Option(parser=file_or_dash, metavar="FILE", help="The HTML file to write; -: standard output."),
    ] = Path("report.html"),
    device: UnusedDevice = "auto",
) -> None:
    """Write one HTML file that shows how runs went and compares them. Open it in a browser.

    Learning curves, scores, translations over time, settings, data, hardware. The file contains everything it needs
    and loads nothing from the network.

    Example: nmt report runs/demo runs/deeper --output report.html
    """
    from nmt.checkpoints import model_file
    from nmt.commands.report.page import page
    from nmt.commands.report.run import files_of, gather
    from nmt.files import text
    from nmt.files.outputs import check_output

    runs = [model_file.run_folder(run) for run in runs]
    read = files_of(runs)
    if output is not None:
        check_output(output, read)
    html = page(gather(runs))
    with text.lines_out(output, read) as write:
        write(html)
    if output is not None:
        text.result(output)
