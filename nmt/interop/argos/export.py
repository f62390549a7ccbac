"""Exports a model for Argos Translate, which LibreTranslate uses too: a package, `.argosmodel`, for each language pair.

A package is a zip archive of one folder: `metadata.json`, the CTranslate2 model in `model/`, `sentencepiece.model`,
which encodes the source and decodes the target, `README.md`, and an optional sentence splitter in `stanza/` or
`minisbd/`. A model of several language pairs gets its languages from the token that CTranslate2 puts before each
source, and from `target_prefix` in `metadata.json`.
Source: argostranslate 1.11 (package.py, tokenizer.py, translate.py, sbd.py).
"""

import json
import re
import shutil
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import langcodes
import sentencepiece

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_codes import english_name, normal, two_letters
from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import Config
from nmt.data.subwords.vocabulary import EOS, Vocabulary
from nmt.errors import NmtError
from nmt.interop import export_folder, model_card
from nmt.interop.ctranslate2 import files as ctranslate2_files
from nmt.interop.ctranslate2.files import QUANTIZATIONS
from nmt.interop.ctranslate2.model import load_package
from nmt.interop.exporter import ExportOptions
from nmt.interop.model_card import EngineUsage
from nmt.machine import cpu_threads

MODEL, SUBWORDS, METADATA = "model", "sentencepiece.model", "metadata.json"
# Argos Translate uses CTranslate2's defaults: the most subwords of a source, EOS included, and of an output; the rest
# is cut. CTranslate2 raises an error for positions beyond the table of positions.
LONGEST_SOURCE, LONGEST_OUTPUT = 1024, 256
# LibreTranslate and Argos Translate replace a package if their index has a higher version for its languages.
_VERSION, _ARGOS_VERSION = "100.0", "1.9.0"  # of the package, and of Argos Translate as in its own packages
# LibreTranslate's own codes for pt-BR and zh-Hant, and their names.
_OWN_NAMES = {"pb": "Portuguese (Brazil)", "zt": "Chinese (traditional)"}


class ArgosExporter:
    """Writes a folder with a package for each language pair, or the only package of a model with one pair. As
    nmt.interop.exporter.Exporter."""

    program = "Argos Translate"
    quantizations: Sequence[str] = ("int8", *(name for name in QUANTIZATIONS if name != "int8"))
    suffix: str | None = ".argosmodel"
    has_splitter = True
    has_shortlist = False
    model_values: Mapping[str, Collection[object]] = ctranslate2_files.VALUES

    def load_package(self) -> object:
        return load_package()

    def check(self, config: Config, vocabulary: Vocabulary | None = None) -> None:
        if problem := ctranslate2_files.unsupported(config.model):
            raise NmtError(problem)
        if config.data.language_pairs.tag_count() > 1:
            raise NmtError(
                f"data.language_tags: {config.data.language_tags}: Argos Translate can put one token before a source: "
                "train with target"
            )
        if (limit := config.model.longest_position) is not None and limit < LONGEST_SOURCE:
            raise NmtError(
                f"model.max_positions: {limit}: Argos Translate sends up to {LONGEST_SOURCE} subwords, and CTranslate2 "
                f"would raise an error: train with at least {LONGEST_SOURCE}, or with other model.positions"
            )
        for language, code in codes(config).items():
            if not re.fullmatch("[a-z0-9-]+", code):
                raise NmtError(
                    f"language {language!r}: Argos Translate needs the code of a language, such as en or pt-BR: "
                    "correct data.source_language and data.target_language, or import with --languages"
                )
        if vocabulary is not None:
            _check_decoding(vocabulary)

    def write(self, destination: Path, loaded: Checkpoint, options: ExportOptions) -> None:
        if options.sentence_splitter is not None:
            _check_splitter(options.sentence_splitter, loaded.config)
        with TemporaryDirectory(dir=destination.parent) as temporary:
            folder = Path(temporary)
            (folder / MODEL).mkdir()
            positions = max(export_folder.longest_position(loaded.config), LONGEST_SOURCE)
            ctranslate2_files.write(
                folder / MODEL, loaded.config, loaded.vocabulary, loaded.weights, positions, options.quantization
            )
            (folder / SUBWORDS).write_bytes(loaded.vocabulary.source.proto)
            if options.sentence_splitter is not None:
                _copy_splitter(options.sentence_splitter, folder)
            for pair, package in packages(destination, loaded.config).items():
                _write_pair(folder, loaded, pair, options.quantization)
                _write_archive(package, package_name(loaded.config, pair), folder)

    def translate(self, destination: Path, loaded: Checkpoint, lines: Sequence[str]) -> list[str]:
        """As Exporter.translate, with the same call of CTranslate2 as in Argos Translate."""
        package, *_ = packages(destination, loaded.config).values()
        return translate(package, lines, beam_size=1)

    def notes(self, loaded: Checkpoint, options: ExportOptions) -> list[str]:
        pairs = loaded.config.data.language_pairs
        names = [package_name(loaded.config, pair) for pair in pairs.pairs]
        lines = [f"packages: {', '.join(names)}"] if pairs.several else []
        lines.append(
            f"Argos Translate has its own search and length penalty, splits text into sentences by itself, cuts a "
            f"sentence after {LONGEST_SOURCE} subwords and its translation after {LONGEST_OUTPUT}, and replaces each _ "
            "by a space"
        )
        if loaded.vocabulary.source.punctuation:
            lines.append(
                "Argos Translate does not normalize punctuation, but this model was trained with it, and nmt does"
            )
        if options.sentence_splitter is None:
            lines.append(
                "no --sentence-splitter: Argos Translate downloads one for the language at the first translation"
            )
        elif options.sentence_splitter.is_dir():
            lines.append("LibreTranslate ignores a splitter of Stanza unless ARGOS_CHUNK_TYPE=STANZA is set")
        return lines


