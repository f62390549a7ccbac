"""`nmt init`."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import terminal
from nmt.cli.options import to_path
from nmt.files import text


@terminal.reporting()
def init(
    config: Annotated[Path, typer.Argument(parser=to_path, metavar="CONFIG", help="The YAML file to write.")],
    source_language: Annotated[str, typer.Option(help="Language to translate from.")] = "en",
    target_language: Annotated[str, typer.Option(help="Language to translate into.")] = "de",
    train: Annotated[
        tuple[Path, Path] | None,
        typer.Option(parser=to_path, metavar="SOURCE TARGET", help="Training text, a sentence per line, two files."),
    ] = None,
    validation: Annotated[
        tuple[Path, Path] | None,
        typer.Option(parser=to_path, metavar="SOURCE TARGET", help="Validation text, two files."),
    ] = None,
) -> None:
    """Write a settings file to start from, with comments. An existing file is not overwritten.

    Example: nmt init my.yaml --source-language en --target-language de --train train.en train.de
    """
    from nmt.commands import init as writing

    writing.init(config, source_language, target_language, train, validation)
    text.result(config)
