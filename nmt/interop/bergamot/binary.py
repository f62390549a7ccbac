"""The binary file of a Marian model: named arrays of numbers, some of them 8-bit integers that stand for numbers.

Little-endian: the version 1 and the number of items (uint64); of each item four uint64: the bytes of its name with a
NUL, its type, its dimensions and its bytes; all names; all shapes (int32); a number of zeros (uint64) and those zeros,
up to a multiple of 256 bytes; then each item's bytes, filled up with zeros to a multiple of 256.

Matrices of 8-bit integers end in a float32, the multiplier by which numbers became integers. They are stored by
columns, but for embeddings, of which the product with the output layer needs the rows.
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
    """values: float32 or int8, in the shape that Marian computes with. multiplier: None, or what numbers were
    multiplied by before they were rounded to int8 values; such items are matrices."""

    name: str
    values: NDArray[Any]
    multiplier: np.float32 | None = None


def quantised(name: str, matrix: NDArray[np.float32], multiplier: np.float32) -> BergamotTensor:
    """A matrix of 8-bit integers, each the nearest to a number times the multiplier."""
    return BergamotTensor(name, np.rint(matrix * multiplier).clip(-LARGEST, LARGEST).astype(np.int8), multiplier)


def multiplier_of(largest: float) -> np.float32:
    """By which a number with the largest absolute value becomes 127; for zeros alone any number."""
    return np.float32(LARGEST) / np.float32(largest if largest > 0 else 1)


def write(path: Path, items: Sequence[BergamotTensor]) -> None:
    """Write a new file."""
    contents = [_content(item) for item in items]
    names = [item.name.encode() + b"\0" for item in items]
    head = struct.pack("<2Q", _VERSION, len(items))
    for item, name, content in zip(items, names, contents, strict=True):
        head += struct.pack("<4Q", len(name), _type(item), item.values.ndim, len(content))
    head += b"".join(names) + b"".join(struct.pack(f"<{item.values.ndim}i", *item.values.shape) for item in items)
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
