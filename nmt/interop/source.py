"""Reads the files of other programs' models: settings in JSON and YAML, and weights. No code in them is executed.

Files of settings must be small, and weights may not be larger than their file: no file can make nmt use much more
memory than its size.
"""

import json
import math
import re
import reprlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from nmt.errors import NmtError, first_line, no_such_file
from nmt.files.packages import install_command
from nmt.files.text import to_path
from nmt.interop.weights import Weights

_MOST_BYTES = 100 << 20  # of a file with settings or with a vocabulary
_MOST_GROWTH = 20  # of compressed arrays: weights can hardly be compressed
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_HUB_FILES = ["*.json", "*.spm", "*.model", "README.md"]
_SAFE, _PICKLED = "model.safetensors", "pytorch_model.bin"


def locate(source: str) -> Path:
    """The path of a folder or a file. The name of a model on the Hugging Face hub, such as Helsinki-NLP/opus-mt-en-de,
    gives the folder of a download, which is made once. Raises NmtError if there is no such model."""
    path = to_path(source)
    if path.exists():
        return path
    if not _HUB_NAME.fullmatch(source):
        raise NmtError(
            f"{source}: no such file or folder: give the folder of a model, Marian's .npz file, or a name on the "
            "Hugging Face hub, such as Helsinki-NLP/opus-mt-en-de"
        )
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils import logging as hub_log
    except ImportError as error:
        raise NmtError(
            f"{source}: no such file or folder, and downloading it from the Hugging Face hub needs the package "
            f"{error.name}: {install_command('hub')}"
        ) from None
    try:
        hub_log.set_verbosity_error()  # type: ignore[no-untyped-call]
        folder = Path(snapshot_download(source, allow_patterns=[*_HUB_FILES, "model*.safetensors"]))
        if not any(folder.glob("*.safetensors")):  # many models have both kinds of weights: download only one
            folder = Path(snapshot_download(source, allow_patterns=[*_HUB_FILES, f"{Path(_PICKLED).stem}*.bin"]))
        return folder
    except Exception as error:  # many types: no network, no such model, a license that must be accepted first
        raise NmtError(
            f"{source}: no such file or folder, and it cannot be downloaded from the Hugging Face hub "
            f"({first_line(error)}): give a folder with its files"
        ) from None


def read_bytes(path: Path) -> bytes:
    """The bytes of a small file. Raises NmtError if it is missing or too large."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise NmtError(f"{path}: {path.stat().st_size:,} bytes are too many for such a file: use another copy")
        return path.read_bytes()
    except FileNotFoundError:
        raise NmtError(f"{path}: missing: give a folder that has all files of the model") from None
    except OSError as error:
        raise NmtError(f"{path}: cannot be read: {error.strerror}") from None


def read_text(path: Path) -> str:
    """The text of a small file. Raises NmtError if it is missing, too large or not text."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise NmtError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from None


def read_mapping(path: Path, *, optional: bool = False) -> dict[str, Any]:
    """The mapping in a JSON or YAML file. optional: the result is empty if there is no such file. Raises NmtError if
    the file is missing or has another form."""
    if optional and not path.exists():
        return {}
    return as_mapping(read_text(path), str(path), in_json=path.suffix == ".json")


def as_mapping(text: str, name: str, *, in_json: bool) -> dict[str, Any]:
    """The mapping in a JSON or YAML text. name: the file's name in messages. Raises NmtError if the text has another
    form."""
    try:
        value = json.loads(text) if in_json else yaml.load(text, Loader=yaml.CSafeLoader)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise NmtError(f"{name}: cannot be read: {first_line(error)}") from None
    if not isinstance(value, dict):
        raise NmtError(f"{name}: not a mapping of names to values")
    return value


def read_vocabulary(path: Path) -> dict[str, int]:
    """The ids of subwords by their text. Raises NmtError unless the ids are 0, 1, 2 …, each once."""
    ids = {str(piece): i for piece, i in _read_ids(path).items()}
    if sorted(map(repr, ids.values())) != sorted(map(repr, range(len(ids)))):
        raise NmtError(f"{path}: its ids are not 0 to {len(ids) - 1:,}, each once: use another copy")
    return ids


def _read_ids(path: Path) -> dict[str, Any]:
    """The mapping in a file of ids. YAML is read as text only, because `no`, `1` and `null` can be subwords."""
    if path.suffix == ".json":
        return read_mapping(path)
    try:
        ids = yaml.load(read_text(path), Loader=yaml.CBaseLoader)
        return {piece: int(i) for piece, i in ids.items()}
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise NmtError(f"{path}: not a mapping of pieces to numbers: {first_line(error)}") from None


