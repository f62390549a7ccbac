"""`nmt export`."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import options, terminal
from nmt.commands.export.formats import Name
from nmt.errors import NmtError
from nmt.files import text


@terminal.reporting()
def export(
    model: options.ModelOrRun,
    format: Annotated[Name, typer.Option(help="marian: Hugging Face MarianMTModel.")],
    output: Annotated[Path, options.file("The folder to write; it must be new or empty.", metavar="FOLDER")],
    quantization: Annotated[str | None, typer.Option(help="With ctranslate2: float32, float16, int8, ….")] = None,
    sample: Annotated[Path | None, options.file("Text to compare the export on, a sentence per line.")] = None,
    device: options.UnusedDevice = "auto",
) -> None:
    """Write a folder that CTranslate2 or Hugging Face transformers loads, and compare it with the model.

    The comparison is printed, with each line that differs. A float32 folder whose translations differ is not kept.
    The other commands accept a CTranslate2 folder in place of a model file.

    Example: nmt export runs/demo --format ctranslate2 --quantization int8 --output demo-int8
    """
    from nmt.commands.export import export as exporting

    lines = list(text.read_lines(sample)) if sample else None
    compared, kept = exporting.export(model, format, output, quantization, lines)
    text.result(compared)
    if not kept:
        raise NmtError(f"{output}: not kept: its translations differ from the model's")
    text.result(output)
