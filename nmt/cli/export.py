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
            metavar="TYPE", help="With ctranslate2 (default float32) and argos (int8): float32, float16, int8, …."
        ),
    ] = None,
    sample: Annotated[
        Path | None, options.file("Text like that to translate, a sentence per line: it is compared.")
    ] = None,
    sentence_splitter: Annotated[
        Path | None, options.file("With argos: a model of MiniSBD (.onnx) or a folder of Stanza, for the package.")
    ] = None,
    device: options.UnusedDevice = None,
) -> None:
    """Write what CTranslate2, Hugging Face transformers, LibreTranslate or Firefox load, with a model card.

    Up to 50 lines are translated by the other program and by nmt, and it is printed how many are equal: those of
    --sample, or of the validation text. The other commands accept a CTranslate2 folder in place of a model file.

    Example: nmt export runs/demo --format ctranslate2 --quantization int8 --output demo-int8
    """
    from nmt.commands import export as exporting

    lines = list(text.read_lines(sample)) if sample else None
    compared = exporting.export(model, format, output, quantization, lines, sentence_splitter)
    if compared is not None:
        text.result(compared)
    text.result(output)
