"""`nmt settings`."""

import os
from typing import Annotated

import typer

from nmt.cli import terminal
from nmt.config import reference
from nmt.files import text


@terminal.reporting()
def settings(
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="A section, or a setting.")] = None,
) -> None:
    """Explain the settings of a config file: meaning, type, range, default, and what they affect.

    Without KEY, the command explains the format of a config file and all settings. KEY is a section, such as training,
    or a setting, such as training.max_steps or max_steps.

    Example: nmt settings training.max_steps
    """
    width = min(os.get_terminal_size(1).columns, 100) if os.isatty(1) else 80
    text.result(reference.text(key, width))
