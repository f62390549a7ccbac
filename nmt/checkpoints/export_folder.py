"""What an exported folder holds of ours beside the other engine's files: the settings and the vocabulary.

With them the folder translates by itself: text needs both SentencePiece models.
"""

from dataclasses import replace
from pathlib import Path

from nmt.config import schema
from nmt.config.reader import to_yaml
from nmt.config.schema import Config
from nmt.data import vocabulary
from nmt.data.vocabulary import Vocabulary
from nmt.errors import NmtError

SETTINGS = "nmt.yaml"
SOURCE, TARGET = "source.spm", "target.spm"  # the names that MarianTokenizer looks for
CTRANSLATE2_WEIGHTS = "model.bin"


def write(folder: Path, settings: Config, of: Vocabulary) -> None:
    """Write the settings and both SentencePiece models (the same bytes twice where they are shared)."""
    (folder / SETTINGS).write_text(to_yaml(settings), encoding="utf-8")
    (folder / SOURCE).write_bytes(of.source.proto)
    (folder / TARGET).write_bytes(of.target.proto)


def is_ctranslate2(path: Path) -> bool:
    """Whether a path is a folder with a CTranslate2 model, ours or another program's."""
    return (path / CTRANSLATE2_WEIGHTS).is_file()


def load_config(folder: Path) -> Config:
    """The settings in an exported folder. Raises NmtError where there are none, or they are damaged."""
    path = folder / SETTINGS
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NmtError(f"{path}: missing: {folder} is not a folder that `nmt export` wrote: export it again") from None
    except (OSError, UnicodeDecodeError) as error:
        raise NmtError(f"{path}: cannot be read: {error}: export it again") from None
    return schema.parse(text, str(path))


def load_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary in an exported folder. Raises NmtError where a side is missing or damaged."""
    source, target = vocabulary.load(folder / SOURCE), vocabulary.load(folder / TARGET)
    return Vocabulary(source, source if source.proto == target.proto else target)


def table_length(settings: Config) -> int:
    """The positions exported of a model whose own have no end: those of the longest source and of the longest
    output for it, EOS or BOS counted."""
    ratio = max(1.0, settings.decoding.max_length_ratio)
    decoding = replace(settings.decoding, max_length_ratio=ratio, max_length=None)
    return decoding.longest_output(settings.longest_source) + 1
