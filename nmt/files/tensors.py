"""Write and read safetensors files with a checksum. Reading arrays and metadata does not load PyTorch."""

import contextlib
import hashlib
import json
import math
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.errors import NmtError, no_such_file
from nmt.files import atomic

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor  # loading it takes a second, so functions import it when they need it

_CHECKSUM = "crc32"
_LONGEST_HEADER = 100_000_000  # bytes; the limit of the library safetensors
_MOST_DIMENSIONS = 64  # PyTorch's limit
_TYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
_SIZES = {  # of a number, in bytes
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip


def write(path: Path, tensors: Mapping[str, "Tensor"], metadata: Mapping[str, str]) -> None:
    """Write tensors, metadata and a checksum of both to a file, as `atomic.replacing` does; a missing folder is made.
    Raises NmtError if the file cannot be written."""
    from safetensors import SafetensorError

    on_cpu = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    with atomic.reporting(path, "folder"):
        atomic.make_folder(path.parent)
        with atomic.replacing(path) as content:
            try:
                checksum = _checksum({name: _array(tensor) for name, tensor in on_cpu.items()}, metadata)
                save_file(on_cpu, content, {**metadata, _CHECKSUM: checksum})
            except SafetensorError as error:
                advice = "free some space, or choose another folder"
                raise NmtError(f"{path}: cannot be written: {error}: {advice}") from None


def save_file(tensors: Mapping[str, "Tensor"], path: Path, metadata: dict[str, str]) -> None:
    """That of safetensors, which loads PyTorch."""
    from safetensors.torch import save_file as save

    save(dict(tensors), path, metadata)


def read(path: Path) -> tuple[dict[str, "Tensor"], dict[str, str]]:
    """The tensors and metadata of a file. Raises NmtError if it is missing, damaged or of another kind."""
    with opened(path) as file:
        return file.tensors(), file.metadata


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata alone, without reading the tensors or testing the checksum. Raises NmtError as `read` does."""
    with opened(path) as file:
        return file.metadata


@contextlib.contextmanager
def opened(path: Path) -> Iterator["TensorFile"]:
    """Open a file and read its header. A file that is renamed over it does not change what is read. Raises NmtError
    if it is missing, damaged or of another kind."""
    try:
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind):
            raise NmtError(f"{path}: {'a folder' if stat.S_ISDIR(kind) else 'a device or a pipe'}, not a file")
        stream = path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise no_such_file(path) from None
    except OSError as error:
        raise NmtError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # a name with a NUL character
        raise NotAModelFile(path, error) from None
    with stream:
        yield TensorFile(path, stream)


@dataclass(frozen=True)
class Entry:
    """The type of a tensor, as PyTorch calls it, and its shape, from the header."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape) * _SIZES[self.dtype]


@dataclass(frozen=True)
class Array(Entry):
    """A tensor as the bytes of its numbers, row after row: neither PyTorch nor numpy has to be loaded for it."""

    content: bytes | memoryview

    @classmethod
    def of(cls, numbers: "NDArray[Any]") -> "Array":
        """What numpy has computed. Its uint16 are the bits of a bfloat16, which numpy does not have."""
        import numpy as np

        dtype = numbers.dtype.name
        content = np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).data
        return cls("bfloat16" if dtype == "uint16" else dtype, numbers.shape, content)

    def numbers(self) -> "NDArray[Any]":
        """All numbers in a row, for computing with them, not to be changed. A bfloat16 is the uint16 of its bits."""
        import numpy as np

        return np.frombuffer(self.content, self.dtype.replace("bfloat16", "uint16"))

    def numpy(self) -> "NDArray[Any]":
        """As `numbers`, in its shape."""
        return self.numbers().reshape(self.shape)


