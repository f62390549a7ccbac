"""A commented settings file to start from, written from the declarations, so that it cannot drift from them."""

import shlex
from collections.abc import Mapping

from nmt.config import located_yaml
from nmt.config.declaration import all_settings, settings
from nmt.config.reader import in_one_line
from nmt.config.schema import Config

# The settings that are changed most often.
_COMMON = (
    "vocabulary.size",
    "vocabulary.shared",
    "model.d_model",
    "model.feed_forward",
    "model.layers",
    "model.heads",
    "model.dropout",
    "training.batch_tokens",
    "training.micro_batch_tokens",
    "training.max_steps",
    "training.schedule",
    "training.learning_rate",
    "training.warmup_steps",
    "training.label_smoothing",
    "training.precision",
    "training.validate_every",
    "training.checkpoint_every",
    "training.patience",
    "decoding.beam_size",
    "decoding.length_penalty",
)
_COMMENT_COLUMN = 34


def template(name: str, given: Mapping[str, object]) -> str:
    """The text of a settings file called `name`: the settings `given`, by dotted path, then common ones in comments."""
    known = all_settings(Config)
    command = f"nmt train {shlex.quote(name)}"
    lines = [
        f"# Settings of a training run. After changing them, run: {command}",
        "# Relative paths start from the folder in which the command runs.",
        "# To change a setting that is commented out, delete its #. All settings: configs/README.md.",
        "",
        "# --- Set these first.",
    ]
    for section, own in settings(Config).items():
        paths = [path for path in (*given, *_COMMON) if path == section or path.startswith(f"{section}.")]
        if not paths:
            continue
        if own.is_section:
            if paths[0] not in given and f"{_HEADING}" not in lines:
                lines += ["", _HEADING]
            lines += ["", f"{section}:"]
        for path in paths:
            written = in_one_line(known[path].default) if path not in given else _in_one_line(given[path])
            indent = "  " * path.count(".")
            mark = "" if path in given else "# "
            setting = f"{indent}{mark}{path.rpartition('.')[2]}: {written}"
            lines.append(f"{setting:<{_COMMENT_COLUMN}}  # {known[path].meaning}")
    return "\n".join(lines) + "\n"


_HEADING = "# --- The rest has defaults, which are shown. Common settings:"


def _in_one_line(value: object) -> str:
    return located_yaml.dump(value, in_one_line=True)
