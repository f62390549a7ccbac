"""Translates with MarianMT models in transformers, and gives them the target language."""

from collections.abc import Sequence
from pathlib import Path

from nmt.config.schema import Config
from nmt.interop import hugging_face


def language_code(target: str) -> str:
    """The code of a target language that comes before a text. MarianTokenizer encodes it as one subword."""
    return f">>{target}<<"


def translate(folder: Path, config: Config, lines: Sequence[str]) -> list[str]:
    """Translates lines with the model in a folder, by greedy search, into the first target language of the settings."""
    transformers, pairs = hugging_face.load_package(), config.data.language_pairs
    model = transformers.MarianMTModel.from_pretrained(folder, local_files_only=True)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder, local_files_only=True)
    if pairs.has_tags:
        lines = [f"{language_code(pairs.pairs[0].target)} {line}" for line in lines]
    return hugging_face.translate(model, tokenizer, lines)
