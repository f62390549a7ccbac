"""`nmt schema`."""

from nmt.cli import terminal
from nmt.config.json_schema import to_text
from nmt.config.schema import Config
from nmt.files import text


@terminal.reporting()
def schema() -> None:
    """Print a JSON Schema of the settings, with which editors complete and check a settings file as it is written.

    It knows every setting with its type, range, default and meaning. In an editor with the YAML language server, such
    as VS Code, a settings file names it in its first line: # yaml-language-server: $schema=nmt.schema.json

    Example: nmt schema > nmt.schema.json
    """
    text.result(to_text(Config))
