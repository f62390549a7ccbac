"""A config file to start from, with comments. It is written from the declarations, so it cannot drift from them."""

import logging
import shlex
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
# A run that fits a corpus: this many passes over it, as in configs/multi30k.yaml, and not fewer steps than a small
# model needs to learn anything.
_PASSES, _FEWEST_STEPS = 40, 2000
_SMALL_BATCH = 4096  # padded tokens; so that a small corpus has enough steps in a pass
_SMALL_CORPUS = 3_000_000  # subwords; up to this, the preset is `small` if none is given
_MOST_OF_SMALL = 20_000  # steps with the preset `small`: some hours on two cores
_PEAK = 0.0005  # of the learning rate: below the paper's 0.0007, as the warmup is shorter
_CAREFUL: dict[str, object] = {  # further training of a model that has learned something: see docs/fine-tuning.md
    "training.schedule": "constant",
    "training.learning_rate": 0.0001,
    "training.warmup_steps": 200,
    "training.validate_every": 200,
    "training.checkpoint_every": 200,
}
_BYTES = 4  # of text for a subword, about
# Beside the config, so that both can be moved and shared: a path is from the config's folder.
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
    """Write a config file, and log what to do next. train, validation: files of source and target text; start_from: a
    model file or a run folder, whose settings the file gets; preset: other settings to start from, and for `demo` also
    its corpus, which is written to data/demo. None: `small` if the training text is small, else `base`. slurm: also
    write train.slurm, a job script, beside the file.
    A language that is None is the one that the name of the training text ends in, such as `train.fr` or `train.fr.gz`;
    without one, it is that of the model, or that of the example in the documentation. It is written as the model does.

    Raises NmtError where there is such a file already, or it cannot be written, or the model cannot be read.
    """
    job = config.parent / _SLURM
    for path in (config, job) if slurm else (config,):
        if path.exists():
            raise NmtError(f"{path}: exists already and is not overwritten: {_REMEDY[path == job]}")
        check_folder(path, path.parent, "CONFIG")
    if preset == "demo":
        train, validation = ((_DEMO / f"{name}.en", _DEMO / f"{name}.de") for name in ("train", "validation"))
    start = None if start_from is None else model_file.load_header(model_file.locate(start_from))[0]
    languages = _languages(source_language, target_language, train, start)
    given = {"run_dir": f"runs/{config.stem}", **_data(languages, train, validation)}
    if not str(config).isprintable():
        raise NmtError(f"{str(config)!r}: choose a name of printable characters")
    origin, fitting = _origin_and_settings(preset, train)
    if start is not None:
        origin = "Settings of the model that it starts from, with a low learning rate."
        if tags := start.data.language_pairs.tags_for_one:
            given["data.language_tags"] = tags
        fitting = (_fitting(train) if train else {}) | _CAREFUL
        fitting |= {"training.start_from": str(start_from), **_of_model(start)}
    text = _text(str(config), origin, given, fitting)
    schema.parse(text, "init")  # a language or a name of a file that a config cannot have
    if preset == "demo":
        demo_corpus.write(_DEMO)
        log.info("demo corpus: %s pairs, written to %s", f"{sum(demo_corpus.SIZES.values()):,}", _DEMO)
    _write_new(config, text)
    _write_schema(config.with_name(_SCHEMA))
    if slurm:
        _write_new(job, resources.files("nmt.commands").joinpath(_SLURM).read_text(encoding="utf-8"))
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
    """Those given, or those of the text, or of the model `start`; written as the model does."""
    endings = map(language_of_file, train) if train else (None, None)
    examples = ("en", "de") if start is None else start.data.language_pairs.pairs[0]
    known = ([], []) if start is None else (start.data.language_pairs.sources, start.data.language_pairs.targets)
    given_or_found = zip((source, target), endings, examples, known, strict=True)
    codes = (
        ((ending or example) if code is None else code, of_side) for code, ending, example, of_side in given_or_found
    )
    return [matching(code, of_side) or code for code, of_side in codes]


def _data(
    languages: list[str], train: tuple[Path, Path] | None, validation: tuple[Path, Path] | None
) -> dict[str, object]:
    """The settings of the text; files that are not given have names to be replaced."""
    source_language, target_language = languages
    source, target = train or (f"train.{language}" for language in languages)
    validation_source, validation_target = validation or (f"validation.{language}" for language in languages)
    return {
        "data.source_language": source_language,
        "data.target_language": target_language,
        "data.train": [{"source": str(source), "target": str(target)}],
        "data.validation": {"source": str(validation_source), "target": str(validation_target)},
    }