def codes(config: Config) -> Mapping[str, str]:
    """Argos Translate's code of each of the model's languages: the code of the language alone, `pb` or `zt`; the whole
    code for languages that would have the same short code."""
    pairs = config.data.language_pairs
    codes_alone = {language: _code(language) for language in dict.fromkeys([*pairs.sources, *pairs.targets])}
    repeated = [code for code in codes_alone.values() if list(codes_alone.values()).count(code) > 1]
    return {language: normal(language) if code in repeated else code for language, code in codes_alone.items()}


def package_name(config: Config, pair: LanguagePair) -> str:
    """The name of a pair's package without the suffix, in the form of Argos Translate's own packages."""
    argos_codes = codes(config)
    return f"translate-{argos_codes[pair.source]}_{argos_codes[pair.target]}-{_VERSION.replace('.', '_')}"


def packages(destination: Path, config: Config) -> dict[LanguagePair, Path]:
    """The path of each pair's package: in the folder `destination`, or the file `destination` itself."""
    pairs = config.data.language_pairs.pairs
    if not destination.is_dir():
        return {pairs[0]: destination}
    return {pair: destination / f"{package_name(config, pair)}{ArgosExporter.suffix}" for pair in pairs}


@contextmanager
def unpacked(package: Path) -> Iterator[Path]:
    """Unpack a package into a temporary folder, and give the folder that is in it."""
    with TemporaryDirectory(prefix="nmt-") as folder:
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder)
        [inner] = Path(folder).iterdir()
        yield inner


def encode(processor: sentencepiece.SentencePieceProcessor, line: str) -> list[str]:
    """The subwords of a line, as in Argos Translate."""
    return list(processor.encode(line, out_type=str))


def decode(processor: sentencepiece.SentencePieceProcessor, subwords: list[str]) -> str:
    """The text of subwords, as in Argos Translate: `_` becomes a space, and unknown subwords stay as they are."""
    text = str(processor.decode_pieces(subwords)).replace("▁", " ").replace("_", " ")
    return text.removeprefix(" ")


def translate(package: Path, sentences: Sequence[str], beam_size: int = 4) -> list[str]:
    """Translate sentences with the same call of CTranslate2 as in Argos Translate, which always uses beam_size 4;
    batches use all threads."""
    with unpacked(package) as folder:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / SUBWORDS))
        prefix = json.loads((folder / METADATA).read_text(encoding="ascii")).get("target_prefix")
        translator = load_package().Translator(str(folder / MODEL), inter_threads=cpu_threads(), intra_threads=1)
    results = translator.translate_batch(
        [encode(processor, sentence) for sentence in sentences],
        target_prefix=[[prefix]] * len(sentences) if prefix else None,
        replace_unknowns=True,
        max_batch_size=32,
        batch_type="tokens",
        beam_size=beam_size,
        num_hypotheses=1,
        length_penalty=0.2,
        return_scores=True,
    )
    return [decode(processor, result.hypotheses[0]) for result in results]


