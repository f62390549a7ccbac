"""Random models as other programs store them, with vocabularies that are learned from a few lines."""

import functools
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
import yaml

TEXT = """
the old house stands near a river and has many small windows , where people like to sit in summer .
das alte Haus steht am Fluss und hat viele kleine Fenster , wo Leute im Sommer gern sitzen .
Добрый день , как дела ? 今天 天气 很 好 。 صباح الخير كيف حالك اليوم
"""
WORDS = TEXT.split()


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
        "decoder_start_token_id": sizes.get("target_vocab.json", size) - 1, **changes,
    })  # fmt: skip
    torch.manual_seed(0)
    model = transformers.MarianMTModel(config)
    scatter(model)
    model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))
    model.save_pretrained(folder)
    generation = {"num_beams": 3, "bad_words_ids": [[config.pad_token_id]], "max_length": 100}
    (folder / "generation_config.json").write_text(json.dumps(generation))
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


def marian_npz(folder: Path, *, kind: str = "unigram", spm: bool = False, **changes: Any) -> Path:
    """A model of Marian itself, beside its vocabularies."""
    generator = np.random.default_rng(3)
    if spm:
        proto = sentencepiece_model(1, kind=kind)
        for name in ("a.spm", "b.spm"):
            (folder / name).write_bytes(proto)
        size, vocabularies = len(pieces_of(proto)), ["a.spm", "b.spm"]
    else:
        ids = write_vocabularies(folder, kind=kind)["vocab.json"]
        ids.pop("<pad>")
        (folder / "vocab.yml").write_text(yaml.safe_dump(ids, allow_unicode=True), encoding="utf-8")
        size, vocabularies = len(ids), ["vocab.yml", "vocab.yml"]
    settings = {
        "type": "transformer", "dim-emb": 32, "dim-vocabs": [size, size], "enc-depth": 2, "dec-depth": 3,
        "transformer-heads": 4, "transformer-dim-ffn": 48, "transformer-ffn-depth": 2, "transformer-preprocess": "",
        "transformer-postprocess": "dan", "transformer-postprocess-emb": "d", "transformer-ffn-activation": "swish",
        "transformer-decoder-autoreg": "self-attention", "tied-embeddings-all": True, "tied-embeddings": False,
        "tied-embeddings-src": False, "skip": False, "layer-normalization": False, "version": "v1.12.0",
        "transformer-no-projection": False, "transformer-tied-layers": [], "transformer-train-positions": False,
        "output-omit-bias": False, "vocabs": [f"/somewhere/{name}" for name in vocabularies], **changes,
    }  # fmt: skip
    width, inner = settings["dim-emb"], settings["transformer-dim-ffn"]
    arrays = dict[str, Any]()

    def add(name: str, *shape: int, mean: float = 0.0, std: float = 0.2) -> None:
        arrays[name] = (mean + std * generator.standard_normal(shape)).astype(np.float32)

    if settings["tied-embeddings-all"] or settings["tied-embeddings-src"]:
        add("Wemb", size, width, std=0.3)
    else:
        add("encoder_Wemb", size, width, std=0.3)
        add("decoder_Wemb", size, width, std=0.3)
    if not (settings["tied-embeddings-all"] or settings["tied-embeddings"]):
        add("decoder_ff_logit_out_Wt", size, width, std=0.3)
    if not settings["output-omit-bias"]:
        add("decoder_ff_logit_out_b", 1, size)
    for side in ("encoder", "decoder"):
        for number in range(1, settings["enc-depth" if side == "encoder" else "dec-depth"] + 1):
            for attention in ("self",) if side == "encoder" else ("self", "context"):
                prefix = f"{side}_l{number}_{attention}"
                for letter in "qkvo":
                    add(f"{prefix}_W{letter}", width, width)
                    add(f"{prefix}_b{letter}", 1, width)
                add(f"{prefix}_Wo_ln_scale", 1, width, mean=1.0)
                add(f"{prefix}_Wo_ln_bias", 1, width)
            prefix = f"{side}_l{number}_ffn"
            for name, shape in (("1", (width, inner)), ("2", (inner, width))):
                add(f"{prefix}_W{name}", *shape)
                add(f"{prefix}_b{name}", 1, shape[1])
            add(f"{prefix}_ffn_ln_scale", 1, width, mean=1.0)
            add(f"{prefix}_ffn_ln_bias", 1, width)
    text = yaml.safe_dump(settings).encode() + b"\0"
    arrays["special:model.yml"] = np.frombuffer(text, np.int8)
    np.savez(folder / "model.npz", **arrays)
    search = {"models": ["model.npz"], "vocabs": vocabularies, "beam-size": 3, "normalize": 1, "word-penalty": 0}
    (folder / "decoder.yml").write_text(yaml.safe_dump({**search, "relative-paths": True}))
    return folder / "model.npz"
