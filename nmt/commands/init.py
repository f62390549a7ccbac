"""Writes a config file with comments to start from. It is made from the declarations, so it always agrees with them."""

import logging
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from nmt.commands import demo_corpus
from nmt.commands.init_size import TextSize, size_of_text
from nmt.config import json_schema, schema
from nmt.config.corpus_files import Files
from nmt.config.data_template import data_template
from nmt.config.language_pairs import LanguagePair
from nmt.config.presets import PRESETS, PresetName
from nmt.config.schema import Config, VocabularyConfig
from nmt.config.template import config_text
from nmt.config.writer import to_dict
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_folder
from nmt.interop.exporter import Format
from nmt.training import run_length

log = logging.getLogger("nmt")

_CAREFUL: dict[str, object] = {  # for further training of a trained model: see docs/fine-tuning.md
    "training.schedule": "constant",
    "training.learning_rate": 0.0001,
    "training.warmup_steps": 200,
    "training.validate_every": 200,
    "training.checkpoint_every": 200,
    "training.patience": 5,
}
_FEWEST_PAIRS = 10_000  # to train from nothing
_TOO_FEW = (
    "%s pairs are too few to train from nothing: import a pretrained model with nmt import, and give it as "
    "--start-from (docs/low-resource.md)"
)
# In the same folder as the config, so that both can be moved together: its path is relative to that folder.
_SCHEMA = "nmt.schema.json"
_HEAD = """\
# yaml-language-server: $schema={schema}
# Settings of a training run. After changing them, run: nmt train {name}
# {origin}
# Relative paths start from the folder in which the command runs.
# To change a setting that is commented out, delete its #. All settings: nmt settings

# --- Set these first."""
_DEMO = Path("data/demo")
_SLURM = "train.slurm"


@dataclass(frozen=True)
class InitRequest:
    """What `nmt init` is asked for.

    source_language, target_language: None for those of the file names or of a TMX file; without them, those of the
    model, or of the example in the documentation. train, validation: corpora, or nothing for file names to replace.
    pairs: language pairs of the model, if there are several. start_from: a model file or a run folder, whose settings
    are used; corpora after the first are then old text that is mixed in. preset: other settings to start from; `demo`
    also writes its corpus to data/demo; None is `small` if the training text is small, else `base`. program: a format
    of `nmt export` that must be able to represent the model. slurm: also write the job script train.slurm.
    """

    config: Path
    source_language: str | None = None
    target_language: str | None = None
    train: Sequence[Files] = ()
    validation: Sequence[Files] = ()
    pairs: Sequence[LanguagePair] = ()
    start_from: Path | None = None
    preset: PresetName | None = None
    program: Format | None = None
    slurm: bool = False


def init(request: InitRequest) -> None:
    """Write a config file, and log what to do next.

    Raises NmtError if a file exists already or cannot be written, if the model or the languages of a file cannot be
    read, for files that cannot be corpora, and if the other program cannot represent the model.
    """
    config, job = request.config, request.config.parent / _SLURM
    check_new(config, "choose another name")
    if request.slurm:
        check_new(job, "move it away, or leave out --slurm")
    start = None if request.start_from is None else _model_settings(request.start_from, request.program)
    train, validation = request.train, request.validation
    if request.preset == "demo":
        train, validation = [[(_DEMO / f"{name}.en", _DEMO / f"{name}.de")] for name in ("train", "validation")]
    languages = request.source_language, request.target_language
    template = data_template(languages, train, validation, request.pairs, start)
    first = {"run_dir": f"runs/{config.stem}", **template.settings}
    data = _parsed(first, {}).data  # raises NmtError for a language or a file name that a config cannot have
    size = size_of_text(data, data.train[: template.new], config, run_length.longest_text()) if request.train else None
    if start is None:
        origin, chosen = _preset_settings(request, size)
    else:
        origin, chosen = _further_settings(request, start, size, has_old_text=template.new < len(data.train))
    if request.program is not None:
        chosen |= _supported_values(request.program, _parsed(first, chosen))
        origin += f" For nmt export --format {request.program}."
    head = _HEAD.format(name=shlex.quote(str(config)), schema=_SCHEMA, origin=origin)
    text = config_text(head.split("\n"), first, chosen, template.remarks)
    schema.parse(text, "init")
    if request.preset == "demo":
        demo_corpus.write(_DEMO)
        log.info("demo corpus: %s pairs, written to %s", f"{sum(demo_corpus.SIZES.values()):,}", _DEMO)
    write_new(config, text)
    _write_schema(config.with_name(_SCHEMA))
    if request.slurm:
        write_new(job, resources.files("nmt.commands").joinpath(_SLURM).read_text(encoding="utf-8"))
        log.info("job script: adapt the numbers at its top, then run: sbatch %s", shlex.join([str(job), str(config)]))
    if start is None:
        log.info("%s", origin)
        if size is not None and size.pairs < _FEWEST_PAIRS:
            log.warning(_TOO_FEW, f"{size.pairs:,}")
    listed, name = ", ".join(" to ".join(pair) for pair in data.language_pairs.pairs), shlex.quote(str(config))
    first_step = "check the settings" if train else "replace the file names"
    if train and not validation:
        first_step = "hold out validation text with nmt split, and name the new files"
    log.info("next: %s at the top of %s (languages: %s), then run: nmt train %s", first_step, config, listed, name)


