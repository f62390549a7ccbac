"""A config file to start from, with comments. It is written from the declarations, so it cannot drift from them."""

import logging
import shlex
from pathlib import Path

from nmt.config import schema
from nmt.config.declaration import all_settings
from nmt.config.schema import Config
from nmt.config.writer import in_one_line
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_folder

log = logging.getLogger("nmt")

_COMMON = {  # the settings that are changed most often
    "vocabulary": "size shared",
    "model": "d_model feed_forward layers heads dropout",
    "training": "batch_tokens micro_batch_tokens max_steps schedule learning_rate warmup_steps label_smoothing "
    "precision validate_every checkpoint_every patience",
    "decoding": "beam_size length_penalty",
}
_HEAD = """\
# The defaults are the paper's base model, for GPUs. For small data, configs/demo.yaml or configs/multi30k.yaml are
# better starts.
# Settings of a training run. After changing them, run: nmt train {name}
# Relative paths start from the folder in which the command runs.
# To change a setting that is commented out, delete its #. All settings: configs/README.md.

# --- Set these first."""


def init(
    config: Path,
    source_language: str,
    target_language: str,
    train: tuple[Path, Path] | None,
    validation: tuple[Path, Path] | None,
) -> None:
    """Write a config file, and log what to do next. train, validation: files of source and target text.

    Raises NmtError where there is such a file already, or it cannot be written.
    """
    languages = (source_language, target_language)
    source, target = train or (f"train.{language}" for language in languages)
    validation_source, validation_target = validation or (f"validation.{language}" for language in languages)
    given: dict[str, object] = {
        "run_dir": f"runs/{config.stem}",
        "data.source_language": source_language,
        "data.target_language": target_language,
        "data.train": [{"source": str(source), "target": str(target)}],
        "data.validation": {"source": str(validation_source), "target": str(validation_target)},
    }
    if not str(config).isprintable():
        raise NmtError(f"{str(config)!r}: choose a name of printable characters")
    text = _text(str(config), given)
    schema.parse(text, "init")  # a language or a name of a file that a config cannot have
    if not config.exists():
        check_folder(config, config.parent, "CONFIG")
    with atomic.reporting(config, "CONFIG"):
        try:
            atomic.write_new_text(config, text)
        except FileExistsError:
            raise NmtError(f"{config}: exists already and is not overwritten: choose another name") from None
    log.info("next: check the settings at the top of %s, then run: nmt train %s", config, shlex.quote(str(config)))


def _text(name: str, given: dict[str, object]) -> str:
    """The file `name`: the settings `given`, by dotted path, then common ones in comments with their defaults."""
    known = all_settings(Config)
    common = [f"{section}.{key}" for section, keys in _COMMON.items() for key in keys.split()]
    lines, begun = [_HEAD.format(name=shlex.quote(name))], ""
    for path, value in (given | {path: known[path].default for path in common}).items():
        if path == common[0]:
            lines += ["", "# --- The rest has defaults, which are shown. Common settings:"]
        section, _, key = path.rpartition(".")
        if section != begun:
            lines += ["", f"{section}:"]
            begun = section
        setting = f"{section and '  '}{'' if path in given else '# '}{key}: {in_one_line(value)}"
        lines.append(f"{setting:<34}  # {known[path].meaning}")
    return "\n".join(lines) + "\n"
