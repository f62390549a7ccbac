"""Converts the vocabularies of other programs to nmt's ids: padding, unknown, BOS and EOS come first.

In those programs SentencePiece splits text into pieces, and a second file has the ids of the pieces. The file can have
other pieces than the SentencePiece model. Both become one SentencePiece model for each side:

- A piece that only the file has is never used to split text, but it is decoded if a model writes it.
- A piece that only the SentencePiece model has is unknown to the translation model. It gets a row of its own, which is
  a copy of the unknown subword's row, and is never written.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
import torch
from torch import Tensor

from nmt.data.subwords import sentencepiece_model
from nmt.data.subwords.sentencepiece_model import Subword, SubwordKind
from nmt.data.subwords.vocabulary import BOS, PAD, UNK, Tokenizer
from nmt.errors import NmtError
from nmt.interop import source
from nmt.interop.sample_text import LINES
from nmt.interop.weights import NEVER_CHOSEN

NONE = -1  # the id of a subword that the other program does not have
_SPECIAL = {
    "<pad>": SubwordKind.CONTROL,
    "<unk>": SubwordKind.UNKNOWN,
    "<s>": SubwordKind.CONTROL,
    "</s>": SubwordKind.CONTROL,
}  # in nmt's order


@dataclass(frozen=True)
class SubwordRows:
    """Maps nmt's subwords to rows in the matrices of the original model.

    original_ids: for each subword of nmt, its id in the original model, or NONE; unknown: the original id of the
    unknown subword.
    """

    original_ids: Sequence[int]
    unknown: int

    def matrix(self, original: Tensor) -> Tensor:
        """The original matrix [V', D] → nmt's matrix [V, D]. A subword without an original id gets the row of the
        unknown subword; padding and BOS get zeros."""
        rows = torch.tensor([self.unknown if i == NONE else i for i in self.original_ids])
        matrix = original[rows]
        for special in (PAD, BOS):
            if self.original_ids[special] == NONE:
                matrix[special] = 0
        return matrix

    def bias(self, original: Tensor) -> Tensor:
        """The original output bias [V'] → nmt's output bias [V]."""
        ids = torch.tensor(self.original_ids)
        return torch.where(ids == NONE, torch.tensor(NEVER_CHOSEN), original[ids.clamp(min=0)])


def within(ids: Mapping[str, int], size: int, file: Path) -> dict[str, int]:
    """The ids that have a row in a matrix of `size` rows. A row without a piece gets a piece that no text has.

    file: of the ids, for messages. Raises NmtError if a special subword is missing.
    """
    if size > 2 * len(ids) + 1000:
        raise NmtError(
            f"{file}: has {len(ids):,} subwords, and the settings say {source.shown(size)}: they do not belong together"
        )
    ids_with_rows = {piece: row for piece, row in ids.items() if row < size}
    ids_with_rows |= {f"<unused {row}>": row for row in range(len(ids), size)}
    for piece in ("<unk>", "</s>"):
        if piece not in ids_with_rows:
            raise NmtError(f"{file}: has no subword {piece}: cannot be imported")
    return ids_with_rows


def rows_of(pieces: Sequence[str], ids: Mapping[str, int]) -> SubwordRows:
    """The rows for these pieces. pieces: in nmt's order, as `ordered` returns them; ids: in the original model."""
    return SubwordRows([ids.get(piece, NONE) for piece in pieces], ids["<unk>"])


def read(path: Path) -> bytes:
    """The bytes of a SentencePiece model. Raises NmtError if it is missing or damaged."""
    proto = source.read_bytes(path)
    try:
        sentencepiece_model.subwords(proto)
        sentencepiece.SentencePieceProcessor().LoadFromSerializedProto(proto)
    except Exception:  # several types, see nmt.data.subwords.vocabulary
        raise NmtError(f"{path}: not a SentencePiece model") from None
    return proto


def ordered(ids: Mapping[str, int], protos: Iterable[bytes]) -> list[str]:
    """The pieces of a vocabulary in nmt's order: special ones, then those with ids, by id, then those that only the
    SentencePiece models have."""
    pieces = [*_SPECIAL, *sorted(ids, key=ids.__getitem__)]
    for proto in protos:
        pieces += [subword.piece for subword in sentencepiece_model.subwords(proto)]
    return list(dict.fromkeys(pieces))


def tokenizer(proto: bytes, pieces: Sequence[str], names: Mapping[str, str], file: str) -> Tokenizer:
    """A SentencePiece model with these pieces as its subwords, in this order. names: nmt's names of the pieces that are
    language tokens; file: of the model, for messages.

    Raises NmtError if the new model splits text differently, although it has all pieces of the original's split.
    """
    subword_of = {subword.piece: subword for subword in sentencepiece_model.subwords(proto)}
    # The lowest score: in byte-pair encoding an unused merge must not come before another one.
    least = min((subword.score for subword in subword_of.values()), default=0.0) - 1
    subwords = [_subword(piece, subword_of, names, least) for piece in pieces]
    new = Tokenizer(sentencepiece_model.with_subwords(proto, subwords), file)
    original = sentencepiece.SentencePieceProcessor()
    original.LoadFromSerializedProto(proto)
    # Prepared twice, so that `encode` has nothing left to normalize before SentencePiece, which is compared here.
    lines, kept = new.prepared(new.prepared(list(LINES))), set(pieces)
    for line, ids in zip(lines, new.encode(lines), strict=True):
        cut = original.Encode(line, out_type=str)
        if any(piece in subword_of and piece not in kept for piece in cut):
            continue
        pieces_before = [piece if piece in subword_of else "<unk>" for piece in cut]
        pieces_after = ["<unk>" if i == UNK else piece for i, piece in zip(ids, new.pieces(ids), strict=True)]
        if pieces_after != pieces_before:
            raise NmtError(
                f"{file}: with the ids of its vocabulary it splits text into other pieces: cannot be imported"
            )
    return new


def _subword(piece: str, subword_of: Mapping[str, Subword], names: Mapping[str, str], least: float) -> Subword:
    if piece in _SPECIAL:
        return Subword(piece, 0.0, _SPECIAL[piece])
    if piece in names:
        return Subword(names[piece], 0.0, SubwordKind.CONTROL)
    if piece not in subword_of:
        return Subword(piece or "<empty>", least, SubwordKind.UNUSED)
    subword = subword_of[piece]
    if subword.kind in (SubwordKind.UNKNOWN, SubwordKind.CONTROL):
        return subword._replace(kind=SubwordKind.UNUSED)
    return subword
