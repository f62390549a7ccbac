"""Safetensors files written whole or not at all, and read only when they are what was written."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from nmt.errors import NmtError, no_such_file
from nmt.files import atomic

_CHECKSUM = "crc32"


def write(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and metadata to a file that appears whole or not at all, in a folder that is made if it is missing.

    A checksum of both goes into the metadata. Raises NmtError when the disk refuses; the file that was at `path` is
    then still there.
    """
    ours = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    with atomic.reporting(path, "folder"):
        atomic.make_folder(path.parent)
        with atomic.replacing(path) as content:
            try:
                save_file(ours, content, {**metadata, _CHECKSUM: _checksum(ours, metadata)})
            except SafetensorError as error:
                raise NmtError(
                    f"{path}: cannot be written: {error}: free some space, or choose another folder"
                ) from None


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and metadata of a file. Raises NmtError if it is missing, cut short, foreign or damaged."""
    metadata = read_metadata(path)
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, error) from None
    if metadata.pop(_CHECKSUM, None) != _checksum(tensors, metadata):
        raise NmtError(f"{path}: damaged: its contents do not match its checksum: use another copy or checkpoint")
    return tensors, metadata


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata alone, unchecked, without reading the tensors. Raises NmtError if it can't be read."""
    try:
        if path.is_dir():
            raise NmtError(f"{path}: a folder, not a file")
        if not path.exists():
            raise no_such_file(path)
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> NmtError:
    return NmtError(f"{path}: not a whole safetensors file ({error}): it is cut short, damaged or of another kind")


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    checksum = zlib.crc32(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        checksum = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), checksum)
        if tensor.numel():
            checksum = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, checksum)
    return f"{checksum:08x}"
