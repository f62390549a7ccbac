"""The vocabularies of Marian's models, in both forms: one or two SentencePiece models, and the ids of their pieces."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.data.subwords import sentencepiece_model
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.interop import subwords
from nmt.interop.subwords import SubwordRows

_LANGUAGE = re.compile(r">>([A-Za-z0-9][A-Za-z0-9_-]*)<<")  # a token before the source: the target's code


@dataclass(frozen=True)
class MarianVocabularies:
    """rows: of source and target; codes: of the languages that have a token."""

    vocabulary: Vocabulary
    rows: tuple[SubwordRows, SubwordRows]
    codes: Sequence[str]


def read(
    models: Sequence[Path], ids: Sequence[Mapping[str, int]], sizes: Sequence[int], files: Sequence[Path]
) -> MarianVocabularies:
    """The vocabularies from the SentencePiece models, and the ids of pieces, of source and target. One mapping of ids:
    both are one vocabulary. sizes: rows of the embeddings; files: of the ids, in messages.

    Raises NmtError for ids that are no vocabulary, and as `subwords.tokenizer`.
    """
    protos = list(map(subwords.read, models))
    known = [subwords.within(each, size, file) for each, size, file in zip(ids, sizes, files, strict=True)]
    if len(known) == 1:
        pieces = [subwords.ordered(known[0], protos)] * 2
        known *= 2
    else:
        pieces = [subwords.ordered(each, [proto]) for each, proto in zip(known, protos, strict=True)]
    codes = {piece: match[1] for piece in pieces[0] if (match := _LANGUAGE.fullmatch(piece))}
    names = {piece: f"<2{code}>" for piece, code in codes.items()}
    tokenizers = [
        subwords.tokenizer(proto, of_side, names, str(path))
        for proto, of_side, path in zip(protos, pieces, models, strict=True)
    ]
    if len(ids) == 1 and tokenizers[0].proto == tokenizers[1].proto:
        tokenizers[1] = tokenizers[0]
    vocabulary = Vocabulary(tokenizers[0], tokenizers[1], same_subwords=len(ids) == 1)
    first, second = (subwords.rows_of(*each) for each in zip(pieces, known, strict=True))
    return MarianVocabularies(vocabulary, (first, second), list(codes.values()))


def ids_of(model: Path) -> dict[str, int]:
    """The ids of a SentencePiece model's own pieces. Raises NmtError if it is damaged."""
    return {subword.piece: i for i, subword in enumerate(sentencepiece_model.subwords(subwords.read(model)))}
