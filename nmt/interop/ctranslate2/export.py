"""Exports a model as a CTranslate2 folder: the files of `nmt.interop.ctranslate2.files`, and nmt's own files."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import Config, DecodingConfig
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.decoding.confidence import Calibration
from nmt.errors import NmtError
from nmt.interop import export_folder, model_card, parity
from nmt.interop.ctranslate2 import files as ctranslate2_files
from nmt.interop.ctranslate2.folder import CTranslate2Folder
from nmt.interop.ctranslate2.model import load_package
from nmt.interop.exporter import ExportOptions
from nmt.interop.model_card import EngineUsage


class CTranslate2Exporter:
    """A CTranslate2 folder, for CTranslate2 and for nmt. As nmt.interop.exporter.Exporter."""

    program = "CTranslate2"
    quantizations: Sequence[str] = ctranslate2_files.QUANTIZATIONS
    suffix: str | None = None
    has_splitter = False
    has_shortlist = True
    model_values: Mapping[str, Collection[object]] = ctranslate2_files.VALUES

    def load_package(self) -> object:
        return load_package()

    def check(self, config: Config, vocabulary: Vocabulary | None = None) -> None:
        if problem := ctranslate2_files.unsupported(config.model):
            raise NmtError(problem)

    def write(self, destination: Path, loaded: Checkpoint, options: ExportOptions) -> None:
        write(destination, loaded, options.quantization)

    def translate(self, destination: Path, loaded: Checkpoint, lines: Sequence[str]) -> list[str]:
        return parity.translate_by(CTranslate2Folder(destination, "cpu"), loaded, lines)

    def notes(self, loaded: Checkpoint, options: ExportOptions) -> list[str]:
        pairs = loaded.config.data.language_pairs
        if not pairs.has_tags:
            return []
        tags = [f"{pair}: {' '.join(pairs.tags(pair))}" for pair in pairs.pairs]
        tokens = "tokens before those of the source"
        if pairs.tag_count(side=1):
            tags = [f"{pair}: {' and '.join(pairs.tags(pair) + pairs.tags(pair, side=1))}" for pair in pairs.pairs]
            tokens = "a token before those of the source, and give one as target_prefix, which the output begins with"
        return [f"languages: nmt chooses them with --to; other programs must put {tokens}: {'; '.join(tags)}"]


def write(folder: Path, loaded: Checkpoint, quantization: str = "float32") -> None:
    """Write model, vocabulary, settings and model card into an existing empty folder. Raises NmtError as
    ctranslate2_files.write."""
    positions = export_folder.longest_position(loaded.config)
    ctranslate2_files.write(
        folder, loaded.config, loaded.vocabulary, loaded.weights, positions, quantization, loaded.shortlist
    )
    known = model_file.source_text(loaded.provenance), Calibration.of(loaded.provenance)
    export_folder.write(folder, loaded.config, loaded.vocabulary, known)
    model_card.write(folder, loaded, EngineUsage("ctranslate2", _usage(loaded), quantization=quantization))


def length_exponent(decoding: DecodingConfig) -> float:
    """β of the length penalty |Y|^β of other engines. It is exact for `average` and `none`. For ((5+|Y|)/6)^α, β is
    chosen so that both penalties have the same slope at 20 subwords."""
    return decoding.length_penalty * {"gnmt": 20 / (5 + 20), "average": 1.0, "none": 0.0}[decoding.normalization]


def _usage(loaded: Checkpoint) -> str:
    decoding, pairs = loaded.config.decoding, loaded.config.data.language_pairs
    before, first = (list(pairs.tags(pairs.pairs[0], side=side)) for side in (0, 1))
    tags = f"{before} + " if before else ""
    start = f", target_prefix=[{first}]" if first else ""
    skipped = f"[{len(first)}:]" if first else ""
    shortlist = ', "use_vmap": True' if loaded.shortlist is not None and not first else ""
    return f"""
With `nmt`, use this folder in place of a model file. With `pip install ctranslate2 sentencepiece`, in this folder:

```python
import ctranslate2, sentencepiece
source, target = (sentencepiece.SentencePieceProcessor(model_file=f"{{side}}.spm") for side in ("source", "target"))
search = {{"beam_size": {decoding.beam_size}, "length_penalty": {length_exponent(decoding):g}{shortlist}}}
subwords = {tags}source.encode("A sentence.", out_type=str)
[result] = ctranslate2.Translator(".").translate_batch([subwords], **search{start})
print(target.decode(result.hypotheses[0]{skipped}))
```
"""