def _model_settings(model: Path, program: Format | None) -> Config:
    """The settings of the model to start from. Raises NmtError if the other program cannot represent it."""
    from nmt.checkpoints import model_file  # loads torch
    from nmt.commands import export

    loaded = model_file.load_outline(model_file.locate(model))
    if program is not None and (reason := export.obstacle(program, loaded)):
        raise NmtError(f"--for {program}: {loaded.path} cannot be exported: {reason}")
    return loaded.config


def _parsed(first: dict[str, object], chosen: dict[str, object]) -> Config:
    return schema.parse(config_text([], first, chosen, {}), "init")


def check_new(path: Path, remedy: str) -> None:
    """Raises NmtError if a file exists already, if its name cannot stand in a comment, or its folder cannot be used."""
    if not str(path).isprintable():
        raise NmtError(f"{str(path)!r}: choose a name with printable characters only")
    if path.exists():
        raise NmtError(f"{path}: exists already and is not overwritten: {remedy}")
    check_folder(path, path.parent, "CONFIG")


def write_new(path: Path, text: str) -> None:
    """Write a file as a whole. Raises NmtError if it exists already or cannot be written."""
    with atomic.reporting(path, "CONFIG"):
        try:
            atomic.write_new_text(path, text)
        except FileExistsError:
            raise NmtError(f"{path}: exists already and is not overwritten: choose another name") from None


def _preset_settings(request: InitRequest, size: TextSize | None) -> tuple[str, dict[str, object]]:
    """A sentence about the preset, and its settings, which fit the size of the text."""
    preset, reason = request.preset, ""
    if preset is None:
        preset = "small" if size is not None and size.subwords < run_length.SMALL_TEXT else "base"
        about = "cannot be read yet"
        if size is not None:
            about = f"has about {round(size.subwords, -3) or size.subwords:,} subwords"
        reason = f", because the training text {about}" if request.train else ""
    settings = dict(PRESETS[preset].settings)
    if size is not None and preset == "small":
        settings |= run_length.of_small_preset(size.subwords)
    elif size is not None:
        settings |= run_length.of_large_preset(size.subwords, settings)
    others = ", ".join(name for name in PRESETS if name != preset)
    return f"Preset {preset}{reason}: {PRESETS[preset].about}. Others: {others}.", settings


def _further_settings(
    request: InitRequest, start: Config, size: TextSize | None, *, has_old_text: bool
) -> tuple[str, dict[str, object]]:
    """A sentence about the model to start from, and the settings for its further training: the same kind of model and
    the same search."""
    settings = dict(_CAREFUL)
    if size is not None:
        settings |= run_length.of_further_training(size.subwords * (2 if has_old_text else 1), settings)
    settings["training.start_from"] = str(request.start_from)
    for name, section in (("model", start.model), ("decoding", start.decoding)):
        settings |= {f"{name}.{key}": value for key, value in to_dict(section, defaults=False).items()}
    if start.vocabulary.shared != VocabularyConfig().shared:
        settings["vocabulary.shared"] = start.vocabulary.shared
    return "Settings of the model that it starts from, with a low learning rate.", settings


def _supported_values(program: Format, config: Config) -> dict[str, object]:
    """The settings of `model` that must change so that the program supports their values. Raises NmtError for other
    settings that it does not support."""
    from nmt.commands.export import EXPORTERS  # loads torch

    changed = dict[str, Any]()
    for key, supported in EXPORTERS[program].model_values.items():
        if getattr(config.model, key) not in supported:
            changed[key] = next(iter(supported))
    EXPORTERS[program].check(replace(config, model=replace(config.model, **changed)))
    return {f"model.{key}": value for key, value in changed.items()}


def _write_schema(path: Path) -> None:
    """Write the schema for editors. An existing file stays, because the user may want another version."""
    text = json_schema.to_text(Config) + "\n"
    with atomic.reporting(path, "CONFIG"):
        try:
            atomic.write_new_text(path, text)
        except FileExistsError:
            if path.read_bytes() != text.encode():
                log.info("%s is of another version of nmt: nmt schema writes the new one", path)
        else:
            log.info("%s: with it, editors complete and check the config", path)
