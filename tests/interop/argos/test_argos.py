"""Packages for Argos Translate hold the same model, and translate, called as there, as the model does."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.export_models import LINES, MARIAN, SEPARATE, make_model, make_settings
from helpers.other_models import marian_folder, text

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.export import export
from nmt.commands.imports import import_model
from nmt.config.schema import VocabularyConfig
from nmt.data.subwords import vocabulary
from nmt.data.subwords.normalization import Normalization
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.errors import NmtError
from nmt.interop.argos import export as argos
from nmt.interop.argos.export import ArgosExporter
from nmt.interop.ctranslate2 import export as ctranslate2
from nmt.interop.exporter import ExportOptions

PAIRS = "data.train=[{source: a, target: b, languages: [en, de]}, {source: a, target: b, languages: [en, fr]}]"
FULL = [line for line in LINES if line]


def package_of(made: Checkpoint, folder: Path, splitter: Path | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    ArgosExporter().write(folder, made, ExportOptions("float32", sentence_splitter=splitter))
    [package] = folder.iterdir()
    return package


def check(made: Checkpoint) -> None:
    ArgosExporter().check(made.config, made.vocabulary)


def translate_with_ctranslate2(made: Checkpoint, folder: Path, lines: Sequence[str]) -> list[str]:
    """By a plain CTranslate2 folder and nmt's own tokenizers, with Argos Translate's search."""
    import ctranslate2 as package

    folder.mkdir()
    longer = replace(made.config, decoding=replace(made.config.decoding, max_extra_tokens=argos.LONGEST_OUTPUT))
    ctranslate2.write(folder, replace(made, config=longer))
    source, target = made.vocabulary.source, made.vocabulary.target
    found = package.Translator(str(folder)).translate_batch(
        [source.pieces(ids) for ids in source.encode(list(lines))], beam_size=4, length_penalty=0.2
    )
    ids = {piece: i for i, piece in enumerate(target.every_piece())}
    return target.decode([[ids[piece] for piece in result.hypotheses[0]] for result in found])


@pytest.mark.parametrize("overrides", [(), SEPARATE, MARIAN], ids=" ".join)
def test_a_package_is_the_model_and_translates_as_it_does(overrides: tuple[str, ...], tmp_path: Path) -> None:
    made = make_model(*overrides)
    package = package_of(made, tmp_path / "out")
    assert argos.translate(package, FULL) == [
        text.replace("_", " ") for text in translate_with_ctranslate2(made, tmp_path / "plain", FULL)
    ]


def test_a_model_of_marian_becomes_a_package(tmp_path: Path) -> None:
    """Its two SentencePiece models have the same ids, and other subwords."""
    pytest.importorskip("transformers")
    (tmp_path / "marian").mkdir()
    folder, model = marian_folder(tmp_path / "marian"), tmp_path / "model.safetensors"
    import_model(str(folder), model, ["en", "de"])
    lines = text(5, 20)
    found = export(model, "argos", tmp_path / "out.argosmodel", "float32", lines)
    assert found is not None
    for ours, theirs in zip(found.nmt_lines, found.program_lines, strict=True):
        assert theirs.startswith(ours)  # of random weights some end at our longest length
    made = model_file.load(model)
    targets = [made.vocabulary.target.every_piece()[i : i + 3] for i in range(4, 200, 3)]
    ids = {piece: i for i, piece in enumerate(made.vocabulary.target.every_piece())}
    written = made.vocabulary.target.decode([[ids[piece] for piece in pieces] for pieces in targets])
    assert [argos.decode(made.vocabulary.source._processor, pieces) for pieces in targets] == written


def test_a_package_has_what_argos_translate_reads(tmp_path: Path) -> None:
    made, splitter = make_model(), tmp_path / "en.onnx"
    splitter.write_bytes(b"a network")
    package = package_of(made, tmp_path / "out", splitter)
    assert package.name == "translate-en_de-100_0.argosmodel"
    with zipfile.ZipFile(package) as archive:
        files = {name.removeprefix("translate-en_de-100_0/"): archive.read(name) for name in archive.namelist()}
    assert files.keys() == {
        "metadata.json", "README.md", "sentencepiece.model", "minisbd/en.onnx",
        "model/config.json", "model/model.bin", "model/shared_vocabulary.json",
    }  # fmt: skip
    assert files["sentencepiece.model"] == made.vocabulary.source.proto and files["minisbd/en.onnx"] == b"a network"
    assert json.loads(files["metadata.json"]) == {
        "package_version": "100.0", "argos_version": "1.9.0",
        "from_code": "en", "from_name": "English", "to_code": "de", "to_name": "German",
    }  # fmt: skip
    assert b"argostranslate.translate.translate" in files["README.md"]
    assert package.read_bytes() == package_of(made, tmp_path / "again", splitter).read_bytes()


def test_their_side_of_text(tmp_path: Path) -> None:
    """A sentence longer than the positions is cut, not an error; `_` becomes a space."""
    made = make_model()
    assert len(argos.translate(package_of(made, tmp_path / "out"), ["one " * 3000, "two"])) == 2
    processor = made.vocabulary.source._processor
    assert argos.decode(processor, argos.encode(processor, "two_three{a_b}")) == "two three{a b}"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ([PAIRS, "data.language_tags=both"], r"data\.language_tags: both: Argos Translate can put one token"),
        (
            ["data.train=[{source: a, target: b, languages: [en, ../x]}]", "data.validation=null"],
            r"language '\.\./x': ",
        ),
        (["model.positions=learned", "model.max_positions=300"], r"model\.max_positions: 300: .*at least 1024"),
    ],
)
def test_what_argos_translate_cannot_do_is_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(NmtError, match=words):
        check(replace(make_model(), config=make_settings(*overrides)))


def test_subwords_that_the_sources_model_writes_otherwise_are_refused() -> None:
    text = ["one two three äöü"] * 20
    target = vocabulary.learn(text, VocabularyConfig(size=290))
    folded = target.normalized_by(Normalization.from_setting("fold_source", side=0))
    check(replace(make_model(), vocabulary=Vocabulary(folded, target, same_subwords=True)))
    source = vocabulary.learn(text, VocabularyConfig(size=24, byte_fallback=False))
    check(replace(make_model(*SEPARATE), vocabulary=Vocabulary(target, source)))
    with pytest.raises(NmtError, match=r"vocabulary\.shared: false: .*decodes <0x00> differently"):
        check(replace(make_model(*SEPARATE), vocabulary=Vocabulary(source, target)))


def test_a_splitter_that_cannot_be_loaded_is_refused(tmp_path: Path) -> None:
    several = replace(make_model(), config=make_settings(PAIRS.replace("[en, fr]", "[fr, de]")))
    for splitter, made, words in (
        (tmp_path, make_model(), "has no resources.json"),
        (tmp_path / "en.onnx", make_model(), "give an .onnx file of MiniSBD"),
        (tmp_path, several, "the model reads en, fr"),
    ):
        with pytest.raises(NmtError, match=words):
            ArgosExporter().write(tmp_path, made, ExportOptions("int8", sentence_splitter=splitter))
    assert not list(tmp_path.iterdir())


def test_languages_have_argos_translates_codes() -> None:
    def codes(*targets: str) -> list[str]:
        corpora = ", ".join(f"{{source: a, target: b, languages: [eng, {target}]}}" for target in targets)
        return list(argos.codes(make_settings(f"data.train=[{corpora}]", "data.validation=null")).values())

    assert codes("de-AT", "pt-BR", "zh_TW", "zh", "nds") == ["en", "de", "pb", "zt", "zh", "nds"]
    assert codes("sr-Latn", "sr-Cyrl") == ["en", "sr-latn", "sr-cyrl"]
    made = replace(make_model(), config=make_settings(PAIRS.replace(", fr]", ", ewe]")))
    note, *_ = ArgosExporter().notes(made, ExportOptions("int8"))
    assert note == "packages: translate-en_de-100_0, translate-en_ee-100_0"


def test_a_file_is_written_once(tmp_path: Path) -> None:
    model_file.save(tmp_path / "model.safetensors", make_model())
    output = tmp_path / "en-de.argosmodel"
    found = export(tmp_path / "model.safetensors", "argos", output, lines=FULL)
    assert found is not None and len(found.nmt_lines) == len(FULL) and output.is_file()
    before = output.read_bytes()
    with pytest.raises(NmtError, match="exists already: choose another"):
        export(tmp_path / "model.safetensors", "argos", output)
    assert output.read_bytes() == before


def test_a_file_holds_one_pair(tmp_path: Path) -> None:
    model_file.save(tmp_path / "model.safetensors", replace(make_model(), config=make_settings(PAIRS)))
    with pytest.raises(NmtError, match="a file has one language pair, and the model has 2: name a folder"):
        export(tmp_path / "model.safetensors", "argos", tmp_path / "out.argosmodel")


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("argostranslate") is None, reason="pip install argostranslate, or argos-translate-lt")
def test_argos_translate_itself_translates_the_same(tmp_path: Path) -> None:
    package = package_of(make_model(), tmp_path / "out")
    script = Path(__file__).parents[3] / "helpers" / "argos_translate.py"
    command = [sys.executable, str(script), str(package), "en", "de", str(tmp_path), "as-one"]
    text = "".join(f"{line}\n" for line in FULL)
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[:-1] == argos.translate(package, FULL)
