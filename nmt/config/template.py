"""Writes config files with comments, from the declarations of the settings."""

from collections.abc import Mapping, Sequence

from nmt.config.declaration import all_settings
from nmt.config.schema import Config
from nmt.config.writer import in_one_line

_COMMON = {  # the settings that are changed most often
    "data": "license",
    "vocabulary": "size shared",
    "model": "d_model feed_forward layers heads dropout",
    "training": "batch_tokens micro_batch_tokens max_steps schedule learning_rate warmup_steps label_smoothing "
    "precision validate_every checkpoint_every patience",
    "decoding": "beam_size length_penalty",
}
_REST = "# --- The rest: what was chosen for this run and, in comments, common settings with their defaults."


def config_text(
    head: Sequence[str], first: Mapping[str, object], chosen: Mapping[str, object], remarks: Mapping[str, str]
) -> str:
    """The text of a config file.

    head: its first lines; first, chosen: settings by dotted path, those that the user should check and the others;
    remarks: comments to put before settings, by dotted path. Other common settings are in comments with their defaults.
    """
    declared = all_settings(Config)
    other_settings = dict[str, object]()
    for section, keys in _COMMON.items():
        paths = [f"{section}.{key}" for key in keys.split()]
        other_settings |= {path: declared[path].default for path in paths}
    other_settings |= chosen
    in_order = sorted(other_settings, key=lambda path: list(_COMMON).index(path.partition(".")[0]))
    lines, current_section = list(head), ""
    for path, value in (dict(first) | {path: other_settings[path] for path in in_order}).items():
        section, _, key = path.rpartition(".")
        if section != current_section:
            rest = ["", _REST] if current_section == "data" else []  # the last section of `first`
            lines += [*rest, "", f"{section}:"]
            current_section = section
        indent = "  " if section else ""
        lines += [f"{indent}# {remarks[path]}"] if path in remarks else []
        key = f"{indent}{'' if path in first or path in chosen else '# '}{key}"
        if isinstance(value, list):  # of corpora
            lines.append(f"{key + ':':<34}  # {declared[path].meaning}")
            lines += [f"{indent}  - {in_one_line(entry)}" for entry in value]
        else:
            lines.append(setting_line(key, value, declared[path].meaning))
    return "\n".join(lines) + "\n"


def setting_line(key: str, value: object, meaning: str) -> str:
    """A setting with its meaning. key: with what stands before it, such as `# ` if the setting is commented out."""
    setting = f"{key}: {in_one_line(value)}"
    return f"{setting:<34}  # {meaning}"
