"""The results of long work, one after the other in a file: work that was interrupted goes on after the last of them.

A record is a set of named arrays in NumPy's .npz format, after its size and its checksum. Where a record is damaged, or
its writing was interrupted, the file is cut off.
"""

import io
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from nmt.files import atomic

Arrays = Mapping[str, npt.NDArray[Any]]
T = TypeVar("T")
J = TypeVar("J")
R = TypeVar("R")

_HEADER = struct.Struct("<QI")  # before each record: its size in bytes and its CRC-32


class Journal(Generic[J, R]):
    """A file of results. Only one process at a time may use it."""

    def __init__(
        self,
        path: Path,
        setting: str,
        digest: Callable[[J], bytes],
        pack: Callable[[R], Arrays],
        unpack: Callable[[Arrays], R],
    ) -> None:
        """setting: the one that decides where the file is, for messages; digest: a hash of a job; pack, unpack: a
        result as arrays, of which `job` is the hash of its job, and back."""
        self.path, self._setting = path, setting
        self._digest, self._pack, self._unpack = digest, pack, unpack

    def results(
        self, jobs: Iterable[tuple[T, J]], compute: Callable[[Iterable[tuple[T, J]]], Iterator[tuple[T, R]]]
    ) -> Iterator[tuple[T, R]]:
        """The result of each job, in the order of the jobs, beside what came with the job.

        The results of the first jobs are in the file. From the first job on whose result is not there, `compute` gives
        them, and they are added to the file. Raises what `compute` raises, and NmtError if the file cannot be written.
        """
        jobs = iter(jobs)
        with ExitStack() as stack:
            with atomic.reporting(self.path, self._setting):
                file = stack.enter_context(self.path.open("a+b"))
            used = 0  # bytes of records
            for end, record in _records(file):
                one = next(jobs, None)
                if one is None or record["job"].tobytes() != self._digest(one[1]):
                    jobs = jobs if one is None else chain([one], jobs)
                    break
                yield one[0], self._unpack(record)
                used = end
            file.truncate(used)
            for with_it, result in compute(jobs):
                with atomic.reporting(self.path, self._setting):
                    _append(file, self._pack(result))
                yield with_it, result


def _records(file: IO[bytes]) -> Iterator[tuple[int, Arrays]]:
    """The complete records from the front of the file, each after the place where it ends."""
    left = os.fstat(file.fileno()).st_size
    file.seek(0)
    while left >= _HEADER.size:
        size, checksum = _HEADER.unpack(file.read(_HEADER.size))
        left -= _HEADER.size + size
        if left < 0 or zlib.crc32(content := file.read(size)) != checksum:
            return
        with np.load(io.BytesIO(content), allow_pickle=False) as record:
            yield file.tell(), dict(record)


def _append(file: IO[bytes], record: Arrays) -> None:
    content, arrays = io.BytesIO(), dict[str, Any](record)
    np.savez(content, **arrays)
    file.write(_HEADER.pack(content.tell(), zlib.crc32(content.getbuffer())))
    file.write(content.getbuffer())
    file.flush()
