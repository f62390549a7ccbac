"""`nmt inspect`."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import terminal
from nmt.cli.options import (
    BeamSize,
    DecodingOverrides,
    Device,
    LengthPenalty,
    ModelOrRun,
    decoding_overrides,
    file_option,
)
from nmt.errors import NmtError


@terminal.reporting()
def inspect(
    model: ModelOrRun,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One sentence to translate.")],
    overrides: DecodingOverrides = None,
    target: Annotated[str | None, typer.Option(help="Look at this translation instead of the model's own.")] = None,
    output: Annotated[
        Path | None, file_option("Folder for a page, pictures and all numbers.", metavar="FOLDER")
    ] = None,
    layer: Annotated[
        int | None, typer.Option(min=1, help="Layer whose heads are drawn. Default: the alignment layer.")
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Also write PNG files; needs matplotlib.")
    ] = True,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    device: Device = "auto",
) -> None:
    """Look at how a sentence is translated: attention, word alignment, and the hypotheses of the beam.

    Prints the translation, the word alignment and what the search found. With --output FOLDER it also writes
    FOLDER/index.html, to open in a browser (all heads, all layers, the whole beam, positions), heat maps as PNG
    files, and the numbers in FOLDER/inspection.json.

    Example: nmt inspect runs/demo 'Three hundred and forty-two.' --output inside
    """
    from nmt.commands import models
    from nmt.commands.inspect import output_folder
    from nmt.commands.inspect import text as printing
    from nmt.commands.inspect.inspect import Inspector
    from nmt.files.outputs import check_new_folder
    from nmt.files.text import lines_out

    if target is not None and not target.strip():
        raise NmtError("--target is empty, as an unset shell variable is: give a translation, or leave the option out")
    if layer is not None and (output is None or not pictures):
        raise typer.BadParameter("--layer chooses which heads are drawn: it needs --output, without --no-pictures")
    if output is not None:
        check_new_folder(output)
        output_folder.check_folder(output)
        if pictures:
            output_folder.check_pictures()
    for what, given in (("TEXT", text), ("--target", target or "")):
        try:
            given.encode()
        except UnicodeEncodeError:
            raise NmtError(f"{what}: not UTF-8: give text in UTF-8") from None
    with lines_out(None) as write:
        models.log_chosen_files(model)
        inspector = Inspector.load(model, device, decoding_overrides(overrides, beam_size, length_penalty))
        seen = inspector.inspect(text, target)
        write(printing.to_text(seen))
    if output is not None:
        output_folder.write(seen, output, None if layer is None else layer - 1, pictures=pictures)
