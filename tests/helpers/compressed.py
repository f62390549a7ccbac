"""Compressed content, by the ending of a file's name."""

import bz2
import gzip
import lzma
import sys
from collections.abc import Callable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def compress_zstd(content: bytes) -> bytes:
    """With a checksum, as the program zstd writes it."""
    return zstd.compress(content, options={zstd.CompressionParameter.checksum_flag: 1})


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": compress_zstd,
}
