"""Read and change the parts of a SentencePiece model file that its library gives no access to: subwords and
normalization.

A model is a protocol buffer (sentencepiece_model.proto): field 1 are the subwords, 2 the settings of the training, 3
the normalization. Encoding: https://protobuf.dev/programming-guides/encoding
"""

import io
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import sentencepiece

_SUBWORDS, _TRAINING, _NORMALIZER = 1, 2, 3  # the fields of a model
_PIECE, _SCORE, _KIND = 1, 2, 3  # the fields of a subword
_IDS, _NAMES = range(40, 44), range(45, 49)  # of the training: ids and names of unknown, BOS, EOS and padding
_TYPE, _MERGES = 3, 2  # the field of the training that says how text is cut; the value for byte-pair encoding
_NAME, _CHARSMAP = 1, 2  # the fields of a normalization
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # types of fields
_SUBWORD = 1 << 3 | _BYTES  # the key of a model's field 1
_SIZES = {_FIXED64: 8, _FIXED32: 4}
# A rule that changes nothing protects characters from other rules, but SentencePiece rejects it. So the last character
# of such a rule is replaced by one of these characters, which no text has, until the rules are compiled. Both have
# three bytes in UTF-8.
_STANDS_FOR = {"\ufdd0": "\u200d", "\ufdd1": "\ufe0e", "\ufdd2": "\ufe0f"}
_STAND_IN = {character: stand_in for stand_in, character in _STANDS_FOR.items()}


class SubwordKind(IntEnum):
    """The kind of a subword, with its number in a model file."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Subword(NamedTuple):
    """piece: its text, with `▁` for a space. score: decides how text is cut into subwords."""

    piece: str
    score: float
    kind: SubwordKind = SubwordKind.NORMAL


class _Field(NamedTuple):
    number: int
    content: bytes  # without the field's key and its length
    encoded: bytes  # with them


def normalization_name(proto: bytes) -> str:
    """The name of a model's normalization; empty if it has none. Raises ValueError for bytes that are no model."""
    normalizer = _content(proto[_end_of_subwords(proto) :], _NORMALIZER)
    return _content(normalizer, _NAME).decode("utf-8", "replace")


def _end_of_subwords(proto: bytes) -> int:
    """The offset at which the subwords at the start of a model end. It may be too early, which costs only time:
    `_fields` takes ten times as long to skip subwords."""
    offset, last = 0, len(proto) - 1
    while offset < last and proto[offset] == _SUBWORD and proto[offset + 1] < 0x80:
        offset += 2 + proto[offset + 1]
    return offset


def subwords(proto: bytes) -> list[Subword]:
    """A model's subwords in the order of their ids. Raises ValueError for bytes that are no model."""
    return [_subword(field.content) for field in _fields(proto) if field.number == _SUBWORDS]


def merges(proto: bytes) -> bool:
    """Whether a model cuts text by byte-pair encoding. Raises ValueError for bytes that are no model."""
    training = _content(proto[_end_of_subwords(proto) :], _TRAINING)
    types = [field.content for field in _fields(training) if field.number == _TYPE]
    return bool(types) and _varint(types[-1], 0)[0] == _MERGES


def _subword(message: bytes) -> Subword:
    piece, score, kind = "", 0.0, SubwordKind.NORMAL
    for field in _fields(message):
        if field.number == _PIECE:
            piece = field.content.decode("utf-8", "replace")
        elif field.number == _SCORE and len(field.content) == 4:
            [score] = struct.unpack("<f", field.content)
        elif field.number == _KIND:
            kind = SubwordKind(_varint(field.content, 0)[0])
    return Subword(piece, score, kind)


def with_subwords(proto: bytes, subwords: Iterable[Subword]) -> bytes:
    """A copy of a model with other subwords, in this order. Normalization and segmentation method are the same. The
    special subwords have SentencePiece's names: `<unk>`, `<s>`, `</s>` and `<pad>`."""
    written = [_encoded(_SUBWORDS, _encoded_subword(subword)) for subword in subwords]
    for field in _fields(proto):
        if field.number == _TRAINING:
            kept = [inner.encoded for inner in _fields(field.content) if inner.number not in (*_IDS, *_NAMES)]
            written.append(_encoded(_TRAINING, b"".join(kept)))
        elif field.number != _SUBWORDS:
            written.append(field.encoded)
    return b"".join(written)


def with_control_symbols(proto: bytes, names: Iterable[str]) -> bytes:
    """A copy of a model with more control symbols, which get the next ids. Repeated fields of a message may stand
    anywhere in it, and their order is that of the ids."""
    symbols = (Subword(name, 0.0, SubwordKind.CONTROL) for name in names)
    return proto + b"".join(_encoded(_SUBWORDS, _encoded_subword(symbol)) for symbol in symbols)


