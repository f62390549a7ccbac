"""Writes the binary file of a Marian model: named arrays of numbers; some of them are quantised to 8-bit integers.

All numbers are little-endian. The file begins with the version 1 and the number of items (uint64). Then come, for each
item, four uint64: the bytes of its name with a NUL, its type, the number of its dimensions, and its bytes; then all
names; all shapes (int32); the number of padding zeros (uint64) and these zeros, up to a multiple of 256 bytes; and the
bytes of each item, padded with zeros to a multiple of 256.

After a matrix of 8-bit integers comes a float32, the multiplier that was used to quantise it. These matrices are stored
by columns, except embeddings, whose rows are needed by the output layer.
Source: browsermt/marian-dev, src/common/binary.cpp, src/common/types.h and src/tensors/cpu/integer_common.h.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 127  # of 8-bit integers: -128 is not used
_VERSION, _ALIGNMENT = 1, 256
_FLOAT32, _INT8, _QUANTISED = 0x404, 0x101, 0x4101
_TYPES = {_FLOAT32: "<f4", _INT8: "<i1", _QUANTISED: "<i1"}


@dataclass(frozen=True)
class BergamotTensor:
    """A named array of a model. values: float32 or int8, in the shape that Marian computes with; multiplier: of a
    quantised matrix, whose values were multiplied by it before they were rounded to int8; else None."""

    name: str
    values: NDArray[Any]
    multiplier: np.float32 | None = None


def quantised(name: str, matrix: NDArray[np.float32], multiplier: np.float32) -> BergamotTensor:
    """A matrix quantised to 8-bit integers: each value times the multiplier, rounded."""
    return BergamotTensor(name, np.rint(matrix * multiplier).clip(-LARGEST, LARGEST).astype(np.int8), multiplier)


def multiplier_of(largest: float) -> np.float32:
    """The multiplier with which the largest absolute value becomes 127; any number if all values are zeros."""
    return np.float32(LARGEST) / np.float32(largest if largest > 0 else 1)


def write(path: Path, items: Sequence[BergamotTensor]) -> None:
    """Write the items to a new file."""
    contents = [_content(item) for item in items]
    names = [item.name.encode() + b"\0" for item in items]
    head = struct.pack("<2Q", _VERSION, len(items))
    for item, name, content in zip(items, names, contents, strict=True):
        head += struct.pack("<4Q", len(name), _type(item), item.values.ndim, len(content))
    shapes = [struct.pack(f"<{item.values.ndim}i", *item.values.shape) for item in items]
    head += b"".join(names) + b"".join(shapes)
    zeros = -(len(head) + 8) % _ALIGNMENT
    with path.open("xb") as file:
        file.write(head + struct.pack("<Q", zeros) + bytes(zeros))
        for content in contents:
            file.write(content)


def _type(item: BergamotTensor) -> int:
    if item.multiplier is not None:
        return _QUANTISED
    return _INT8 if item.values.dtype == np.int8 else _FLOAT32


def _by_columns(name: str) -> bool:
    return "Wemb" not in name


def _content(item: BergamotTensor) -> bytes:
    values = item.values.astype(_TYPES[_type(item)])
    content = values.T.tobytes() if item.multiplier is not None and _by_columns(item.name) else values.tobytes()
    if item.multiplier is not None:
        content += struct.pack("<f", item.multiplier)
    return content + bytes(-len(content) % _ALIGNMENT)
