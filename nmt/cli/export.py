"""`nmt export`."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import options, terminal
from nmt.files import text
from nmt.interop.exporter import Format


@terminal.reporting()
def export(
    model: options.ModelOrRun,
    format: Annotated[
        Format, typer.Option(help="marian: Hugging Face MarianMTModel; argos: LibreTranslate; bergamot: Firefox.")
    ],
    output: Annotated[
        Path, options.file("The folder to write, new or empty; with argos also NAME.argosmodel.", metavar="FOLDER")
    ],
    quantization: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="With ctranslate2 (default float32) and argos (default int8): type of the weights."
        ),
    ] = None,
    sample: Annotated[
        Path | None,
        options.file(
            "Text for the comparison, one sentence per line. With bergamot, also used to compute quantization scales."
        ),
    ] = None,
    sentence_splitter: Annotated[
        Path | None,
        options.file("With argos: a sentence splitter for the package, a MiniSBD model (.onnx) or a Stanza folder."),
    ] = None,
    device: options.UnusedDevice = None,
) -> None:
    """Export a model for CTranslate2, Hugging Face transformers, LibreTranslate or Firefox, with a model card.

    The other program and nmt both translate up to 50 lines of --sample or of the validation text. The command prints
    how many translations are equal. Other commands accept a CTranslate2 folder instead of a model file. nmt info says
    which formats a model supports.

    Example: nmt export runs/demo --format ctranslate2 --quantization int8 --output demo-int8
    """
    from nmt.commands import export as exporting

    lines = list(text.read_lines(sample)) if sample else None
    compared = exporting.export(model, format, output, quantization, lines, sentence_splitter)
    if compared is not None:
        text.result(compared)
    text.result(output)
