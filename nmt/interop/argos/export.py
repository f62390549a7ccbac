"""Exports a model for Argos Translate, which LibreTranslate uses too: a package, `.argosmodel`, for each pair of
languages.

A package is a zip archive of one folder: `metadata.json`, the CTranslate2 model in `model/`, `sentencepiece.model`,
which encodes the source and decodes the target, `README.md`, and the splitter of sentences in `stanza/` or `minisbd/`
if there is one. A model of several pairs is told its languages by the token that CTranslate2 puts before each source,
and by `target_prefix` of `metadata.json`.
Source: argostranslate 1.11 (package.py, tokenizer.py, translate.py, sbd.py).
"""

import json
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import sentencepiece

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_codes import english_name, normal, two_letters
from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import Config
from nmt.data.subwords.vocabulary import EOS, Vocabulary
from nmt.errors import NmtError
from nmt.interop import export_folder, model_card
from nmt.interop.ctranslate2 import export as ctranslate2
from nmt.interop.ctranslate2 import files as ctranslate2_files
from nmt.interop.export_options import Options
from nmt.interop.model_card import Usage

SUFFIX = ".argosmodel"
MODEL, SUBWORDS, METADATA = "model", "sentencepiece.model", "metadata.json"
# What Argos Translate leaves at CTranslate2's defaults: sources are cut after so many subwords, EOS included, and
# outputs after so many. Beyond the table of positions, CTranslate2 would raise an error instead.
LONGEST_SOURCE, LONGEST_OUTPUT = 1024, 256
# LibreTranslate and Argos Translate replace a package when their index has a higher version for its languages.
_VERSION, _ARGOS_VERSION = "100.0", "1.9.0"  # of the package; of Argos Translate, as its own packages have it
# Codes of its own, by which LibreTranslate shows pt-BR and zh-Hant, with their names.
_OWN_NAMES = {"pb": "Portuguese (Brazil)", "zt": "Chinese (traditional)"}


def check(loaded: Checkpoint) -> None:
    """Raises NmtError, with the setting, for a model that Argos Translate cannot use."""
    config = loaded.config
    ctranslate2.check(loaded)
    if config.data.language_pairs.tag_count() > 1:
        raise NmtError(
            f"data.language_tags: {config.data.language_tags}: Argos Translate can put one token before a source: "
            "train with target"
        )
    if (limit := config.model.longest_position) is not None and limit < LONGEST_SOURCE:
        raise NmtError(
            f"model.max_positions: {limit}: Argos Translate gives up to {LONGEST_SOURCE} subwords, and CTranslate2 "
            f"would stop with an error: train with at least {LONGEST_SOURCE}, or with other model.positions"
        )
    for language, code in codes(config).items():
        if not re.fullmatch("[a-z0-9-]+", code):
            raise NmtError(
                f"language {language!r}: Argos Translate needs the code of a language, such as en or pt-BR: correct "
                "data.source_language and data.target_language, or import with --languages"
            )
    _check_decoding(loaded.vocabulary)


def codes(config: Config) -> Mapping[str, str]:
    """The code in Argos Translate of each of the model's languages: that of the language alone, `pb` and `zt`; the
    whole one for those of which this would be the same."""
    pairs = config.data.language_pairs
    own = {language: _code(language) for language in dict.fromkeys([*pairs.sources, *pairs.targets])}
    several = [code for code in own.values() if list(own.values()).count(code) > 1]
    return {language: normal(language) if code in several else code for language, code in own.items()}


def file_name(config: Config, pair: LanguagePair) -> str:
    """Of the package of a pair, without its suffix: as Argos Translate names its own."""
    known = codes(config)
    return f"translate-{known[pair.source]}_{known[pair.target]}-{_VERSION.replace('.', '_')}"


def write(destination: Path, loaded: Checkpoint, options: Options) -> None:
    """Write a package for each pair into an existing empty folder, or, for a model of one pair, in place of a file.
    Raises NmtError for a splitter of sentences that it cannot use."""
    if options.sentence_splitter is not None:
        _check_splitter(options.sentence_splitter, loaded.config)
    pairs = loaded.config.data.language_pairs.pairs
    with TemporaryDirectory(dir=destination.parent) as made:
        folder = Path(made)
        (folder / MODEL).mkdir()
        weights = {name: weight.float().numpy() for name, weight in loaded.weights.items()}
        positions = max(export_folder.longest_position(loaded.config), LONGEST_SOURCE)
        parts = loaded.config, loaded.vocabulary, weights, positions, options.quantization
        ctranslate2_files.write(folder / MODEL, *parts)
        (folder / SUBWORDS).write_bytes(loaded.vocabulary.source.proto)
        if options.sentence_splitter is not None:
            _copy_splitter(options.sentence_splitter, folder)
        for pair in pairs:
            name = file_name(loaded.config, pair)
            _write_of_pair(folder, loaded, pair, options.quantization)
            _write_archive(destination / f"{name}{SUFFIX}" if destination.is_dir() else destination, name, folder)


def packages(destination: Path, config: Config) -> dict[LanguagePair, Path]:
    """What `write` has written, by pair."""
    pairs = config.data.language_pairs.pairs
    if destination.is_file():
        return {pairs[0]: destination}
    return {pair: destination / f"{file_name(config, pair)}{SUFFIX}" for pair in pairs}


