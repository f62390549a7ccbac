"""Writes the shortlist of a model for Bergamot, the file `lex.….s2t.bin`.

All numbers are little-endian and uint64, except the target subwords, which are uint32. The file begins with a magic
number, the checksum of all that follows, how many subwords from the beginning of the vocabulary are always used, how
many each source subword has at most, and the lengths of two arrays. These follow: where the row of each source subword
starts, and the target subwords of all rows. The engine uses the rows of all subwords of a batch, EOS included, and adds
subwords up to a multiple of 8.
Source: browsermt/marian-dev, src/data/shortlist.cpp and src/common/hash.h.
"""

from pathlib import Path

import numpy as np

from nmt.data.subwords.shortlist import Shortlist

_MAGIC = 0xF11A48D5013417F5


def write(path: Path, shortlist: Shortlist) -> None:
    """Write a new file."""
    # 0 and 100 are for the engine's log: subwords for all sentences are in the row of EOS.
    numbers = np.array([0, 100, len(shortlist.offsets), len(shortlist.targets)], "<u8")
    content = numbers.tobytes() + shortlist.offsets.astype("<u8").tobytes() + shortlist.targets.astype("<u4").tobytes()
    with path.open("xb") as file:
        file.write(np.array([_MAGIC, _checksum(content)], "<u8").tobytes() + content)


def _checksum(content: bytes) -> int:
    """The hash of boost::hash_combine over the complete numbers of 64 bits."""
    seed = 0
    for number in np.frombuffer(content[: len(content) // 8 * 8], "<u8").tolist():
        seed = (seed ^ (number + 0x9E3779B9 + (seed << 6) + (seed >> 2))) & 0xFFFFFFFFFFFFFFFF
    return seed
