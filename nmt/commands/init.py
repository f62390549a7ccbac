"""Writes a config file with comments to start from. It is made from the declarations, so it always agrees with them."""

import logging
import shlex
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from nmt.checkpoints import model_file
from nmt.commands import demo_corpus
from nmt.config import json_schema, schema
from nmt.config.declaration import all_settings
from nmt.config.language_codes import language_of_file, matching
from nmt.config.presets import PRESETS, PresetName
from nmt.config.schema import Config, TrainingConfig, VocabularyConfig
from nmt.config.writer import in_one_line, to_dict
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_folder
from nmt.files.text import read_lines
from nmt.training.schedule import fitting_warmup

log = logging.getLogger("nmt")

_COMMON = {  # the settings that are changed most often
    "vocabulary": "size shared",
    "model": "d_model feed_forward layers heads dropout",
    "training": "batch_tokens micro_batch_tokens max_steps schedule learning_rate warmup_steps label_smoothing "
    "precision validate_every checkpoint_every patience",
    "decoding": "beam_size length_penalty",
}
# The length of a run that fits a corpus: passes over the corpus, as in configs/multi30k.yaml, and the fewest steps that
# a small model needs to learn.
_PASSES, _FEWEST_STEPS = 40, 2000
_SMALL_BATCH = 4096  # tokens, so that a pass over a small corpus has enough steps
_SMALL_CORPUS = 3_000_000  # subwords; the default preset is `small` below this size
_MOST_SMALL_STEPS = 20_000  # with the preset `small`: some hours on two cores
_PEAK = 0.0005  # learning rate: below the paper's 0.0007, because the warmup is shorter
_CAREFUL: dict[str, object] = {  # for further training of a trained model: see docs/fine-tuning.md
    "training.schedule": "constant",
    "training.learning_rate": 0.0001,
    "training.warmup_steps": 200,
    "training.validate_every": 200,
    "training.checkpoint_every": 200,
}
_BYTES = 4  # of text in a subword, about
# In the same folder as the config, so that both can be moved together: its path is relative to that folder.
_SCHEMA = "nmt.schema.json"
_HEAD = """\
# yaml-language-server: $schema={schema}
# Settings of a training run. After changing them, run: nmt train {name}
# {origin}
# Relative paths start from the folder in which the command runs.
# To change a setting that is commented out, delete its #. All settings: nmt settings

# --- Set these first."""
_REST = "# --- The rest: what was chosen for this run and, in comments, common settings with their defaults."
_DEMO = Path("data/demo")
_SLURM = "train.slurm"


def init(
    config: Path,
    source_language: str | None,
    target_language: str | None,
    train: tuple[Path, Path] | None,
    validation: tuple[Path, Path] | None,
    start_from: Path | None = None,
    preset: PresetName | None = None,
    slurm: bool = False,
) -> None:
    """Write a config file, and log what to do next.

    source_language, target_language: None for the ending of the training text, such as `train.fr` or `train.fr.gz`;
    without that, for the language of the model, or of the example in the documentation. The model's code of the
    language is written. train, validation: files of source and target text. start_from: a model file or a run folder,
    whose settings are used. preset: other settings to start from; `demo` also writes its corpus to data/demo; None is
    `small` if the training text is small, else `base`. slurm: also write the job script train.slurm.

    Raises NmtError if a file exists already or cannot be written, or if the model cannot be read.
    """
    job = config.parent / _SLURM
    check_new(config, "choose another name")
    if slurm:
        check_new(job, "move it away, or leave out --slurm")
    if preset == "demo":
        train = _DEMO / "train.en", _DEMO / "train.de"
        validation = _DEMO / "validation.en", _DEMO / "validation.de"
    start = None if start_from is None else model_file.load_header(model_file.locate(start_from))[0]
    languages = _languages(source_language, target_language, train, start)
    settings = {"run_dir": f"runs/{config.stem}", **_data(languages, train, validation)}
    origin, chosen = _origin_and_settings(preset, train)
    if start is not None:
        origin = "Settings of the model that it starts from, with a low learning rate."
        if tags := start.data.language_pairs.tags_for_one:
            settings["data.language_tags"] = tags
        chosen = (_fitting(train) if train else {}) | _CAREFUL
        chosen |= {"training.start_from": str(start_from), **_model_settings(start)}
    text = _text(str(config), origin, settings, chosen)
    schema.parse(text, "init")  # raises NmtError for a language or a file name that a config cannot have
    if preset == "demo":
        demo_corpus.write(_DEMO)
        log.info("demo corpus: %s pairs, written to %s", f"{sum(demo_corpus.SIZES.values()):,}", _DEMO)
    write_new(config, text)
    _write_schema(config.with_name(_SCHEMA))
    if slurm:
        write_new(job, resources.files("nmt.commands").joinpath(_SLURM).read_text(encoding="utf-8"))
        log.info("job script: adapt the numbers at its top, then run: sbatch %s", shlex.join([str(job), str(config)]))
    if start is None:
        log.info("%s", origin)
    log.info(
        "next: check the settings at the top of %s (languages: %s to %s), then run: nmt train %s",
        config,
        *languages,
        shlex.quote(str(config)),
    )


def _languages(
    source: str | None, target: str | None, train: tuple[Path, Path] | None, start: Config | None
) -> list[str]:
    """The codes of the source and the target: those of the options, of the text, or of the model `start`, in the
    model's form."""
    defaults, model_codes = ["en", "de"], list[Sequence[str]]()
    if start is not None:
        pairs = start.data.language_pairs
        defaults, model_codes = list(pairs.pairs[0]), [pairs.sources, pairs.targets]
    if train is not None:
        defaults = [language_of_file(path) or default for path, default in zip(train, defaults, strict=True)]
    codes = [default if code is None else code for code, default in zip((source, target), defaults, strict=True)]
    if start is None:
        return codes
    return [matching(code, codes_of_side) or code for code, codes_of_side in zip(codes, model_codes, strict=True)]


