"""`nmt info`."""

import json
from typing import Annotated, Literal

import typer

from nmt.cli import options, terminal
from nmt.files.text import result


@terminal.reporting()
def info(
    model: options.ModelFile,
    format: Annotated[Literal["text", "json"], typer.Option(help="json: one object, for programs.")] = "text",
    device: options.UnusedDevice = None,
) -> None:
    """Describe a model: languages, sizes, training, scores, vocabulary, training text, licenses and export formats.

    The weights are not read, so the command is fast also for large models. Facts that the file does not state are left
    out; with --format json they are null.

    Example: nmt info runs/demo
    """
    from nmt.commands.info import describe

    facts, table = describe(model)
    result(json.dumps(facts, ensure_ascii=False, indent=2) if format == "json" else table)
