"""SentencePiece byte-pair encoding (Sennrich et al. 2016; Kudo and Richardson 2018): learn, encode, decode."""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import sentencepiece

from nmt.config import schema
from nmt.config.special_subwords import BOS as BOS
from nmt.config.special_subwords import EOS as EOS
from nmt.config.special_subwords import PAD as PAD
from nmt.config.special_subwords import UNK as UNK
from nmt.data.subwords import normalization, punctuation, sentencepiece_model
from nmt.data.subwords.normalization import Normalization, UsedCharacters, plain
from nmt.errors import NmtError

_NO_LETTER = "\ue000"  # a character that text does not have
_THREADS = 4  # fixed, because the number is written into the model; it does not change the subwords
# Fewer lines than this are encoded or decoded one by one. For a list SentencePiece starts a thread, which takes 40 µs,
# and up to 8 ms on a busy machine.
_FEW = 16


class Tokenizer:
    """One SentencePiece model: text to subword ids and back."""

    def __init__(self, proto: bytes, name: str = "vocabulary"):
        """proto: the bytes of a model file. name: its name in messages. Raises NmtError if the bytes are not a
        SentencePiece model, and if the special subwords have other ids than PAD, UNK, BOS and EOS here."""
        self.proto, self._in_nfc = proto, False  # whether text is put into NFC first
        self.punctuation: str | None = None  # the language whose punctuation is normalized first
        self._processor = processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(proto)
        except Exception:  # RuntimeError; UnicodeDecodeError where its message quotes a damaged model; others
            raise NmtError(f"{name}: not a SentencePiece model") from None
        ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if ids != (PAD, UNK, BOS, EOS):
            raise NmtError(
                f"{name}: its ids of padding, unknown, beginning and end of sentence are {ids}, not "
                f"{(PAD, UNK, BOS, EOS)}: train it with pad_id=0, unk_id=1, bos_id=2, eos_id=3"
            )
        with suppress(ValueError):  # SentencePiece has read it, so that this is no damage
            name = sentencepiece_model.normalization_name(proto)
            self._in_nfc = name in (normalization.NFC, normalization.FOLDED)
            self.punctuation = punctuation.language_of(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self.proto,)

    def __len__(self) -> int:
        return int(self._processor.GetPieceSize())

    @property
    def has_bytes(self) -> bool:
        """Whether it encodes unknown characters as bytes instead of the unknown subword."""
        return any(map(self._processor.IsByte, range(len(self))))

    def are_bytes(self) -> list[bool]:
        """Whether each subword is a single byte, in the order of their ids."""
        return list(map(self._processor.IsByte, range(len(self))))

    def are_text(self) -> list[bool]:
        """Whether each subword is text: not a special subword, a tag or a single byte. In the order of their ids."""
        processor = self._processor
        return [not (processor.IsControl(i) or processor.IsUnknown(i) or processor.IsByte(i)) for i in range(len(self))]

    def encode(self, lines: list[str], threads: int = 1) -> list[list[int]]:
        """Return the subword ids of each line, without BOS and EOS. UNK is the only special id that text can give.
        Raises NmtError for a line that is not Unicode text."""
        lines = self.prepared(lines)
        try:
            if len(lines) < _FEW and all(isinstance(line, str) for line in lines):
                return [self._processor.Encode(line, out_type=int) for line in lines]
            return self._processor.Encode(lines, out_type=int, num_threads=threads)
        except (TypeError, UnicodeError, RuntimeError):
            _check_unicode(lines)
            raise

    def prepared(self, lines: list[str]) -> list[str]:
        """Lines in the form in which SentencePiece must get them, also from programs without nmt: in NFC, or with the
        punctuation that the model was trained with."""
        if not (self._in_nfc or self.punctuation) or not all(isinstance(line, str) for line in lines):
            return lines
        if self._in_nfc:
            lines = list(map(normalization.nfc, lines))
        return lines if self.punctuation is None else punctuation.normalized(lines, self.punctuation)

    def with_punctuation(self, language: str) -> "Tokenizer":
        """A tokenizer with the same subwords that first normalizes punctuation by the rules for a language."""
        name = punctuation.name_of(language, sentencepiece_model.normalization_name(self.proto))
        return Tokenizer(sentencepiece_model.with_normalization_name(self.proto, name))

    def encode_inside(self, text: str) -> list[int]:
        """The ids of a text that follows other text without a space; empty if its subwords always have a space."""
        normalized = self.normalize([text])[0].removeprefix("▁")
        [ids] = self.encode([_NO_LETTER + text])  # no subword contains this character and the text after it
        for start in range(len(ids)):
            if "".join(self.pieces(ids[start:])) == normalized:
                return ids[start:]
        return []

    def normalize(self, lines: list[str]) -> list[str]:
        """Each line of Unicode text in the normalized form that is cut into subwords, with `▁` for a space."""
        return list(self._processor.Normalize(self.prepared(lines)))

    def written(self, texts: list[str]) -> list[str]:
        """Encode and decode each text: the form in which a model can write it."""
        return self.decode(self.encode(texts))

    def changed(self, texts: list[str]) -> dict[str, str]:
        """The texts that a model cannot write exactly, each with the form that it can write. Differences in NFC and in
        the number of spaces are ignored."""
        return {text: back for text, back in zip(texts, self.written(texts), strict=True) if plain(text) != plain(back)}

    def normalized_by(self, rules: Normalization) -> "Tokenizer":
        """A tokenizer with the same subwords and another normalization of text."""
        return Tokenizer(sentencepiece_model.with_normalization(self.proto, rules.name, rules.charsmap))

    def with_tags(self, names: Iterable[str]) -> "Tokenizer":
        """A tokenizer with these tags, none of which may be a subword already, after all other subwords."""
        return Tokenizer(sentencepiece_model.with_control_symbols(self.proto, names))

    def scores(self) -> list[float]:
        """The score of each subword, in the order of the ids. Merges with higher scores are done first."""
        return list(map(self._processor.GetScore, range(len(self))))

    def tag(self, name: str) -> int | None:
        """The id of a tag, which is a subword that no text gives and that gives no text (see `learn`), or None."""
        tag = int(self._processor.PieceToId(name))
        return tag if self._processor.IsControl(tag) and tag > EOS else None

    def tags(self, names: Iterable[str]) -> list[int]:
        """The ids of tags. Raises NmtError for a tag that this vocabulary does not have."""
        ids = {name: self.tag(name) for name in names}
        for name, tag in ids.items():
            if tag is None:
                raise NmtError(f"vocabulary: it has no control symbol {name}")
        return [tag for tag in ids.values() if tag is not None]

    def decode(self, ids: list[list[int]]) -> list[str]:
        """Return the text of each sequence as one line. PAD, BOS and EOS give no text, UNK and numbers that are not an
        id become `⁇`, bytes that are not UTF-8 become U+FFFD, and line feeds become spaces."""
        size = len(self)
        valid = [[i if 0 <= i < size else UNK for i in sequence] for sequence in ids]
        decode = self._processor.Decode
        texts = list(map(decode, valid)) if len(valid) < _FEW else decode(valid, num_threads=1)
        return [text.replace("\n", " ") for text in texts]

    def pieces(self, ids: list[int]) -> list[str]:
        """The subwords as text, with `▁` for a space. Raises IndexError for a number that is not an id, and NmtError
        for a subword that is no text: SentencePiece reads such models too."""
        try:
            return [self._processor.IdToPiece(i) for i in ids]
        except UnicodeDecodeError:
            raise NmtError("vocabulary: a subword is not UTF-8 text: the model is damaged") from None

    def every_piece(self) -> list[str]:
        """All subwords in the order of their ids."""
        return list(self._every_piece)

    @cached_property  # 10 ms for 8,000
    def _every_piece(self) -> list[str]:
        return self.pieces(list(range(len(self))))

    @cached_property
    def spellings(self) -> list[bytes]:
        """The bytes that each subword adds to a text, in the order of the ids: UTF-8, or one byte of a character."""
        return [
            bytes([int(piece[3:5], 16)]) if self._processor.IsByte(i) else piece.replace("▁", " ").encode()
            for i, piece in enumerate(self.every_piece())
        ]


