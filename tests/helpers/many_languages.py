"""Random models of M2M-100, SMaLL-100 and NLLB as the hub has them, with vocabularies learned from a few lines."""

import functools
import io
import json
import random
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from helpers.other_models import scatter

from nmt.data.subwords import sentencepiece_model as sentencepiece_model_file
from nmt.interop.sample_text import LINES

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
FAMILIES = ("m2m100", "small100", "nllb")
# Of many scripts, often enough that pieces of several letters are learned.
TEXT = [
    *LINES, "the house and the garden are large", "das Haus und der Garten sind groß", "the weather is good today",
    "das Wetter ist heute gut", "сегодня погода очень хорошая", "погода сегодня не очень хорошая",
    "今天天气很好今天天气不好", "صباح الخير كيف حالك صباح النور",
]  # fmt: skip


@functools.cache
def sentencepiece_model(kind: str = "bpe", size: int = 700) -> bytes:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(TEXT * 3), model_writer=written, model_type=kind, vocab_size=size, minloglevel=2,
        hard_vocab_limit=False, character_coverage=0.995,
    )  # fmt: skip
    return written.getvalue()


def pieces_of(proto: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(proto)
    return [processor.IdToPiece(i) for i in range(processor.GetPieceSize())]


def nllb_tokenizer(proto: bytes) -> Any:
    """As transformers makes it of a SentencePiece model, for which it needs protobuf."""
    from transformers import NllbTokenizer
    from transformers.convert_slow_tokenizer import generate_merges

    every = sentencepiece_model_file.subwords(proto)[3:]
    ids = {piece: i for i, piece in enumerate([*SPECIAL, *(each.piece for each in every)])}
    scores = {each.piece: each.score for each in every}
    merges = [pair for pair in generate_merges(ids, scores) if "".join(pair) in scores]
    charsmap = sentencepiece_model_file._content(sentencepiece_model_file._content(proto, 3), 2)
    return NllbTokenizer(ids, merges, _spm_precompiled_charsmap=charsmap)


def write_vocabulary(folder: Path, family: str, kind: str) -> int:
    """The files of the tokenizer; returns the rows of the matrices."""
    from transformers.models.m2m_100 import tokenization_m2m_100
    from transformers.models.nllb import tokenization_nllb

    proto = sentencepiece_model(kind)
    (folder / "sentencepiece.bpe.model").write_bytes(proto)
    pieces = pieces_of(proto)[3:]
    if family == "nllb":
        tokens = tokenization_nllb.FAIRSEQ_LANGUAGE_CODES
        about = {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": tokens}
        (folder / "tokenizer_config.json").write_text(json.dumps(about))
        if kind == "bpe":
            nllb_tokenizer(proto).save_pretrained(folder)
        return len(SPECIAL) + len(pieces) + len(tokens) + 3  # <mask>, and two without a name
    random.Random(1).shuffle(pieces)
    ids = {piece: i for i, piece in enumerate([*SPECIAL, *pieces])}
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    tokens = [f"__{code}__" for code in tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]]
    if family == "small100":
        added = {token: len(ids) + i for i, token in enumerate(tokens)}
        (folder / "added_tokens.json").write_text(json.dumps(added))
    else:
        (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": tokens}))
    name = "SMALL100Tokenizer" if family == "small100" else "M2M100Tokenizer"
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    return len(ids) + len(tokens) + 8


@torch.no_grad()
def many_languages_folder(
    folder: Path, family: str = "m2m100", kind: str = "bpe", seed: int = 0, **changes: Any
) -> Path:
    """A model of one of the `FAMILIES`."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    config = transformers.M2M100Config(**{
        "vocab_size": write_vocabulary(folder, family, kind), "d_model": 32, "encoder_layers": 2, "decoder_layers": 1,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
        "activation_function": "relu", "max_position_embeddings": 128, "num_beams": 3, **changes,
    })  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.M2M100ForConditionalGeneration(config)
    scatter(model)
    model.save_pretrained(folder)
    return folder
