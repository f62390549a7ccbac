"""Random models as other programs store them, with vocabularies that are learned from a few lines."""

import functools
import io
import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch

WORDS = ("the old house stands near a river and has many small windows , where people like to sit in summer . "
         "das alte Haus steht am Fluss und hat viele kleine Fenster , wo Leute im Sommer gern sitzen . "
         "Добрый день , как дела ? 今天 天气 很 好 。 صباح الخير كيف حالك اليوم").split()  # fmt: skip


def text(seed: int, lines: int = 400) -> list[str]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 12, (lines,), generator=generator).tolist()
    return [" ".join(WORDS[i] for i in torch.randint(len(WORDS), (n,), generator=generator).tolist()) for n in lengths]


@functools.cache
def sentencepiece_model(seed: int, size: int = 150, kind: str = "unigram") -> bytes:
    """As OPUS-MT has them: unigrams, no padding, no bytes."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(text(seed)), model_writer=written, model_type=kind, vocab_size=size, minloglevel=2,
        hard_vocab_limit=False, character_coverage=1.0,
    )  # fmt: skip
    return written.getvalue()


def pieces_of(proto: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(proto)
    return [processor.IdToPiece(i) for i in range(processor.GetPieceSize())]


def write_vocabularies(
    folder: Path, *, separate: bool = False, codes: tuple[str, ...] = (), kind: str = "unigram"
) -> dict[str, dict[str, int]]:
    """source.spm, target.spm and the ids of their pieces, in an order of their own, some pieces left out."""
    protos = sentencepiece_model(1, kind=kind), sentencepiece_model(2, kind=kind)
    for name, proto in zip(("source.spm", "target.spm"), protos, strict=True):
        (folder / name).write_bytes(proto)
    by_side = [[piece for piece in pieces_of(proto)[3:] if not piece.endswith("Fenster")] for proto in protos]
    if not separate:
        by_side = [[*by_side[0], *by_side[1]]]
    files = {}
    for name, pieces in zip(("vocab.json", "target_vocab.json"), by_side, strict=False):
        shuffled = sorted(dict.fromkeys(pieces), key=lambda piece: piece[::-1])
        named = ["</s>", "<unk>", *shuffled, *(f">>{code}<<" for code in codes), "<pad>"]
        files[name] = {piece: i for i, piece in enumerate(named)}
        (folder / name).write_text(json.dumps(files[name], ensure_ascii=False), encoding="utf-8")
    return files


@torch.no_grad()
def marian_folder(
    folder: Path, *, separate: bool = False, codes: tuple[str, ...] = (), kind: str = "unigram", **changes: Any
) -> Path:
    """A MarianMT model as OPUS-MT has them on the hub."""
    import transformers

    ids = write_vocabularies(folder, separate=separate, codes=codes, kind=kind)
    shared = not separate
    sizes = {name: len(of_side) for name, of_side in ids.items()}
    size = sizes["vocab.json"]
    config = transformers.MarianConfig(**{
        "vocab_size": size, "decoder_vocab_size": sizes.get("target_vocab.json", size), "d_model": 32,
        "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "activation_function": "swish", "scale_embedding": True,
        "max_position_embeddings": 128, "share_encoder_decoder_embeddings": shared,
        "pad_token_id": size - 1 if shared else sizes["vocab.json"] - 1, "eos_token_id": 0,
        "decoder_start_token_id": sizes.get("target_vocab.json", size) - 1, "num_beams": 3, **changes,
    })  # fmt: skip
    torch.manual_seed(0)
    model = transformers.MarianMTModel(config)
    scatter(model)
    model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))
    model.save_pretrained(folder)
    about = {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps({**about, "tokenizer_class": "MarianTokenizer"}))
    return folder


def scatter(model: torch.nn.Module) -> None:
    """Weights of which every one matters: norms and biases start at 1 and 0, and all matrices are small."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.add_(0.2 * torch.randn_like(parameter))
        elif "embed" not in name and "shared" not in name and "lm_head" not in name:
            parameter.mul_(8)
        else:
            parameter.mul_(6)
