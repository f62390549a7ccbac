"""The vocabularies of another program with our ids: padding, unknown, BOS and EOS first.

SentencePiece cuts text into pieces, and a second file says which id each piece has; it may have other pieces than the
SentencePiece model. Here both become one SentencePiece model, for each side:

- A piece that only the ids have is never cut from text, but gives text where a model writes it.
- A piece that only the SentencePiece model has is unknown to the model. It gets a row of its own, equal to that of the
  unknown subword, and is never written.
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
}  # in our order


@dataclass(frozen=True)
class SubwordRows:
    """Where the rows of a matrix with a row for each subword come from. theirs: of each of our subwords the other
    program's id, or NONE; unknown: its id of the unknown subword."""

    theirs: Sequence[int]
    unknown: int

    def matrix(self, given: Tensor) -> Tensor:
        """Their matrix [V', D] → ours [V, D]: a subword that they do not have is as the unknown one, or, if it is
        padding or BOS, zeros."""
        rows = torch.tensor([self.unknown if each == NONE else each for each in self.theirs])
        matrix = given[rows]
        for special in (PAD, BOS):
            if self.theirs[special] == NONE:
                matrix[special] = 0
        return matrix

    def bias(self, given: Tensor) -> Tensor:
        """Their output bias [V'] → ours [V]."""
        theirs = torch.tensor(self.theirs)
        return torch.where(theirs == NONE, torch.tensor(NEVER_CHOSEN), given[theirs.clamp(min=0)])


def within(ids: Mapping[str, int], size: int, file: Path) -> dict[str, int]:
    """The ids that have a row in a matrix of `size` rows; rows without a piece get one that text does not have.

    Raises NmtError unless the special subwords are among them. file: of the ids, in messages."""
    if size > 2 * len(ids) + 1000:
        raise NmtError(f"{file}: has {len(ids):,} subwords, and the settings say {source.shown(size)}: not together")
    known = {piece: row for piece, row in ids.items() if row < size}
    known |= {f"<unused {row}>": row for row in range(len(ids), size)}
    for piece in ("<unk>", "</s>"):
        if piece not in known:
            raise NmtError(f"{file}: has no subword {piece}: cannot be imported")
    return known


def rows_of(pieces: Sequence[str], ids: Mapping[str, int]) -> SubwordRows:
    """pieces: in our order, as `ordered` gives them; ids: theirs."""
    return SubwordRows([ids.get(piece, NONE) for piece in pieces], ids["<unk>"])


def read(path: Path) -> bytes:
    """A SentencePiece model. Raises NmtError if it is missing or damaged."""
    proto = source.read_bytes(path)
    try:
        sentencepiece_model.subwords(proto)
        sentencepiece.SentencePieceProcessor().LoadFromSerializedProto(proto)
    except Exception:  # of several types, see nmt.data.subwords.vocabulary
        raise NmtError(f"{path}: not a SentencePiece model") from None
    return proto


def ordered(ids: Mapping[str, int], protos: Iterable[bytes]) -> list[str]:
    """The pieces of a vocabulary in our order: the special ones, then those that have ids, by these, then those that
    only the SentencePiece models have."""
    named = sorted(ids, key=ids.__getitem__)
    cut = (subword.piece for proto in protos for subword in sentencepiece_model.subwords(proto))
    return list(dict.fromkeys([*_SPECIAL, *named, *cut]))


def tokenizer(proto: bytes, pieces: Sequence[str], names: Mapping[str, str], file: str) -> Tokenizer:
    """A SentencePiece model with these pieces as its subwords, in this order. names: of pieces that are tokens of
    languages, ours; file: of the model, in messages.

    Raises NmtError if it would cut text into other pieces than before, where it has these.
    """
    known = {subword.piece: subword for subword in sentencepiece_model.subwords(proto)}
    # Lowest of all: in byte-pair encoding a merge that is not used must not come before another one.
    least = min((subword.score for subword in known.values()), default=0.0) - 1
    subwords = [_subword(piece, known, names, least) for piece in pieces]
    made = Tokenizer(sentencepiece_model.with_subwords(proto, subwords), file)
    before = sentencepiece.SentencePieceProcessor()
    before.LoadFromSerializedProto(proto)
    # Twice: nothing is left that `encode` would normalize before SentencePiece, which is compared here.
    lines, kept = made.prepared(made.prepared(list(LINES))), set(pieces)
    for line, ids in zip(lines, made.encode(lines), strict=True):
        cut = before.Encode(line, out_type=str)
        if any(piece in known and piece not in kept for piece in cut):
            continue
        theirs = [piece if piece in known else "<unk>" for piece in cut]
        ours = ["<unk>" if i == UNK else piece for i, piece in zip(ids, made.pieces(ids), strict=True)]
        if ours != theirs:
            raise NmtError(f"{file}: with the ids of its vocabulary it would cut text into other pieces: not imported")
    return made


def _subword(piece: str, known: Mapping[str, Subword], names: Mapping[str, str], least: float) -> Subword:
    if piece in _SPECIAL:
        return Subword(piece, 0.0, _SPECIAL[piece])
    if piece in names:
        return Subword(names[piece], 0.0, SubwordKind.CONTROL)
    if piece not in known:
        return Subword(piece or "<empty>", least, SubwordKind.UNUSED)
    own = known[piece]
    return own if own.kind not in (SubwordKind.UNKNOWN, SubwordKind.CONTROL) else own._replace(kind=SubwordKind.UNUSED)