class SourceSettings:
    """The settings of another program, with methods that check their types. path: of their file, for messages."""

    def __init__(self, path: str, values: Mapping[str, Any]):
        self.path, self.values = path, values

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number, at least 0. Raises NmtError if it is missing or has another type."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise NmtError(f"{self.path}: {key}: {shown(value)}: a whole number is expected")
        return value

    def width_and_heads(self, width_key: str, heads_key: str) -> tuple[int, int]:
        """The width of the model and its number of heads. Raises NmtError if nmt has no such attention."""
        width, heads = self.number(width_key), self.number(heads_key)
        if heads == 0 or width % heads or width % 2:
            raise NmtError(f"{self.path}: {width_key}: {width}: must be even, and a multiple of {heads_key}: {heads}")
        return width, heads

    def flag(self, key: str, default: bool) -> bool:
        """True or false. Raises NmtError for other values."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise NmtError(f"{self.path}: {key}: {shown(value)}: true or false is expected")
        return value

    def choice(self, key: str, names: Mapping[str, str], default: str) -> str:
        """nmt's name of the setting's value. names: nmt's name of each value. Raises NmtError for other values."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or value not in names:
            raise NmtError(f"{self.path}: {key}: {shown(value)}: cannot be imported: nmt has {', '.join(names)}")
        return names[value]

    def check(self, reason: str, expected: Mapping[str, Any]) -> None:
        """Raises NmtError with the reason unless each setting has the expected value or is missing."""
        for key, value in expected.items():
            if (actual := self.values.get(key, value)) != value:
                raise NmtError(f"{self.path}: {key}: {shown(actual)}: cannot be imported: {reason}")


def shown(value: object) -> str:
    """The value as a message shows it."""
    plain = isinstance(value, str | int | float)
    text = "missing" if value is None else str(value) if plain else reprlib.repr(value)  # repr shortens lists
    return text if len(text) <= 100 else f"{text[:100]}…"


def license_of(folder: Path) -> str | None:
    """The license in the front matter of a folder's README.md, as on the hub; None if there is none."""
    path = folder / "README.md"
    if not path.is_file():
        return None
    try:
        parts = re.split(r"(?m)^---\s*$", read_text(path), maxsplit=2)
        if len(parts) < 3 or parts[0].strip():
            return None
        front = as_mapping(parts[1], str(path), in_json=False)
    except NmtError:
        return None
    return str(front["license"]) if isinstance(front.get("license"), str) else None


def read_weights(folder: Path) -> Weights:
    """The weights in a folder of the hub. Raises NmtError if there are none, or their file is damaged or has code."""
    for name, read in ((_SAFE, _read_safetensors), (_PICKLED, _read_pickled)):
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return Weights(str(folder / name), read(folder / name))
        if index.is_file():
            files = read_mapping(index).get("weight_map")
            if not isinstance(files, dict) or not all(re.fullmatch(r"[\w.-]+", str(part)) for part in files.values()):
                raise NmtError(f"{index}: has no weight_map of names to files")
            tensors = dict[str, Tensor]()
            for part in sorted(set(files.values())):
                tensors |= read(folder / part)
            return Weights(str(index), tensors)
    raise NmtError(f"{folder}: has neither {_SAFE} nor {_PICKLED}: give a folder that has all files of the model")


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise NmtError(f"{path}: cannot be read: {first_line(error)}: use another copy") from None


def _read_pickled(path: Path) -> dict[str, Tensor]:
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # many types; PyTorch's message for code has several lines of advice to run it
        code = "Weights only" in str(error)
        reason = "it has code, which is not executed" if code else first_line(error)
        raise NmtError(f"{path}: cannot be read: {reason}: use another copy, best with {_SAFE}") from None
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise NmtError(f"{path}: not a mapping of names to weights: use another copy, best with {_SAFE}")
    return tensors


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file. Raises NmtError if it is damaged, has Python objects, or would need much more memory
    than its size."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > _MOST_GROWTH * path.stat().st_size:
                raise NmtError(f"{path}: is more than {_MOST_GROWTH} times as large when uncompressed: not read")
            for entry in entries:
                with archive.open(entry) as file:
                    _check_header(path, entry, file)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise no_such_file(path) from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise NmtError(f"{path}: cannot be read as .npz: {first_line(error)}: use another copy") from None


def _check_header(path: Path, entry: zipfile.ZipInfo, file: Any) -> None:
    """Raise NmtError or ValueError unless the size of an entry matches its shape: NumPy allocates the array before it
    reads."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"{entry.filename[:100]} has the unknown version {version}")
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise NmtError(f"{path}: {entry.filename[:100]} holds Python objects, which are not read: use another copy")
    if math.prod(shape) * dtype.itemsize != entry.file_size - file.tell():
        raise ValueError(f"{entry.filename[:100]} does not have the size of its shape {shape}")