@dataclass(frozen=True)
class Vocabulary:
    """The subwords of both languages. If they are shared, both tokenizers are the same one, or `same_subwords` says
    that they differ in the normalization of text alone."""

    source: Tokenizer
    target: Tokenizer
    same_subwords: bool = False

    @property
    def shared(self) -> bool:
        return self.same_subwords or self.source is self.target

    def check_installed(self) -> None:
        """Raises NmtError if a package is missing that normalizes text for these subwords."""
        for tokenizer in (self.source, self.target):
            tokenizer.prepared([])

    @property
    def protos(self) -> tuple[bytes, bytes]:
        """Both SentencePiece models."""
        return self.source.proto, self.target.proto

    @property
    def digests(self) -> tuple[str, str]:
        """The SHA-256 of both SentencePiece models."""
        source, target = (hashlib.sha256(proto).hexdigest() for proto in self.protos)
        return source, target


def load(path: Path) -> Tokenizer:
    """Load a SentencePiece model file. Raises NmtError if it is missing or not a SentencePiece model."""
    try:
        return Tokenizer(path.read_bytes(), str(path))
    except OSError as error:
        raise NmtError(f"{path}: cannot be read: {error.strerror}") from None


def learn(
    sentences: Iterable[str],
    settings: schema.VocabularyConfig,
    tags: Sequence[str] = (),
    normalized_by: Normalization | None = None,
) -> Tokenizer:
    """Learn a vocabulary of `settings.size` subwords. The same sentences in the same order give the same bytes.

    tags: names of subwords that no text gives (Johnson et al. 2017, section 3). normalized_by: the normalization that
    was applied to the sentences; it becomes the normalization of the vocabulary. None: the one of
    `settings.normalization` for target text is applied.

    All sentences are held in memory. Raises NmtError if the size does not suit the text. Exceptions in reading the
    sentences are raised too.
    """
    model, failures, rule = io.BytesIO(), list[BaseException](), settings.normalization
    if rule in normalization.SETTINGS:
        if normalized_by is None:
            normalized_by = Normalization.from_setting(rule, side=1)
            sentences = map(normalized_by.apply, sentences)
        rule = "identity"

    def readable() -> Iterator[str]:
        """Yield the sentences. Keeps an exception in reading them, which SentencePiece would hide."""
        try:
            for sentence in sentences:
                yield sentence.replace("\u2585", " ")  # SentencePiece skips sentences with it
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                failures.append(error)
            raise

    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=readable(),
            model_writer=model,
            model_type="bpe",
            vocab_size=settings.size,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            control_symbols=list(tags),
            character_coverage=settings.character_coverage,
            byte_fallback=settings.byte_fallback,
            normalization_rule_name=rule,
            max_sentence_length=2**30,  # bytes; SentencePiece leaves out longer sentences without a message
            num_threads=_THREADS,
            minloglevel=2,  # errors only
        )
    except Exception as error:
        if not failures and isinstance(error, RuntimeError):
            raise NmtError(_explained(str(error), settings)) from None
        if not failures:
            raise
    if failures:  # also without an error: some versions of SentencePiece treat an exception as the end of the sentences
        raise failures[0]
    tokenizer = Tokenizer(model.getvalue())
    return tokenizer if normalized_by is None else tokenizer.normalized_by(normalized_by)


