"""`nmt import`."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import options, terminal
from nmt.files import text as texts


@terminal.reporting()
def import_(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Folder or name of a model on the Hugging Face hub, or Marian's .npz."),
    ],
    output: Annotated[Path, options.file("The model file to write.")],
    languages: Annotated[
        str | None,
        typer.Option(
            metavar="CODES",
            help="Codes of its languages, the source first, such as en,de. For a model of many languages (M2M-100, "
            "SMaLL-100, NLLB), the languages to keep.",
        ),
    ] = None,
    text: Annotated[
        list[Path] | None,
        options.file(
            "For a model of many languages: text in the languages to keep; keep only its subwords; repeatable."
        ),
    ] = None,
    normalize_punctuation: Annotated[
        bool,
        typer.Option("--normalize-punctuation", help="Normalize punctuation as Moses does, as in OPUS-MT's training."),
    ] = False,
    device: options.UnusedDevice = None,
) -> None:
    """Import a pretrained model as a model file: OPUS-MT (Marian), M2M-100, SMaLL-100 or NLLB.

    nmt and, if it is installed, transformers translate up to 50 lines, and the number of equal translations is printed.
    Train the model further with training.start_from.

    Example: nmt import Helsinki-NLP/opus-mt-en-de --output opus-en-de.safetensors
    """
    from nmt.commands import imports

    codes = [code.strip() for code in languages.split(",")] if languages else []
    compared = imports.import_model(source, output, codes, text or (), normalize_punctuation=normalize_punctuation)
    if compared is not None:
        texts.result(compared)
    texts.result(output)