def _data(
    languages: list[str], train: tuple[Path, Path] | None, validation: tuple[Path, Path] | None
) -> dict[str, object]:
    """The settings of the data. Files that are None get names for the user to replace."""
    source_language, target_language = languages
    source, target = train or (f"train.{language}" for language in languages)
    validation_source, validation_target = validation or (f"validation.{language}" for language in languages)
    return {
        "data.source_language": source_language,
        "data.target_language": target_language,
        "data.train": [{"source": str(source), "target": str(target)}],
        "data.validation": {"source": str(validation_source), "target": str(validation_target)},
    }


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


def _origin_and_settings(preset: PresetName | None, train: tuple[Path, Path] | None) -> tuple[str, dict[str, object]]:
    """A sentence about the origin of the settings, and the settings that differ from the defaults."""
    subwords = _size(train) if train and preset != "demo" else None
    reason = ""
    if preset is None:
        preset = "small" if subwords is not None and subwords < _SMALL_CORPUS else "base"
        about = "does not exist yet" if subwords is None else f"has about {round(subwords, -3) or subwords:,} subwords"
        reason = f", because the training text {about}" if train else ""
    settings = dict(PRESETS[preset].settings)
    if subwords is not None and preset == "small":
        steps = min(_fitting_steps(subwords, _SMALL_BATCH), _MOST_SMALL_STEPS)
        settings |= {"training.max_steps": steps, "training.warmup_steps": min(1000, fitting_warmup(steps))}
    elif subwords is not None and train:
        settings |= _fitting(train)
    others = ", ".join(name for name in PRESETS if name != preset)
    return f"Preset {preset}{reason}: {PRESETS[preset].about}. Others: {others}.", settings


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


def _model_settings(start: Config) -> dict[str, object]:
    """The settings of a run that give it the same kind of model and the same search as another model, if they are not
    the defaults."""
    sections = {"model": start.model, "decoding": start.decoding}
    changed = {name: to_dict(section, defaults=False) for name, section in sections.items()}
    if start.vocabulary.shared != VocabularyConfig().shared:
        changed["vocabulary"] = {"shared": start.vocabulary.shared}
    settings = dict[str, object]()
    for section, values in changed.items():
        settings |= {f"{section}.{name}": value for name, value in values.items()}
    return settings


def _fitting(train: tuple[Path, Path]) -> dict[str, object]:
    """Settings of training for a small corpus; empty if the defaults, which are for millions of pairs, fit, or if its
    files cannot be read yet."""
    default, subwords = TrainingConfig(), _size(train)
    if subwords is None:
        return {}
    batch = _SMALL_BATCH if subwords < _SMALL_CORPUS else default.batch_tokens
    steps = _fitting_steps(subwords, batch)
    if steps >= default.max_steps:
        return {}
    settings: dict[str, object] = {"max_steps": steps}
    if batch != default.batch_tokens:
        settings["batch_tokens"] = batch
    if (warmup := fitting_warmup(steps)) < default.warmup_steps:
        settings |= {"schedule": "cosine", "learning_rate": _PEAK, "warmup_steps": warmup}
    return {f"training.{key}": value for key, value in settings.items()}


def _fitting_steps(subwords: int, batch: int) -> int:
    return max(_FEWEST_STEPS, 100 * round(_PASSES * subwords / batch / 100))


def _size(train: tuple[Path, Path]) -> int | None:
    """The approximate number of subwords of the longer side, up to the size for which the defaults fit; None if a file
    cannot be read yet."""
    default = TrainingConfig()
    most = default.max_steps * default.batch_tokens // _PASSES  # the defaults fit more than this
    if not all(path.is_file() for path in train):
        return None
    try:
        return max(_subwords(path, most) for path in train)
    except (NmtError, OSError):
        return None


def _subwords(path: Path, most: int) -> int:
    """The approximate number of subwords in a text. It is read only up to `most` subwords."""
    size = 0
    for line in read_lines(path):
        size += len(line.encode())
        if size >= most * _BYTES:
            break
    return size // _BYTES


def _text(name: str, origin: str, settings: dict[str, object], chosen: dict[str, object]) -> str:
    """The text of the file `name`: first `settings`, by dotted path, then the `chosen` settings and other common ones,
    which are in comments with their defaults."""
    declared = all_settings(Config)
    other_settings = dict[str, object]()
    for section, keys in _COMMON.items():
        paths = [f"{section}.{key}" for key in keys.split()]
        other_settings |= {path: declared[path].default for path in paths}
    other_settings |= chosen
    in_order = sorted(other_settings, key=lambda path: list(_COMMON).index(path.partition(".")[0]))
    lines, current_section = [_HEAD.format(name=shlex.quote(name), schema=_SCHEMA, origin=origin)], ""
    for path, value in (settings | {path: other_settings[path] for path in in_order}).items():
        if path == in_order[0]:
            lines += ["", _REST]
        section, _, key = path.rpartition(".")
        if section != current_section:
            lines += ["", f"{section}:"]
            current_section = section
        indented = f"{section and '  '}{'' if path in settings | chosen else '# '}{key}"
        lines.append(setting_line(indented, value, declared[path].meaning))
    return "\n".join(lines) + "\n"


def setting_line(key: str, value: object, meaning: str) -> str:
    """A setting with its meaning. key: with what stands before it, such as `# ` if the setting is commented out."""
    setting = f"{key}: {in_one_line(value)}"
    return f"{setting:<34}  # {meaning}"
