"""Writing to files that were opened without a buffer."""

from typing import Protocol


class Unbuffered(Protocol):
    """A file whose `write` may take a part only, and returns how many bytes it took."""

    def write(self, content: bytes | memoryview, /) -> int: ...


def write_all(file: Unbuffered, content: bytes) -> None:
    """Write all of it, also where a disk that is almost full takes a part at first. Raises OSError."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