class TensorFile:
    """An open file, whose header has been read: `metadata`, and `entries` by the tensors' names in the file's order.

    The format: 8 bytes with the length of the header, little-endian; the header, a JSON object; the bytes of the
    tensors one after the other without a gap. A damaged header cannot make this use more memory than the file's size.
    Source: https://github.com/huggingface/safetensors#format
    """

    def __init__(self, path: Path, stream: BufferedReader):
        """Raises NmtError if it is not a complete safetensors file."""
        self.path, self._stream, self._digest = path, stream, hashlib.sha256()
        size = os.fstat(stream.fileno()).st_size - 8
        length = int.from_bytes(self._bytes(8), "little")
        if length > min(_LONGEST_HEADER, size):
            raise NotAModelFile(path, "its header is too long")
        try:
            header = json.loads(self._bytes(length), object_pairs_hook=_no_name_twice)
            self.metadata: dict[str, str] = _metadata(header)
            self.entries: dict[str, Entry] = _entries(header, size - length)
        except (ValueError, RecursionError) as error:
            raise NotAModelFile(path, error) from None

    def tensors(self) -> dict[str, "Tensor"]:
        """All tensors, each in its own memory. To be called once: it reads to the end of the file, and removes the
        checksum from `metadata`. Raises NmtError if the content does not match the checksum, or a shape cannot exist:
        one length is 0, and the others are too large."""
        import torch

        tensors = {}
        for name, entry in self.entries.items():
            try:
                tensors[name] = torch.empty(entry.shape, dtype=getattr(torch, entry.dtype))
            except (RuntimeError, TypeError, OverflowError, ValueError):
                raise NotAModelFile(self.path, f"{name[:100]!r} has an impossible shape") from None
        arrays = {name: _array(tensor) for name, tensor in tensors.items()}
        for array in arrays.values():
            self._read_into(memoryview(array.content))
        self._check(arrays)
        return tensors

    def arrays(self) -> dict[str, Array]:
        """As `tensors`, without PyTorch."""
        arrays = {name: Array(of.dtype, of.shape, self._bytes(of.size)) for name, of in self.entries.items()}
        self._check(arrays)
        return arrays

    def _check(self, read: Mapping[str, Array]) -> None:
        """Compare the checksum with that of all tensors."""
        if self.metadata.pop(_CHECKSUM, None) != _checksum(read, self.metadata):
            damaged = "damaged: its content does not match its checksum"
            raise NmtError(f"{self.path}: {damaged}: use another copy or checkpoint")

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes that were read; after `tensors` that is the whole file."""
        return self._digest.hexdigest()

    def _bytes(self, count: int) -> bytes:
        with self._readable():
            content = self._stream.read(count)
        self._take(content, count)
        return content

    def _read_into(self, place: memoryview) -> None:
        with self._readable():
            read = self._stream.readinto(place)
        self._take(place[:read], len(place))

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """Raises NmtError where the file cannot be read."""
        try:
            yield
        except OSError as error:
            raise NotAModelFile(self.path, error) from None

    def _take(self, read: bytes | memoryview, expected: int) -> None:
        """Count what has been read. Raises NmtError if it is less than expected, in bytes."""
        if len(read) != expected:
            raise NotAModelFile(self.path, "it ends in the middle")
        self._digest.update(read)


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("its header has the same name twice")
    return fields


def _metadata(header: object) -> dict[str, str]:
    """Takes the metadata out of a header. Raises ValueError if it is not valid."""
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("its metadata are not text")
    return metadata


def _entries(header: dict[str, Any], size: int) -> dict[str, Entry]:
    """The tensors in a header, in the order of their bytes. Raises ValueError if these are not `size` bytes."""
    placed = []
    for name, fields in header.items():
        match fields:
            case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(start), int(end)]}:
                pass
            case _:
                raise ValueError(f"its header has no valid entry for {name[:100]!r}")
        sizes = len(shape) <= _MOST_DIMENSIONS and all(type(length) is int and 0 <= length < 2**63 for length in shape)
        if kind not in _TYPES or not sizes:
            raise ValueError(f"its header has an unknown type or shape for {name[:100]!r}")
        placed.append((start, end, name, Entry(_TYPES[kind], tuple(shape))))
    placed.sort(key=lambda entry: entry[:2])
    before = 0
    for start, end, name, entry in placed:
        if start != before or end - start != entry.size:
            raise ValueError(f"the size of {name[:100]!r} does not fit its type and shape")
        before = end
    if before != size:
        raise ValueError(f"it has {size} bytes of tensors, but {before} in its header")
    return {name: entry for _, _, name, entry in placed}


class NotAModelFile(NmtError):
    """The file at `path` is not a safetensors file, or is damaged."""

    def __init__(self, path: Path, why: object) -> None:
        super().__init__(f"{path}: not a model file, or one that is cut short or damaged ({why})")
        self.path = path


def _checksum(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> str:
    checksum = zlib.crc32(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        checksum = zlib.crc32(f"{name} torch.{tensor.dtype} {list(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(tensor.content, checksum)
    return f"{checksum:08x}"


def _array(tensor: "Tensor") -> Array:
    """A contiguous tensor on the CPU, in the same memory."""
    import torch

    content = tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else memoryview(bytearray())
    return Array(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), content)