def _encoded_subword(subword: Subword) -> bytes:
    score = _number(_SCORE << 3 | _FIXED32) + struct.pack("<f", subword.score)
    kind = _number(_KIND << 3 | _VARINT) + _number(subword.kind)
    return _encoded(_PIECE, subword.piece.encode()) + score + kind


def bpe_model(subwords: Iterable[Subword], name: str, charsmap: bytes) -> bytes:
    """A model of byte-pair encoding with these subwords, in this order, and a normalization."""
    training = _number(_TYPE << 3 | _VARINT) + _number(_MERGES)
    written = [_encoded(_SUBWORDS, _encoded_subword(subword)) for subword in subwords]
    return with_normalization(b"".join([*written, _encoded(_TRAINING, training)]), name, charsmap)


def with_normalization(proto: bytes, name: str, charsmap: bytes) -> bytes:
    """A copy of a model with another normalization. charsmap: from `compile_rules`."""
    normalizer = _encoded(_NAME, name.encode()) + _encoded(_CHARSMAP, charsmap)
    others = [field.encoded for field in _fields(proto) if field.number != _NORMALIZER]
    return b"".join([*others, _encoded(_NORMALIZER, normalizer)])


def with_normalization_name(proto: bytes, name: str) -> bytes:
    """A copy of a model in which only the name of the normalization differs."""
    written = []
    for field in _fields(proto):
        kept = [_encoded(_NAME, name.encode())]
        if field.number == _NORMALIZER:
            kept += [inner.encoded for inner in _fields(field.content) if inner.number != _NAME]
        written.append(_encoded(_NORMALIZER, b"".join(kept)) if field.number == _NORMALIZER else field.encoded)
    return b"".join(written)


def smallest(rules: Path | None = None) -> bytes:
    """The smallest model that can normalize text. rules: a file with rules in SentencePiece's format."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(["a"]),
        model_writer=model,
        model_type="char",
        vocab_size=5,
        normalization_rule_tsv="" if rules is None else str(rules),
        minloglevel=2,  # errors only
    )
    return model.getvalue()


def compile_rules(rules: Mapping[str, str]) -> bytes:
    """Compile rules for SentencePiece. Each rule replaces a sequence of characters; the longest sequence that matches
    is replaced. A rule may leave a sequence that ends in U+200D, U+FE0E or U+FE0F unchanged."""
    lines = "".join(f"{_codes(sequence)}\t{_codes(_compilable(sequence, new))}\n" for sequence, new in rules.items())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rules.tsv"
        file.write_text(lines, encoding="ascii")
        model = smallest(file)
    charsmap = _content(_content(model, _NORMALIZER), _CHARSMAP)
    strings = 4 + int.from_bytes(charsmap[:4], "little")  # the replacements follow the trie of sequences
    texts = charsmap[strings:]
    for stand_in, character in _STANDS_FOR.items():
        texts = texts.replace(stand_in.encode(), character.encode())
    return charsmap[:strings] + texts


def _compilable(sequence: str, new: str) -> str:
    return new[:-1] + _STAND_IN[new[-1]] if sequence == new else new


def _codes(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


def _content(message: bytes, number: int) -> bytes:
    """The content of a message's last field with this number, which overrides the others; empty if there is none."""
    last = b""
    for field in _fields(message):
        if field.number == number:
            last = field.content
    return last


def _fields(message: bytes) -> Iterator[_Field]:
    """Yield the fields of a message. Raises ValueError if the bytes are not a message."""
    offset = 0
    while offset < len(message):
        start = offset
        key, offset = _varint(message, offset)
        kind, first = key & 7, offset
        if kind == _VARINT:
            _, offset = _varint(message, offset)
        elif kind == _BYTES:
            size, first = _varint(message, offset)
            offset = first + size
        elif kind in _SIZES:
            offset += _SIZES[kind]
        else:
            raise ValueError(f"a field of the unknown type {kind}")
        if offset > len(message):
            raise ValueError("ends within a field")
        yield _Field(key >> 3, message[first:offset], message[start:offset])


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    """Decode a number with seven bits in each byte. Returns it and the offset after it."""
    value = shift = 0
    while offset < len(message):
        byte = message[offset]
        value |= (byte & 0x7F) << shift
        shift, offset = shift + 7, offset + 1
        if byte < 0x80:
            return value, offset
    raise ValueError("ends within a number")


def _encoded(number: int, content: bytes) -> bytes:
    return _number(number << 3 | _BYTES) + _number(len(content)) + content


def _number(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
