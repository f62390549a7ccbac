"""`nmt inspect`: shows how a sentence is translated, as text and as a folder with a page."""

from collections.abc import Sequence
from pathlib import Path

from nmt.errors import NmtError
from nmt.files.text import lines_out
from nmt.loading.command_models import ModelsOfCommand
from nmt.pages.inspect import output_folder
from nmt.pages.inspect import text as printing
from nmt.pages.inspect.inspect import Inspector


def inspect(
    model: Path,
    text: str,
    target: str | None,
    output: Path | None,
    overrides: Sequence[str],
    device: str,
    to: str | None,
    from_: str | None,
) -> None:
    """Print the inspection, and write it to the folder `output`. Raises NmtError for a model or text that cannot be
    read, and for a folder that cannot be written."""
    if output is not None:
        output_folder.check(output)
    for argument, value in (("TEXT", text), ("--target", target or "")):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NmtError(f"{argument}: not UTF-8: give text in UTF-8") from None
    with lines_out(None) as write:
        ModelsOfCommand.open(model, (), to, from_).log()
        inspection = Inspector.load(model, device, overrides).inspect(text, target, to=to, from_=from_)
        write(printing.to_text(inspection))
    if output is not None:
        output_folder.write(inspection, output)