def _check_decoding(vocabulary: Vocabulary) -> None:
    """Raises NmtError unless the source's SentencePiece model decodes every target subword as the target's model
    does."""
    if vocabulary.source is vocabulary.target:
        return
    processor = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.source.proto)
    texts = vocabulary.target.decode([[i, i] for i in range(len(vocabulary.target))])
    for i, (piece, nmt_text) in enumerate(zip(vocabulary.target.every_piece(), texts, strict=True)):
        argos_text = decode(processor, [piece, piece]).replace("\n", " ")
        if i > EOS and argos_text.strip(" ") != nmt_text.replace("_", " ").strip(" "):
            raise NmtError(
                f"vocabulary.shared: false: Argos Translate decodes the target with the SentencePiece model of the "
                f"source, which decodes {piece} differently: train with a shared vocabulary"
            )


def _check_splitter(splitter: Path, config: Config) -> None:
    if len(sources := config.data.language_pairs.sources) > 1:
        raise NmtError(f"--sentence-splitter: has one language, and the model reads {', '.join(sources)}: leave it out")
    if splitter.is_dir() and not (splitter / "resources.json").is_file():
        raise NmtError(f"{splitter}: has no resources.json: give a Stanza folder, or an .onnx file of MiniSBD")
    if not splitter.is_dir() and (splitter.suffix != ".onnx" or not splitter.is_file()):
        raise NmtError(f"{splitter}: give an .onnx file of MiniSBD, or a Stanza folder")


def _copy_splitter(splitter: Path, folder: Path) -> None:
    if splitter.is_dir():
        shutil.copytree(splitter, folder / "stanza")
    else:
        (folder / "minisbd").mkdir()
        shutil.copyfile(splitter, folder / "minisbd" / splitter.name)


def _write_pair(folder: Path, loaded: Checkpoint, pair: LanguagePair, quantization: str) -> None:
    """Write the files that differ between the packages of a model."""
    pairs, argos_codes = loaded.config.data.language_pairs, codes(loaded.config)
    if tags := pairs.tags(pair):
        path = folder / MODEL / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        [config["bos_token"]], config["add_source_bos"] = tags, True
        path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    languages = {
        "from_code": argos_codes[pair.source],
        "from_name": _name(argos_codes[pair.source]),
        "to_code": argos_codes[pair.target],
        "to_name": _name(argos_codes[pair.target]),
    }
    metadata = {"package_version": _VERSION, "argos_version": _ARGOS_VERSION, **languages}
    if start := pairs.tags(pair, side=1):
        [metadata["target_prefix"]] = start  # a control symbol, which is decoded to no text
    (folder / METADATA).write_text(json.dumps(metadata, indent=2) + "\n", encoding="ascii")
    model_card.write(folder, loaded, EngineUsage("argostranslate", _usage(loaded.config, pair), [pair], quantization))


def _write_archive(path: Path, name: str, folder: Path) -> None:
    """Write a zip archive with the files of a folder as `name/…`. Equal files give equal bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            entry = zipfile.ZipInfo(f"{name}/{file.relative_to(folder).as_posix()}")
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            with file.open("rb") as content, archive.open(entry, "w", force_zip64=True) as packed:
                shutil.copyfileobj(content, packed)


def _code(language: str) -> str:
    try:
        tag = langcodes.Language.get(language)
    except ValueError:
        return normal(language)
    if tag.language == "pt" and tag.territory == "BR":
        return "pb"
    if tag.language == "zh" and tag.maximize().script == "Hant":
        return "zt"
    return two_letters(language)


def _name(code: str) -> str:
    return _OWN_NAMES.get(code) or english_name(code)


def _usage(config: Config, pair: LanguagePair) -> str:
    source, target = (codes(config)[code] for code in pair)
    package = f"{package_name(config, pair)}{ArgosExporter.suffix}"
    return f"""
With `pip install argostranslate`:

```python
import argostranslate.package, argostranslate.translate
argostranslate.package.install_from_path("{package}")
print(argostranslate.translate.translate("A sentence.", "{source}", "{target}"))
```

LibreTranslate uses packages that its user has installed like this: `libretranslate --load-only {source},{target}`.
"""
