"""MarianMT models in transformers: how they are told the target language, and their translations."""

from collections.abc import Sequence
from pathlib import Path

from nmt.config.schema import Config
from nmt.interop import hugging_face


def language_code(target: str) -> str:
    """What stands before a text for MarianTokenizer, which makes one subword of it: that of the target language."""
    return f">>{target}<<"


def translate(folder: Path, config: Config, lines: Sequence[str]) -> list[str]:
    """The translations by the model in a folder, by greedy search, into the first language of the settings."""
    transformers, pairs = hugging_face.load_package(), config.data.language_pairs
    model = transformers.MarianMTModel.from_pretrained(folder, local_files_only=True)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder, local_files_only=True)
    if pairs.has_tags:
        lines = [f"{language_code(pairs.pairs[0].target)} {line}" for line in lines]
    return hugging_face.translate(model, tokenizer, lines)
