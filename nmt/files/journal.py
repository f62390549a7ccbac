"""The results of long work, one after the other in a file: work that was interrupted goes on after the last of them.

A record is a set of named arrays in NumPy's .npz format, after its size and its checksum. Where a record is damaged or
of another version, or its writing was interrupted, the file is cut off. The file only saves time: where it cannot be
written, the work goes on without it.
"""

import io
import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from nmt.files.unbuffered import write_all

log = logging.getLogger("nmt")

Arrays = Mapping[str, npt.NDArray[Any]]
T = TypeVar("T")
J = TypeVar("J")
R = TypeVar("R")

_HEADER = struct.Struct("<QI")  # before each record: its size in bytes and its CRC-32
# Part of each checksum. Increase it when records have other arrays: then those of earlier versions are not used.
_FORMAT = b"2"


class Journal(Generic[J, R]):
    """A file of results. Only one process at a time may use it."""

    def __init__(
        self, path: Path, digest: Callable[[J], bytes], pack: Callable[[R], Arrays], unpack: Callable[[Arrays], R]
    ) -> None:
        """digest: a hash of a job; pack, unpack: a result as arrays, of which `job` is the hash of its job, and
        back."""
        self.path, self._digest, self._pack, self._unpack = path, digest, pack, unpack

    def results(
        self, jobs: Iterable[tuple[T, J]], compute: Callable[[Iterable[tuple[T, J]]], Iterator[tuple[T, R]]]
    ) -> Iterator[tuple[T, R]]:
        """The result of each job, in the order of the jobs, beside what came with the job.

        The results of the first jobs are in the file. From the first job on whose result is not there, `compute` gives
        them, and they are added to the file. Raises what `compute` raises. Logs a warning if the file cannot be
        written.
        """
        jobs, file = iter(jobs), self._opened()
        try:
            used = 0  # bytes of records
            for end, record in _records(file) if file else ():
                one = next(jobs, None)
                if one is None or record["job"].tobytes() != self._digest(one[1]):
                    jobs = jobs if one is None else chain([one], jobs)
                    break
                yield one[0], self._unpack(record)
                used = end
            if file:
                file.truncate(used)
            for with_it, result in compute(jobs):
                if file and not self._added(file, result):
                    file.close()
                    file = None
                yield with_it, result
        finally:
            if file:
                file.close()

    def _opened(self) -> BinaryIO | None:
        try:
            return self.path.open("a+b", buffering=0)
        except OSError as error:
            self._warn(error)
            return None

    def _added(self, file: BinaryIO, result: R) -> bool:
        try:
            _append(file, self._pack(result))
        except OSError as error:
            with suppress(OSError):
                file.truncate(0)  # the result itself may need this room
            self._warn(error)
            return False
        return True

    def _warn(self, error: OSError) -> None:
        reason = error.strerror or error
        log.warning("%s: cannot be written: %s: if this is interrupted, it begins again", self.path, reason)


def _records(file: BinaryIO) -> Iterator[tuple[int, Arrays]]:
    """The complete records from the front of the file, each after the place where it ends."""
    left = os.fstat(file.fileno()).st_size
    file.seek(0)
    while left >= _HEADER.size:
        size, checksum = _HEADER.unpack(file.read(_HEADER.size))
        left -= _HEADER.size + size
        if left < 0 or _checksum(content := file.read(size)) != checksum:
            return
        with np.load(io.BytesIO(content), allow_pickle=False) as record:
            yield file.tell(), dict(record)


def _append(file: BinaryIO, record: Arrays) -> None:
    content, arrays = io.BytesIO(), dict[str, Any](record)
    np.savez(content, **arrays)
    written = content.getvalue()
    write_all(file, _HEADER.pack(len(written), _checksum(written)) + written)


def _checksum(content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(_FORMAT))  # of nothing it is not 0: zeros are no record
