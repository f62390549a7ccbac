"""nmt's own files in an exported folder: settings and vocabulary. nmt can translate with them and the engine's
files."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from nmt.config import schema
from nmt.config.schema import Config
from nmt.config.writer import to_yaml
from nmt.data.cleaning.source_text import SourceText
from nmt.data.subwords import vocabulary
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.decoding.confidence import Calibration
from nmt.errors import NmtError

T = TypeVar("T")
Known = tuple[SourceText | None, Calibration | None]

SETTINGS = "nmt.yaml"
SOURCE_TEXT = "source_text.json"  # facts about the training text; only if they are known
CALIBRATION = "calibration.json"  # for the confidence of translations; only if the model is calibrated
SOURCE, TARGET = "source.spm", "target.spm"  # the names that MarianTokenizer looks for


def write(folder: Path, settings: Config, vocabulary_: Vocabulary, known: Known = (None, None)) -> None:
    """Write the settings, both SentencePiece models, and what is known, as `load_known` returns it."""
    for name, fact in zip((SOURCE_TEXT, CALIBRATION), known, strict=True):
        if fact is not None:
            (folder / name).write_text(json.dumps(fact.to_json()) + "\n", encoding="ascii")
    (folder / SETTINGS).write_text(to_yaml(settings), encoding="utf-8")
    (folder / SOURCE).write_bytes(vocabulary_.source.proto)
    (folder / TARGET).write_bytes(vocabulary_.target.proto)


def is_ctranslate2(path: Path) -> bool:
    """Whether a path is a folder with a CTranslate2 model, written by nmt or by another program."""
    return path.is_dir() and (path / "model.bin").is_file()


def load_config(folder: Path) -> Config:
    """The settings in an exported folder. Raises NmtError if they are missing or damaged."""
    path = folder / SETTINGS
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NmtError(f"{path}: missing: {folder} was not written by `nmt export`: export the model again") from None
    except (OSError, UnicodeDecodeError) as error:
        raise NmtError(f"{path}: cannot be read: {error}: export it again") from None
    return schema.parse(text, str(path))


def load_known(folder: Path) -> Known:
    """The facts about the training text, and the calibration, where they are known. Raises NmtError if a file is
    damaged."""
    return _load(folder / SOURCE_TEXT, SourceText.from_json), _load(folder / CALIBRATION, Calibration.from_json)


def _load(path: Path, from_json: Callable[[object], T | None]) -> T | None:
    """What a file in JSON contains; None if it is missing. Raises NmtError if it is damaged."""
    try:
        content = from_json(json.loads(path.read_text(encoding="ascii")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise NmtError(f"{path}: cannot be read: {error}: export it again") from None
    if content is None:
        raise NmtError(f"{path}: damaged: export it again")
    return content


def load_vocabulary(folder: Path, settings: Config) -> Vocabulary:
    """The vocabulary in an exported folder with these settings. Raises NmtError if a side is missing or damaged."""
    source, target = vocabulary.load(folder / SOURCE), vocabulary.load(folder / TARGET)
    if source.proto == target.proto:
        return Vocabulary(source, source)
    return Vocabulary(source, target, same_subwords=settings.vocabulary.shared)


def longest_position(settings: Config) -> int:
    """The most positions of a sequence in an exported folder, EOS or BOS included: the model's limit. A model without a
    limit gets a table of sinusoids of this length, which is enough for the longest source, its language tokens, and the
    longest output for it."""
    if settings.model.longest_position is not None:
        return settings.model.longest_position
    ratio = max(1.0, settings.decoding.max_length_ratio)
    decoding = replace(settings.decoding, max_length_ratio=ratio, max_length=None)
    tags = max(map(settings.data.language_pairs.tag_count, (0, 1)))
    return decoding.longest_output(settings.longest_source) + 1 + tags
