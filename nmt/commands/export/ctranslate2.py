"""Exports a model as a CTranslate2 folder: `nmt.checkpoints.ctranslate2_files`, and nmt's own files."""

from pathlib import Path

from nmt.checkpoints import ctranslate2_files, export_folder, model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_pairs import LanguagePairs


def write(folder: Path, loaded: Checkpoint, quantization: str = "float32") -> None:
    """Write model, vocabulary and settings into an existing empty folder; quantization: one of
    ctranslate2_files.QUANTIZATIONS. Raises NmtError as ctranslate2_files.write."""
    weights = {name: weight.float().numpy() for name, weight in loaded.weights.items()}
    positions = export_folder.longest_position(loaded.config)
    ctranslate2_files.write(folder, loaded.config, loaded.vocabulary, weights, positions, quantization)
    source_text = model_file.source_text(loaded.provenance)
    export_folder.write(folder, loaded.config, loaded.vocabulary, source_text)


def explain_languages(pairs: LanguagePairs) -> str:
    """How a model of several pairs is told the languages."""
    of_nmt, before = "nmt chooses them with --to; other programs must put", "before those of the source"
    if pairs.tag_count(side=1):
        each = (f"{pair}: {' and '.join(pairs.tags(pair) + pairs.tags(pair, side=1))}" for pair in pairs.pairs)
        return (
            f"{of_nmt} a token {before}, and give one as target_prefix, which the output begins with: {'; '.join(each)}"
        )
    tags = "; ".join(f"{pair}: {' '.join(pairs.tags(pair))}" for pair in pairs.pairs)
    return f"{of_nmt} tokens {before}: {tags}"