def learn_for(
    sides: Sequence[int],
    pairs: Iterable[tuple[str, str]],
    settings: schema.VocabularyConfig,
    tags: Sequence[str],
    used: Sequence[Sequence[UsedCharacters]],
) -> list[Tokenizer]:
    """Learn one vocabulary of these sides (0 source, 1 target) of the pairs. Returns the tokenizer of each side, or one
    if both sides have the same normalization. used: the counts of each side of each corpus. Raises as `learn`."""
    if settings.normalization not in normalization.SETTINGS:
        return [learn((pair[side] for pair in pairs for side in sides), settings, tags)]
    normalizations = []
    for side, counts in zip(sides, zip(*used, strict=True), strict=True):
        characters = frozenset[str]().union(*(count.frequent for count in counts))
        normalizations.append(Normalization.from_setting(settings.normalization, side, characters))

    def sentences() -> Iterator[str]:
        for pair in pairs:
            for side, rules in zip(sides, normalizations, strict=True):
                yield rules.apply(pair[side])

    learned = learn(sentences(), settings, tags, normalizations[-1])
    return [learned] if len(set(normalizations)) == 1 else [learned.normalized_by(normalizations[0]), learned]


def _check_unicode(lines: list[str]) -> None:
    """Raises NmtError for the first line with half of a surrogate pair, which is not a character."""
    for line_number, line in enumerate(lines, start=1):
        if isinstance(line, str) and (half := re.search("[\ud800-\udfff]", line)):
            character = f"line {line_number} of {len(lines)}: character {half.start() + 1}"
            raise NmtError(f"{character} is half of a surrogate pair: not Unicode text")


def _explained(error: str, settings: schema.VocabularyConfig) -> str:
    """An error message that explains SentencePiece's error in terms of our settings."""
    if most := re.search(r"size too high .*<= (\d+)", error):
        return f"vocabulary.size: {settings.size} is too large for the training text: set it to at most {most.group(1)}"
    if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", error):
        return (
            f"vocabulary.size: {settings.size} is too small for the characters of the training text: set it to at "
            f"least {least.group(1)}, or lower vocabulary.character_coverage: {settings.character_coverage:g}"
        )
    return f"vocabulary: SentencePiece cannot learn from the training text: {' '.join(error.split())}"
