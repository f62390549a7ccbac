"""Write and read safetensors files with a checksum."""

import json
import stat
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save_file
from torch import Tensor

from nmt.errors import NmtError, NotAModelFile, no_such_file
from nmt.files import atomic

_CHECKSUM = "crc32"


def write(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors, metadata and a checksum of both to a file, as `atomic.replacing` does; a missing folder is made.
    Raises NmtError if the file cannot be written."""
    on_cpu = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    with atomic.reporting(path, "folder"):
        atomic.make_folder(path.parent)
        with atomic.replacing(path) as content:
            try:
                save_file(on_cpu, content, {**metadata, _CHECKSUM: _checksum(on_cpu, metadata)})
            except SafetensorError as error:
                advice = "free some space, or choose another folder"
                raise NmtError(f"{path}: cannot be written: {error}: {advice}") from None


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and metadata of a file, in the order of their names. It is read once, so that a file that is renamed
    over it does not change the result. Raises NmtError if it is missing, damaged or of another kind."""
    read_metadata(path)  # refuses a file of another kind, which may be larger than the memory
    with _reporting(path):
        content = path.read_bytes()
        tensors = dict(sorted(load(content).items()))  # the library's order is another one each time
        header_end = 8 + int.from_bytes(content[:8], "little")
        metadata = dict[str, str](sorted((json.loads(content[8:header_end]).get("__metadata__") or {}).items()))
    if metadata.pop(_CHECKSUM, None) != _checksum(tensors, metadata):
        raise NmtError(f"{path}: damaged: its content does not match its checksum: use another copy or checkpoint")
    return tensors, metadata


def read_outline(path: Path, complete: Collection[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """As `read`, but only the tensors named in `complete` have their values. Of the others only the shapes are read:
    they are on the meta device, in float32. The checksum is not tested."""
    metadata = read_metadata(path)
    metadata.pop(_CHECKSUM, None)
    with _reporting(path), safe_open(path, "pt") as file:
        tensors = {}
        for name in sorted(file.keys()):
            shape = file.get_slice(name).get_shape()
            tensors[name] = file.get_tensor(name) if name in complete else torch.empty(shape, device="meta")
    return tensors, metadata


def read_metadata(path: Path) -> dict[str, str]:
    """Only the metadata. The tensors are not read, and the checksum is not tested. Raises NmtError as `read` does."""
    with _reporting(path):
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind):
            raise NmtError(f"{path}: {'a folder' if stat.S_ISDIR(kind) else 'a device or a pipe'}, not a file")
        with safe_open(path, "pt") as file:
            return dict(file.metadata() or {})


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    """Turn exceptions of the library and the system in reading a file into NmtErrors."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise no_such_file(path) from None
    except OSError as error:
        raise NmtError(f"{path}: cannot be read: {error.strerror or error}") from None
    except MemoryError:
        raise NmtError(f"{path}: larger than the free memory: close other programs, or use a larger machine") from None
    # Besides its own error, the library raises errors of Python and PyTorch for unknown types and large shapes.
    except (SafetensorError, RuntimeError, TypeError, ValueError, KeyError) as error:
        raise NotAModelFile(path, str(error).partition("\n")[0]) from None


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    checksum = zlib.crc32(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        checksum = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), checksum)
        if tensor.numel():
            checksum = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, checksum)
    return f"{checksum:08x}"
