"""Converts a tokenizer.json of the package tokenizers, with byte-pair encoding as in NLLB, to a SentencePiece model.
transformers 5 stores this file in place of the original SentencePiece model.

The rank of a merge gives the score of the piece that it makes: earlier merges have higher scores.
"""

import base64
import binascii
from pathlib import Path
from typing import Any

from nmt.data.subwords import sentencepiece_model
from nmt.data.subwords.sentencepiece_model import Subword, SubwordKind
from nmt.errors import NmtError
from nmt.interop import source

_SPECIAL = [
    Subword("<unk>", 0.0, SubwordKind.UNKNOWN),
    Subword("<s>", 0.0, SubwordKind.CONTROL),
    Subword("</s>", 0.0, SubwordKind.CONTROL),
]
# The same as in SentencePiece: several spaces become one, and each word begins with one.
_SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
_WORDS = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}


def read(path: Path) -> tuple[bytes, dict[str, int]]:
    """The SentencePiece model, and the ids of its pieces. Raises NmtError for a file of another form."""
    try:
        return _converted(source.read_mapping(path))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise NmtError(
            f"{path}: not a byte-pair encoding with the normalization of SentencePiece: give a folder that also has "
            "sentencepiece.bpe.model, from the original model"
        ) from None


def _converted(content: dict[str, Any]) -> tuple[bytes, dict[str, int]]:
    """As `read`. Raises KeyError, TypeError, ValueError or AttributeError for a file of another form."""
    model, words = content["model"], content["pre_tokenizer"]
    normalize, spaces = content["normalizer"]["normalizers"]
    if model["type"] != "BPE" or model.get("byte_fallback") or normalize["type"] != "Precompiled":
        raise ValueError(model["type"])
    if spaces != _SPACES or not _WORDS.items() <= words.items():
        raise ValueError("spaces")
    charsmap = _decoded(normalize["precompiled_charsmap"])
    merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    scores = dict[str, float]()
    for rank, (first, second) in enumerate(merges):
        scores.setdefault(first + second, -float(rank))
    added = {token["content"] for token in content["added_tokens"]}
    ids = {str(piece): int(i) for piece, i in model["vocab"].items() if piece not in added}
    least = -float(len(merges))
    subwords = [*_SPECIAL, *(Subword(piece, scores.get(piece, least)) for piece in ids)]
    return sentencepiece_model.bpe_model(subwords, "nmt_nfkc", charsmap), ids


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
