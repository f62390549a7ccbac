"""`nmt export`."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import options, terminal
from nmt.errors import NmtError
from nmt.files import text
from nmt.interop.formats import Name


@terminal.reporting()
def export(
    model: options.ModelOrRun,
    format: Annotated[
        Name, typer.Option(help="marian: Hugging Face MarianMTModel; argos: LibreTranslate; bergamot: Firefox.")
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
    sample: Annotated[Path | None, options.file("Text to compare the export on, a sentence per line.")] = None,
    reference: Annotated[
        Path | None,
        options.file("With argos, bergamot: translations of --sample, to score on, not data.validation."),
    ] = None,
    sentence_splitter: Annotated[
        Path | None, options.file("With argos: a model of MiniSBD (.onnx) or a folder of Stanza, for the package.")
    ] = None,
    device: options.UnusedDevice = None,
) -> None:
    """Write what CTranslate2, Hugging Face transformers, LibreTranslate or Firefox load, and compare it with the model.

    The comparison is printed, with each line that differs; of 8-bit exports for LibreTranslate and Firefox also BLEU
    and chrF beside the model's. A float32 folder whose translations differ is not kept. Each export has a model card.
    The other commands accept a CTranslate2 folder in place of a model file.

    Example: nmt export runs/demo --format ctranslate2 --quantization int8 --output demo-int8
    """
    from nmt.commands import export as exporting

    lines, references = (list(text.read_lines(path)) if path else None for path in (sample, reference))
    compared, kept = exporting.export(model, format, output, quantization, lines, references, sentence_splitter)
    text.result(compared)
    if not kept:
        raise NmtError(f"{output}: not kept: its translations differ from the model's")
    text.result(output)
