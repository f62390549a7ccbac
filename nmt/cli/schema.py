"""`nmt schema`."""

from nmt.cli import terminal
from nmt.config.json_schema import to_text
from nmt.config.schema import Config
from nmt.files import text


@terminal.reporting()
def schema() -> None:
    """Print a JSON Schema of the settings, with which editors complete and check settings files.

    It has the type, range, default and meaning of each setting. For an editor with the YAML language server, such as VS
    Code, write this as the first line of a settings file: # yaml-language-server: $schema=nmt.schema.json

    Example: nmt schema > nmt.schema.json
    """
    text.result(to_text(Config))
