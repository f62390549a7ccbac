"""`nmt schema`."""

from nmt.cli import terminal
from nmt.config.json_schema import to_text
from nmt.config.schema import Config
from nmt.files import text


@terminal.reporting()
def schema() -> None:
    """Print a JSON Schema of the settings. Editors use it to complete and check config files.

    It has the type, range, default and meaning of each setting. Editors with the YAML language server, such as VS Code,
    find it by the first line of the config, which nmt init writes: # yaml-language-server: $schema=nmt.schema.json

    Example: nmt schema > nmt.schema.json
    """
    text.result(to_text(Config))
