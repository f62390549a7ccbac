"""Reads the files of a model of another program: settings in JSON and YAML, weights. Nothing in them is executed.

Settings are small and weights are as large as their file says, so that no file can make this use more memory than it
has bytes.
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

_MOST_BYTES = 100 << 20  # of a file of settings, or of a vocabulary
_MOST_GROWTH = 20  # of compressed arrays: weights hardly become smaller
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_HUB_FILES = ["*.json", "*.spm", "*.model", "README.md"]
_SAFE, _PICKLED = "model.safetensors", "pytorch_model.bin"


def locate(source: str) -> Path:
    """A folder or a file; or the folder of a model on the Hugging Face hub, such as Helsinki-NLP/opus-mt-en-de, which
    is downloaded once. Raises NmtError if there is none."""
    path = to_path(source)
    if path.exists():
        return path
    if not _HUB_NAME.fullmatch(source):
        raise no_such_file(path)
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
        if not any(folder.glob("*.safetensors")):  # many models have both, and are downloaded once
            folder = Path(snapshot_download(source, allow_patterns=[*_HUB_FILES, f"{Path(_PICKLED).stem}*.bin"]))
        return folder
    except Exception as error:  # of many types: no network, no such model, one that needs a license to be accepted
        raise NmtError(
            f"{source}: no such file or folder, and it cannot be downloaded from the Hugging Face hub "
            f"({first_line(error)}): give a folder that has its files"
        ) from None


def read_bytes(path: Path) -> bytes:
    """A small file. Raises NmtError if it is missing or too large."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise NmtError(f"{path}: {path.stat().st_size:,} bytes, too many for such a file: use another copy")
        return path.read_bytes()
    except FileNotFoundError:
        raise NmtError(f"{path}: missing: give a folder that has all files of the model") from None
    except OSError as error:
        raise NmtError(f"{path}: cannot be read: {error.strerror}") from None


def read_text(path: Path) -> str:
    """A small text file. Raises NmtError if it is missing, too large or no text."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise NmtError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from None


def read_mapping(path: Path, *, optional: bool = False) -> dict[str, Any]:
    """A mapping in JSON or YAML, by the file's ending. optional: empty if there is no such file. Raises NmtError if it
    is missing or something else."""
    if optional and not path.exists():
        return {}
    return as_mapping(read_text(path), str(path), in_json=path.suffix == ".json")


def as_mapping(text: str, name: str, *, in_json: bool) -> dict[str, Any]:
    """The same of a text; name: of the file in messages."""
    try:
        value = json.loads(text) if in_json else yaml.load(text, Loader=yaml.CSafeLoader)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise NmtError(f"{name}: cannot be read: {first_line(error)}") from None
    if not isinstance(value, dict):
        raise NmtError(f"{name}: not a mapping of names to values")
    return value


def read_vocabulary(path: Path) -> dict[str, int]:
    """The ids of subwords, by their text. Raises NmtError unless they are 0, 1, 2 …, each once."""
    ids = {str(piece): number for piece, number in _read_ids(path).items()}
    if sorted(map(repr, ids.values())) != sorted(map(repr, range(len(ids)))):
        raise NmtError(f"{path}: its ids are not 0 to {len(ids) - 1:,}, each once: use another copy")
    return ids


def _read_ids(path: Path) -> dict[str, Any]:
    """In YAML, where `no`, `1` and `null` may be pieces too, everything is read as text."""
    if path.suffix == ".json":
        return read_mapping(path)
    try:
        ids = yaml.load(read_text(path), Loader=yaml.CBaseLoader)
        return {piece: int(number) for piece, number in ids.items()}
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise NmtError(f"{path}: not a mapping of pieces to numbers: {first_line(error)}") from None


class SourceSettings:
    """The settings of another program, each read with its type. path: of their file, in messages."""

    def __init__(self, path: str, values: Mapping[str, Any]):
        self.path, self.values = path, values

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number, at least 0. Raises NmtError if it is missing, or something else."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise NmtError(f"{self.path}: {key}: {shown(value)}: a whole number is expected")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Raises NmtError for anything but true and false."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise NmtError(f"{self.path}: {key}: {shown(value)}: true or false is expected")
        return value

    def choice(self, key: str, known: Mapping[str, str], default: str) -> str:
        """What the setting's value is called here. Raises NmtError, with the known values, for another one."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or value not in known:
            raise NmtError(f"{self.path}: {key}: {shown(value)}: cannot be imported: nmt has {', '.join(known)}")
        return known[value]

    def check(self, reason: str, expected: Mapping[str, Any]) -> None:
        """Raises NmtError, with the reason, unless these settings have these values or are left out."""
        for key, value in expected.items():
            if (given := self.values.get(key, value)) != value:
                raise NmtError(f"{self.path}: {key}: {shown(given)}: cannot be imported: {reason}")


def shown(value: object) -> str:
    """A value in a message."""
    plain = isinstance(value, str | int | float)
    text = "missing" if value is None else str(value) if plain else reprlib.repr(value)  # of a list only the beginning
    return text if len(text) <= 100 else f"{text[:100]}…"


def license_of(folder: Path) -> str | None:
    """The license in the first lines of a folder's README.md, as the hub has it; None if there is none."""
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
    """Those of a folder of the hub. Raises NmtError if there are none, or their file is damaged or holds code."""
    for name, read in ((_SAFE, _read_safetensors), (_PICKLED, _read_pickled)):
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return Weights(str(folder / name), read(folder / name))
        if index.is_file():
            files = read_mapping(index).get("weight_map")
            if not isinstance(files, dict) or not all(re.fullmatch(r"[\w.-]+", str(part)) for part in files.values()):
                raise NmtError(f"{index}: has no weight_map of names to files")
            parts = [read(folder / part) for part in sorted(set(files.values()))]
            return Weights(str(index), {key: tensor for part in parts for key, tensor in part.items()})
    raise NmtError(f"{folder}: has neither {_SAFE} nor {_PICKLED}: give a folder that has all files of the model")


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise NmtError(f"{path}: cannot be read: {first_line(error)}: use another copy") from None


def _read_pickled(path: Path) -> dict[str, Tensor]:
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of many types; PyTorch's message for code has several lines of advice to run it
        code = "Weights only" in str(error)
        reason = "it holds more than weights, which is not executed" if code else first_line(error)
        raise NmtError(f"{path}: cannot be read: {reason}: use another copy, best with {_SAFE}") from None
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise NmtError(f"{path}: not a mapping of names to weights: use another copy, best with {_SAFE}")
    return tensors


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, without objects. Raises NmtError if it is damaged or would need more memory than a
    file of its size can."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > _MOST_GROWTH * path.stat().st_size:
                raise NmtError(f"{path}: would grow to more than {_MOST_GROWTH} times its size: not read")
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
    """Raise NmtError, or ValueError, unless an entry has the bytes of its shape: numpy makes the array before it
    reads."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"{entry.filename[:100]} is of version {version}")
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise NmtError(f"{path}: {entry.filename[:100]} holds Python objects, which are not read: use another copy")
    if math.prod(shape) * dtype.itemsize != entry.file_size - file.tell():
        raise ValueError(f"{entry.filename[:100]} does not have the bytes of its shape {shape}")
