"""`nmt import`."""

import logging
import shlex
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import options, terminal
from nmt.files import text as texts

log = logging.getLogger("nmt")


@terminal.reporting()
def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="Folder of a model, its name on the Hugging Face hub, or Marian's .npz file."
        ),
    ],
    output: Annotated[Path, options.file("The model file to write.")],
    languages: Annotated[
        str | None,
        typer.Option(
            metavar="CODES",
            help="Languages of the model, the source first, such as en,de. For a model of many languages (M2M-100, "
            "SMaLL-100, NLLB): the languages to keep.",
        ),
    ] = None,
    text: Annotated[
        list[Path] | None,
        options.file("For a model of many languages: keep only the subwords that this text contains; repeatable."),
    ] = None,
    normalize_punctuation: Annotated[
        bool,
        typer.Option(
            "--normalize-punctuation", help="Normalize punctuation like Moses; OPUS-MT was trained on such text."
        ),
    ] = False,
    device: options.UnusedDevice = None,
) -> None:
    """Import a pretrained model as a model file: OPUS-MT (Marian), M2M-100, SMaLL-100 or NLLB.

    If transformers is installed, transformers and nmt both translate up to 50 lines, and the command prints how many
    translations are equal. To fine-tune the model, use nmt init --start-from.

    Example: nmt import Helsinki-NLP/opus-mt-en-de --output opus-en-de.safetensors
    """
    from nmt.commands import imports

    codes = [code.strip() for code in languages.split(",")] if languages else []
    compared = imports.import_model(source, output, codes, text or (), normalize_punctuation=normalize_punctuation)
    if compared is not None:
        texts.result(compared)
    log.info("next: nmt init my.yaml --start-from %s, or nmt translate %s FILE", *2 * [shlex.quote(str(output))])
    texts.result(output)