@contextmanager
def unpacked(package: Path) -> Iterator[Path]:
    """The folder in a package that `write` has written, for as long as it is needed."""
    with TemporaryDirectory(prefix="nmt-") as folder:
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder)
        [inner] = Path(folder).iterdir()
        yield inner


def encode(processor: sentencepiece.SentencePieceProcessor, line: str) -> list[str]:
    """As Argos Translate does."""
    return list(processor.encode(line, out_type=str))


def decode(processor: sentencepiece.SentencePieceProcessor, subwords: list[str]) -> str:
    """As Argos Translate does: `_` becomes a space, and what the model does not know stays as it is."""
    text = str(processor.decode_pieces(subwords)).replace("▁", " ").replace("_", " ")
    return text.removeprefix(" ")


def explain(loaded: Checkpoint, options: Options) -> list[str]:
    """What Argos Translate does otherwise than nmt, and needs."""
    lines = [
        f"Argos Translate has its own search and length penalty, splits text into sentences by itself, cuts a sentence "
        f"after {LONGEST_SOURCE} subwords and its translation after {LONGEST_OUTPUT}, and writes a space for each _"
    ]
    if loaded.vocabulary.source.punctuation:
        lines.append("Argos Translate does not normalize punctuation, as this model was trained with and nmt does")
    if options.sentence_splitter is None:
        lines.append("no --sentence-splitter: Argos Translate downloads one for the language at the first translation")
    elif options.sentence_splitter.is_dir():
        lines.append("LibreTranslate ignores a splitter of Stanza unless ARGOS_CHUNK_TYPE=STANZA is set")
    return lines


def _check_decoding(vocabulary: Vocabulary) -> None:
    """Raises NmtError unless the SentencePiece model of the source writes every target subword as the target's own."""
    if vocabulary.source is vocabulary.target:
        return
    processor = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.source.proto)
    texts = vocabulary.target.decode([[i, i] for i in range(len(vocabulary.target))])
    for i, (piece, text) in enumerate(zip(vocabulary.target.every_piece(), texts, strict=True)):
        theirs = decode(processor, [piece, piece]).replace("\n", " ")
        if i > EOS and theirs.strip(" ") != text.replace("_", " ").strip(" "):
            raise NmtError(
                f"vocabulary.shared: false: Argos Translate writes the target with the SentencePiece model of the "
                f"source, which writes {piece} otherwise: train with a shared vocabulary"
            )


def _check_splitter(splitter: Path, config: Config) -> None:
    if len(sources := config.data.language_pairs.sources) > 1:
        raise NmtError(f"--sentence-splitter: has one language, and the model reads {', '.join(sources)}: leave it out")
    if splitter.is_dir() and not (splitter / "resources.json").is_file():
        raise NmtError(f"{splitter}: has no resources.json: give a folder of Stanza, or an .onnx file of MiniSBD")
    if not splitter.is_dir() and (splitter.suffix != ".onnx" or not splitter.is_file()):
        raise NmtError(f"{splitter}: give an .onnx file of MiniSBD, or a folder of Stanza")


def _copy_splitter(splitter: Path, folder: Path) -> None:
    if splitter.is_dir():
        shutil.copytree(splitter, folder / "stanza")
    else:
        (folder / "minisbd").mkdir()
        shutil.copyfile(splitter, folder / "minisbd" / splitter.name)


def _write_of_pair(folder: Path, loaded: Checkpoint, pair: LanguagePair, quantization: str) -> None:
    """Write what differs between the packages of a model."""
    pairs, known = loaded.config.data.language_pairs, codes(loaded.config)
    if tags := pairs.tags(pair):
        path = folder / MODEL / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        [config["bos_token"]], config["add_source_bos"] = tags, True
        path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    languages = {
        "from_code": known[pair.source],
        "from_name": _name(known[pair.source]),
        "to_code": known[pair.target],
        "to_name": _name(known[pair.target]),
    }
    metadata = {"package_version": _VERSION, "argos_version": _ARGOS_VERSION, **languages}
    if start := pairs.tags(pair, side=1):
        [metadata["target_prefix"]] = start  # a control symbol, which gives no text
    (folder / METADATA).write_text(json.dumps(metadata, indent=2) + "\n", encoding="ascii")
    model_card.write(folder, loaded, Usage("argostranslate", _usage(loaded.config, pair), [pair], quantization))


def _write_archive(path: Path, name: str, folder: Path) -> None:
    """Write the files of a folder as `name/…`; the same files give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            entry = zipfile.ZipInfo(f"{name}/{file.relative_to(folder).as_posix()}")
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            with file.open("rb") as content, archive.open(entry, "w", force_zip64=True) as packed:
                shutil.copyfileobj(content, packed)


def _code(language: str) -> str:
    import langcodes

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
    package = f"{file_name(config, pair)}{SUFFIX}"
    return f"""
With `pip install argostranslate`:

```python
import argostranslate.package, argostranslate.translate
argostranslate.package.install_from_path("{package}")
print(argostranslate.translate.translate("A sentence.", "{source}", "{target}"))
```

LibreTranslate uses what its user has installed in this way: `libretranslate --load-only {source},{target}`.
"""
