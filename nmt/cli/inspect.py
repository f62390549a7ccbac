"""`nmt inspect` and `nmt report`: how a sentence is translated, and how training went."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import options, terminal
from nmt.errors import NmtError
from nmt.files.text import result


@terminal.reporting()
def inspect(
    model: options.ModelOrRun,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One sentence to translate.")],
    overrides: options.DecodingOverrides = None,
    to: options.To = None,
    from_: options.From = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Inspect this translation instead of the model's own.")
    ] = None,
    output: Annotated[
        Path | None, options.file("Folder to write the page and the numbers to.", metavar="FOLDER")
    ] = None,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    device: options.Device = "auto",
) -> None:
    """Show how a sentence is translated: attention, word alignment and beam search.

    The command prints the translation, the word alignment and the hypotheses. With --output FOLDER, it also writes
    FOLDER/index.html, a page for a browser (all heads, all layers, the whole beam, positions), and the numbers in
    FOLDER/inspection.json.

    Example: nmt inspect runs/demo 'Three hundred and forty-two.' --output inside
    """
    if target is not None and not target.strip():
        raise NmtError(
            "--target is empty, perhaps from an unset shell variable: give a translation, or leave the option out"
        )

    from nmt.commands import inspect as inspecting

    overrides = options.decoding_overrides(overrides, beam_size, length_penalty)
    inspecting.inspect(model, text, target, output, overrides, device, to, from_)


@terminal.reporting()
def report(
    runs: Annotated[list[Path], options.path_argument("RUN", "Run folders, finished or still training.")],
    output: Annotated[
        Path | None,
        typer.Option(parser=options.file_or_dash, metavar="FILE", help="HTML file to write; -: standard output."),
    ] = Path("report.html"),
    device: options.UnusedDevice = None,
) -> None:
    """Write one HTML file that shows training runs and compares them. Open it in a browser.

    The page shows learning curves, scores, translations over time, settings, data and hardware. It loads nothing from
    the network.

    Example: nmt report runs/demo runs/deeper --output report.html
    """
    from nmt.commands import report as reporting

    reporting.report(runs, output)
    if output is not None:
        result(output)
