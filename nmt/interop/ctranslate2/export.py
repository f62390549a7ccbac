"""Exports a model as a CTranslate2 folder: `nmt.interop.ctranslate2.files`, and nmt's own files."""

from pathlib import Path

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_pairs import LanguagePairs
from nmt.config.schema import DecodingConfig
from nmt.errors import NmtError
from nmt.interop import export_folder, model_card
from nmt.interop.ctranslate2 import files as ctranslate2_files
from nmt.interop.model_card import Usage


def check(loaded: Checkpoint) -> None:
    """Raises NmtError, with the setting, for a model that cannot be written."""
    if problem := ctranslate2_files.unsupported(loaded.config.model):
        raise NmtError(problem)


def write(folder: Path, loaded: Checkpoint, quantization: str = "float32") -> None:
    """Write model, vocabulary and settings into an existing empty folder; quantization: one of
    ctranslate2_files.QUANTIZATIONS. Raises NmtError as ctranslate2_files.write."""
    weights = {name: weight.float().numpy() for name, weight in loaded.weights.items()}
    positions = export_folder.longest_position(loaded.config)
    ctranslate2_files.write(folder, loaded.config, loaded.vocabulary, weights, positions, quantization)
    source_text = model_file.source_text(loaded.provenance)
    export_folder.write(folder, loaded.config, loaded.vocabulary, source_text)
    model_card.write(folder, loaded, Usage("ctranslate2", _usage(loaded), quantization=quantization))


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


def length_exponent(decoding: DecodingConfig) -> float:
    """β of the length penalty |Y|^β, as other engines have it. For `average` and `none` ours is the same; for
    ((5+|Y|)/6)^α it is chosen so that both have the same slope at 20 subwords."""
    return decoding.length_penalty * {"gnmt": 20 / (5 + 20), "average": 1.0, "none": 0.0}[decoding.normalization]


def _usage(loaded: Checkpoint) -> str:
    decoding, pairs = loaded.config.decoding, loaded.config.data.language_pairs
    before, first = (list(pairs.tags(pairs.pairs[0], side=side)) for side in (0, 1))
    tags = f"{before} + " if before else ""
    start = f", target_prefix=[{first}]" if first else ""
    skipped = f"[{len(first)}:]" if first else ""
    return f"""
With `nmt`, use this folder in place of a model file. With `pip install ctranslate2 sentencepiece`, in this folder:

```python
import ctranslate2, sentencepiece
source, target = (sentencepiece.SentencePieceProcessor(model_file=f"{{side}}.spm") for side in ("source", "target"))
search = {{"beam_size": {decoding.beam_size}, "length_penalty": {length_exponent(decoding):g}}}
subwords = {tags}source.encode("A sentence.", out_type=str)
[result] = ctranslate2.Translator(".").translate_batch([subwords], **search{start})
print(target.decode(result.hypotheses[0]{skipped}))
```
"""
