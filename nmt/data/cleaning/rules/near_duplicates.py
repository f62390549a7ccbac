"""Text without the differences of near-duplicates: case, accents, punctuation and white space. In training text, pairs
that differ in digits are near-duplicates too. Validation and test text is compared with its digits."""

import hashlib
import string
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from nmt.data.cleaning.rules import characters
from nmt.data.cleaning.rules.characters import TextLines
from nmt.data.sources.corpus import Pair

_LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_NEITHER = bytes(set(range(128)) - set((string.ascii_letters + string.digits).encode()))  # letters nor digits
_FEWEST_LETTERS = 4  # a pair with fewer on a side is compared as it is: `12.` is not the same as `13.`


def folded_hashes(pairs: Sequence[Pair]) -> npt.NDArray[np.uint64]:
    """A hash of each pair's letters without case and accents: [pairs]. Near-duplicates have the same hash; the
    probability that two of 10 million other pairs have the same is 3e-6.

    This is most of the work and can be done for many chunks in parallel. `SeenPairs.add_hashes` then finds the new
    pairs in the order of the corpus.
    """
    sides = [_folded([pair[side] for pair in pairs]) for side in (0, 1)]
    texts = []
    for pair, source, target in zip(pairs, *sides, strict=True):
        if min(len(source), len(target)) < 4 * _FEWEST_LETTERS:
            source, target = (side.encode("utf-32-le", "surrogatepass") for side in pair)
        texts.append(b"\n\0\0\0".join((source, target)))
    return hashes(texts)


def hashes(texts: Iterable[bytes]) -> npt.NDArray[np.uint64]:
    """A hash of each text: [texts]."""
    return np.frombuffer(b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts), np.uint64)


def folded_texts(texts: Sequence[str]) -> list[str]:
    """The letters and digits of each text without case and accents; for a text without any, its characters without
    white space. They are used to find validation or test text in the training text."""
    keys = [text.encode().translate(_LOWER, _NEITHER).decode() if text.isascii() else "" for text in texts]  # fast
    others = [i for i, text in enumerate(texts) if not text.isascii()]
    for i, key in zip(others, _folded([texts[i] for i in others], digits=True), strict=True):
        keys[i] = key.decode("utf-32-le", "surrogatepass")
    return [key or "".join(text.split()) for key, text in zip(keys, texts, strict=True)]


def _folded(texts: Sequence[str], digits: bool = False) -> list[bytes]:
    """The letters of each text as UTF-32, and its digits."""
    lines = TextLines.from_texts(
        [text if text.isascii() else unicodedata.normalize("NFKC", text).casefold() for text in texts]
    )
    letters = characters.folded(digits)[lines.codes]
    sizes = lines.count(letters != 0) * letters.itemsize
    ends = np.cumsum(sizes)
    folded = letters[letters != 0].tobytes()
    return [folded[start:end] for start, end in zip((ends - sizes).tolist(), ends.tolist(), strict=True)]
