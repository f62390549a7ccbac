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
from collections.abc import Iterator, Mapping, Sequence
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
from nmt.interop.ctranslate2.export import CTranslate2Exporter, write_model
from nmt.interop.ctranslate2.files import QUANTIZATIONS
from nmt.interop.ctranslate2.model import load_package
from nmt.interop.exporter import ExportOptions
from nmt.interop.model_card import EngineUsage
from nmt.machine import cpu_threads

MODEL, SUBWORDS, METADATA = "model", "sentencepiece.model", "metadata.json"
# What Argos Translate leaves at CTranslate2's defaults: sources are cut after so many subwords, EOS included, and
# outputs after so many. Beyond the table of positions, CTranslate2 would raise an error instead.
LONGEST_SOURCE, LONGEST_OUTPUT = 1024, 256
# LibreTranslate and Argos Translate replace a package when their index has a higher version for its languages.
_VERSION, _ARGOS_VERSION = "100.0", "1.9.0"  # of the package; of Argos Translate, as its own packages have it
# Codes of its own, by which LibreTranslate shows pt-BR and zh-Hant, with their names.
_OWN_NAMES = {"pb": "Portuguese (Brazil)", "zt": "Chinese (traditional)"}


class ArgosExporter:
    """A package for each pair of languages in a folder, or the one of a model of one pair. As
    nmt.interop.exporter.Exporter."""

    program = "Argos Translate"
    quantizations: Sequence[str] = ("int8", *(name for name in QUANTIZATIONS if name != "int8"))
    suffix: str | None = ".argosmodel"
    has_splitter = True

    def check(self, loaded: Checkpoint) -> None:
        CTranslate2Exporter().check(loaded)
        config = loaded.config
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
                    f"language {language!r}: Argos Translate needs the code of a language, such as en or pt-BR: "
                    "correct data.source_language and data.target_language, or import with --languages"
                )
        _check_decoding(loaded.vocabulary)

    def write(self, destination: Path, loaded: Checkpoint, options: ExportOptions) -> None:
        if options.sentence_splitter is not None:
            _check_splitter(options.sentence_splitter, loaded.config)
        with TemporaryDirectory(dir=destination.parent) as made:
            folder = Path(made)
            (folder / MODEL).mkdir()
            positions = max(export_folder.longest_position(loaded.config), LONGEST_SOURCE)
            write_model(folder / MODEL, loaded, positions, options.quantization)
            (folder / SUBWORDS).write_bytes(loaded.vocabulary.source.proto)
            if options.sentence_splitter is not None:
                _copy_splitter(options.sentence_splitter, folder)
            for pair, package in packages(destination, loaded.config).items():
                _write_pair(folder, loaded, pair, options.quantization)
                _write_archive(package, package_name(loaded.config, pair), folder)

    def translate(self, destination: Path, loaded: Checkpoint, lines: Sequence[str]) -> list[str]:
        """By CTranslate2, called as Argos Translate does."""
        package, *_ = packages(destination, loaded.config).values()
        return translate(package, lines, beam_size=1)

    def notes(self, loaded: Checkpoint, options: ExportOptions) -> list[str]:
        pairs = loaded.config.data.language_pairs
        lines = [f"languages: a package for each of {', '.join(map(str, pairs.pairs))}"] if pairs.has_tags else []
        lines.append(
            f"Argos Translate has its own search and length penalty, splits text into sentences by itself, cuts a "
            f"sentence after {LONGEST_SOURCE} subwords and its translation after {LONGEST_OUTPUT}, and writes a space "
            "for each _"
        )
        if loaded.vocabulary.source.punctuation:
            lines.append("Argos Translate does not normalize punctuation, as this model was trained with and nmt does")
        if options.sentence_splitter is None:
            lines.append(
                "no --sentence-splitter: Argos Translate downloads one for the language at the first translation"
            )
        elif options.sentence_splitter.is_dir():
            lines.append("LibreTranslate ignores a splitter of Stanza unless ARGOS_CHUNK_TYPE=STANZA is set")
        return lines


def codes(config: Config) -> Mapping[str, str]:
    """The code in Argos Translate of each of the model's languages: that of the language alone, `pb` and `zt`; the
    whole one for those of which this would be the same."""
    pairs = config.data.language_pairs
    own = {language: _code(language) for language in dict.fromkeys([*pairs.sources, *pairs.targets])}
    several = [code for code in own.values() if list(own.values()).count(code) > 1]
    return {language: normal(language) if code in several else code for language, code in own.items()}


def package_name(config: Config, pair: LanguagePair) -> str:
    """Of the package of a pair, without its suffix: as Argos Translate names its own."""
    known = codes(config)
    return f"translate-{known[pair.source]}_{known[pair.target]}-{_VERSION.replace('.', '_')}"


def packages(destination: Path, config: Config) -> dict[LanguagePair, Path]:
    """The package of each pair: files in a folder, or one file."""
    pairs = config.data.language_pairs.pairs
    if not destination.is_dir():
        return {pairs[0]: destination}
    return {pair: destination / f"{package_name(config, pair)}{ArgosExporter.suffix}" for pair in pairs}


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


def translate(package: Path, sentences: Sequence[str], beam_size: int = 4) -> list[str]:
    """As Argos Translate translates each sentence, where beam_size is always 4: the same call of CTranslate2, with
    batches on all threads."""
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


def _write_pair(folder: Path, loaded: Checkpoint, pair: LanguagePair, quantization: str) -> None:
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
    model_card.write(folder, loaded, EngineUsage("argostranslate", _usage(loaded.config, pair), [pair], quantization))


def _write_archive(path: Path, name: str, folder: Path) -> None:
    """Write the files of a folder as `name/…`; the same files give the same bytes."""
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

LibreTranslate uses what its user has installed in this way: `libretranslate --load-only {source},{target}`.
"""