_REMEDY = {False: "choose another name", True: "move it away, or leave out --slurm"}


def _write_new(path: Path, text: str) -> None:
    with atomic.reporting(path, "CONFIG"):
        try:
            atomic.write_new_text(path, text)
        except FileExistsError:
            raise NmtError(f"{path}: exists already and is not overwritten: choose another name") from None


def _origin_and_settings(preset: PresetName | None, train: tuple[Path, Path] | None) -> tuple[str, dict[str, object]]:
    """Where the settings come from, in a sentence, and those that are not the defaults."""
    subwords = _size(train) if train and preset != "demo" else None
    reason = ""
    if preset is None:
        preset = "small" if subwords is not None and subwords < _SMALL_CORPUS else "base"
        about = "is not there yet" if subwords is None else f"has about {round(subwords, -3) or subwords:,} subwords"
        reason = f", because the training text {about}" if train else ""
    settings = dict(PRESETS[preset].settings)
    if subwords is not None and preset == "small":
        steps = min(_fitting_steps(subwords, _SMALL_BATCH), _MOST_OF_SMALL)
        settings |= {"training.max_steps": steps, "training.warmup_steps": min(1000, fitting_warmup(steps))}
    elif subwords is not None and train:
        settings |= _fitting(train)
    others = ", ".join(name for name in PRESETS if name != preset)
    return f"Preset {preset}{reason}: {PRESETS[preset].about}. Others: {others}.", settings


def _write_schema(path: Path) -> None:
    """The schema for editors. One that is there already stays, as it may be of another version that the user wants."""
    text = json_schema.to_text(Config) + "\n"
    with atomic.reporting(path, "CONFIG"):
        try:
            atomic.write_new_text(path, text)
        except FileExistsError:
            if path.read_bytes() != text.encode():
                log.info("%s is not that of this version: nmt schema writes the new one", path)
        else:
            log.info("%s: with it, editors complete and check the config", path)


def _of_model(start: Config) -> dict[str, object]:
    """The settings that a run needs so that its model is of the same kind as another one, and searches as it does,
    where they are not the defaults."""
    sections = {"model": start.model, "decoding": start.decoding}
    changed = {name: to_dict(section, defaults=False) for name, section in sections.items()}
    if start.vocabulary.shared != VocabularyConfig().shared:
        changed["vocabulary"] = {"shared": start.vocabulary.shared}
    return {f"{section}.{name}": value for section, values in changed.items() for name, value in values.items()}


def _fitting(train: tuple[Path, Path]) -> dict[str, object]:
    """Settings of training for the size of a corpus, where the defaults, for millions of pairs, do not fit; nothing if
    its files cannot be read yet."""
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
    """About how many subwords the longer side has, as far as that matters; None if a file cannot be read yet."""
    default = TrainingConfig()
    most = default.max_steps * default.batch_tokens // _PASSES  # as many fit the defaults
    if not all(path.is_file() for path in train):
        return None
    try:
        return max(_subwords(path, most) for path in train)
    except (NmtError, OSError):
        return None


def _subwords(path: Path, most: int) -> int:
    """About how many a text has, at most `most`: the rest is not read."""
    size = 0
    for line in read_lines(path):
        size += len(line.encode())
        if size >= most * _BYTES:
            break
    return size // _BYTES


def _text(name: str, origin: str, given: dict[str, object], fitting: dict[str, object]) -> str:
    """The file `name`: the settings `given`, by dotted path, then common ones: those that are `fitting`, and others in
    comments with their defaults."""
    known = all_settings(Config)
    common = {f"{section}.{key}": None for section, keys in _COMMON.items() for key in keys.split()}
    rest = {path: known[path].default for path in common} | fitting
    in_order = sorted(rest, key=lambda path: list(_COMMON).index(path.partition(".")[0]))
    lines, begun = [_HEAD.format(name=shlex.quote(name), schema=_SCHEMA, origin=origin)], ""
    for path, value in (given | {path: rest[path] for path in in_order}).items():
        if path == in_order[0]:
            lines += ["", _REST]
        section, _, key = path.rpartition(".")
        if section != begun:
            lines += ["", f"{section}:"]
            begun = section
        setting = f"{section and '  '}{'' if path in given | fitting else '# '}{key}: {in_one_line(value)}"
        lines.append(f"{setting:<34}  # {known[path].meaning}")
    return "\n".join(lines) + "\n"
