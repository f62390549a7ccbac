"""A settings file to start from."""

import logging
from pathlib import Path

from nmt.config import template
from nmt.errors import NmtError
from nmt.files import atomic

log = logging.getLogger("nmt")


def init(
    config: Path,
    source_language: str,
    target_language: str,
    train: tuple[Path, Path] | None,
    validation: tuple[Path, Path] | None,
) -> None:
    """Write a settings file, and log what to do next. train, validation: files of source and target text.

    Raises NmtError where there is such a file already, or it cannot be written.
    """
    languages = (source_language, target_language)
    texts = {
        "train": train or tuple(f"train.{language}" for language in languages),
        "validation": validation or tuple(f"validation.{language}" for language in languages),
    }
    corpora = {name: {"source": str(source), "target": str(target)} for name, (source, target) in texts.items()}
    given = {
        "run_dir": f"runs/{config.stem}",
        "data.source_language": source_language,
        "data.target_language": target_language,
        "data.train": [corpora["train"]],
        "data.validation": corpora["validation"],
    }
    with atomic.reporting(config, "CONFIG"):
        try:
            with config.open("x", encoding="utf-8") as file:
                file.write(template.template(str(config), given))
        except FileExistsError:
            raise NmtError(f"{config}: exists already and is not overwritten: choose another name") from None
    log.info("next: check the settings at the top of %s, then run: nmt train %s", config, config)
