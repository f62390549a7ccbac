"""How a sentence was translated and how training went: `nmt inspect` and `nmt report`."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import options, terminal
from nmt.errors import NmtError
from nmt.files.outputs import check_output
from nmt.files.text import lines_out, result


@terminal.reporting()
def inspect(
    model: options.ModelOrRun,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One sentence to translate.")],
    overrides: options.DecodingOverrides = None,
    to: options.To = None,
    from_: options.From = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Look at this translation instead of the model's own.")
    ] = None,
    output: Annotated[Path | None, options.file("Folder for a page and the numbers.", metavar="FOLDER")] = None,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    device: options.Device = "auto",
) -> None:
    """Look at how a sentence is translated: attention, word alignment, and the hypotheses of the beam.

    Prints the translation, the word alignment and what the search found. With --output FOLDER it also writes
    FOLDER/index.html, to open in a browser (all heads, all layers, the whole beam, positions), and the numbers in
    FOLDER/inspection.json.

    Example: nmt inspect runs/demo 'Three hundred and forty-two.' --output inside
    """
    from nmt.loading.models import ModelsOfCommand
    from nmt.pages.inspect import output_folder
    from nmt.pages.inspect import text as printing
    from nmt.pages.inspect.inspect import Inspector

    if target is not None and not target.strip():
        raise NmtError("--target is empty, as an unset shell variable is: give a translation, or leave the option out")
    if output is not None:
        output_folder.check(output)
    for what, given in (("TEXT", text), ("--target", target or "")):
        try:
            given.encode()
        except UnicodeEncodeError:
            raise NmtError(f"{what}: not UTF-8: give text in UTF-8") from None
    with lines_out(None) as write:
        ModelsOfCommand.open(model, (), to, from_).log()
        inspector = Inspector.load(model, device, options.decoding_overrides(overrides, beam_size, length_penalty))
        seen = inspector.inspect(text, target, to=to, from_=from_)
        write(printing.to_text(seen))
    if output is not None:
        output_folder.write(seen, output)


@terminal.reporting()
def report(
    runs: Annotated[list[Path], options.path_argument("RUN", "Run folders, finished or still training.")],
    output: Annotated[
        Path | None,
        typer.Option(parser=options.file_or_dash, metavar="FILE", help="The HTML file to write; -: standard output."),
    ] = Path("report.html"),
    device: options.UnusedDevice = None,
) -> None:
    """Write one HTML file that shows how runs went and compares them. Open it in a browser.

    Learning curves, scores, translations over time, settings, data, hardware. The file contains everything it needs
    and loads nothing from the network.

    Example: nmt report runs/demo runs/deeper --output report.html
    """
    from nmt.checkpoints import model_file
    from nmt.pages.report.page import page
    from nmt.pages.report.run import files_of, gather

    runs = [model_file.run_folder(run) for run in runs]
    read = files_of(runs)
    if output is not None:
        check_output(output, read)
    html = page(gather(runs))
    with lines_out(output, read) as write:
        write(html)
    if output is not None:
        result(output)
