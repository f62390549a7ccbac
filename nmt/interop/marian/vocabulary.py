"""Reads the vocabularies of Marian's models: one or two SentencePiece models, and the ids of their pieces."""

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
    """The vocabularies of both sides. rows: of source and target; codes: of the languages that have a token."""

    vocabulary: Vocabulary
    rows: tuple[SubwordRows, SubwordRows]
    codes: Sequence[str]


def read(
    models: Sequence[Path], ids: Sequence[Mapping[str, int]], sizes: Sequence[int], files: Sequence[Path]
) -> MarianVocabularies:
    """Build the vocabularies from the SentencePiece models and the ids of pieces, of source and target.

    ids: a single mapping means that both sides share one vocabulary; sizes: rows of the embeddings; files: of the ids,
    for messages. Raises NmtError for ids that do not form a vocabulary, and as `subwords.tokenizer`.
    """
    protos = list(map(subwords.read, models))
    used_ids = [subwords.within(side_ids, size, file) for side_ids, size, file in zip(ids, sizes, files, strict=True)]
    if len(used_ids) == 1:
        pieces = [subwords.ordered(used_ids[0], protos)] * 2
        used_ids *= 2
    else:
        pieces = [subwords.ordered(side_ids, [proto]) for side_ids, proto in zip(used_ids, protos, strict=True)]
    codes = {piece: match[1] for piece in pieces[0] if (match := _LANGUAGE.fullmatch(piece))}
    names = {piece: f"<2{code}>" for piece, code in codes.items()}
    tokenizers = [
        subwords.tokenizer(proto, side_pieces, names, str(path))
        for proto, side_pieces, path in zip(protos, pieces, models, strict=True)
    ]
    if len(ids) == 1 and tokenizers[0].proto == tokenizers[1].proto:
        tokenizers[1] = tokenizers[0]
    vocabulary = Vocabulary(tokenizers[0], tokenizers[1], same_subwords=len(ids) == 1)
    rows = subwords.rows_of(pieces[0], used_ids[0]), subwords.rows_of(pieces[1], used_ids[1])
    return MarianVocabularies(vocabulary, rows, list(codes.values()))


def ids_of(model: Path) -> dict[str, int]:
    """The ids of a SentencePiece model's own pieces. Raises NmtError if it is damaged."""
    return {subword.piece: i for i, subword in enumerate(sentencepiece_model.subwords(subwords.read(model)))}
