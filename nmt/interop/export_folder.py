"""nmt's own files in an exported folder: settings and vocabulary. nmt can translate with them and the engine's
files."""

import json
from dataclasses import replace
from pathlib import Path

from nmt.config import schema
from nmt.config.schema import Config
from nmt.config.writer import to_yaml
from nmt.data.cleaning.source_text import SourceText
from nmt.data.subwords import vocabulary
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.errors import NmtError

SETTINGS = "nmt.yaml"
SOURCE_TEXT = "source_text.json"  # facts about the training text; only if they are known
SOURCE, TARGET = "source.spm", "target.spm"  # the names that MarianTokenizer looks for


def write(folder: Path, settings: Config, vocabulary_: Vocabulary, source_text: SourceText | None = None) -> None:
    """Write the settings, both SentencePiece models, and the known facts about the training text."""
    if source_text is not None:
        (folder / SOURCE_TEXT).write_text(json.dumps(source_text.to_json()) + "\n", encoding="ascii")
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


def load_source_text(folder: Path) -> SourceText | None:
    """The known facts about the training text; None if there are none. Raises NmtError if their file is damaged."""
    path = folder / SOURCE_TEXT
    try:
        source_text = SourceText.from_json(json.loads(path.read_text(encoding="ascii")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise NmtError(f"{path}: cannot be read: {error}: export it again") from None
    if source_text is None:
        raise NmtError(f"{path}: damaged: export it again")
    return source_text


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
