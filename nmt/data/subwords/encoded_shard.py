"""A shard of encoded text in a file. An interrupted preparation continues from these files."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from nmt.data.batches.token_store import FlatSequences, TokenStore
from nmt.data.cleaning.statistics import CorpusStatistics
from nmt.data.cleaning.summary import CorpusCounts, counts_from
from nmt.errors import NmtError
from nmt.files import atomic


class EncodedShard(NamedTuple):
    tokens: TokenStore  # for training
    hashes: npt.NDArray[np.uint64]  # of the kept pairs; empty if duplicates were dropped before
    counts: CorpusCounts
    statistics: CorpusStatistics

    def write(self, path: Path) -> None:
        """Write the shard into the file `path` with the ending .npz. Raises NmtError if that is not possible."""
        text = json.dumps({"counts": asdict(self.counts), "statistics": self.statistics.to_json()})
        arrays: dict[str, Any] = {"hashes": self.hashes, "text": np.frombuffer(text.encode(), np.uint8)}
        for name, side in self.tokens.sides.items():
            arrays |= {f"{name}.ids": side.ids, f"{name}.lengths": side.lengths}
        file = _file(path)
        with atomic.reporting(file, "data.store_dir"), atomic.replacing(file) as content, content.open("wb") as stream:
            np.savez(stream, **arrays)

    @classmethod
    def exists(cls, path: Path) -> bool:
        return _file(path).exists()

    @classmethod
    def read(cls, path: Path) -> "EncodedShard":
        """Read a shard that `write` wrote. Raises NmtError if it is damaged or missing."""
        try:
            with np.load(_file(path), allow_pickle=False) as arrays:
                text = json.loads(arrays["text"].tobytes())
                source, target = (
                    FlatSequences.from_flat(arrays[f"{name}.ids"], arrays[f"{name}.lengths"])
                    for name in ("source", "target")
                )
                tokens, hashes = TokenStore(source, target), arrays["hashes"]
            (counts,) = counts_from([text["counts"]])
            return cls(tokens, hashes, counts, CorpusStatistics.from_json(text["statistics"]))
        except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
            raise NmtError(f"{_file(path)}: damaged ({error}): delete the file to make it again") from None


def _file(path: Path) -> Path:
    return path.with_name(f"{path.name}.npz")
