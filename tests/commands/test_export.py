"""An exported folder is there whole, or not at all."""

import os
import sys
from pathlib import Path
from typing import get_args

import pytest
from helpers.export_models import LINES, make_model, make_settings
from helpers.model_files import make_checkpoint

from nmt.checkpoints import model_file
from nmt.commands.export import EXPORTERS, export
from nmt.errors import NmtError
from nmt.interop.ctranslate2 import files as ctranslate2_files
from nmt.interop.ctranslate2.export import CTranslate2Exporter
from nmt.interop.exporter import Format


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    model_file.save(path, make_model())
    return path


def test_every_name_is_a_format() -> None:
    assert set(EXPORTERS) == set(get_args(Format))


@pytest.mark.parametrize("format", ["ctranslate2", "marian"])
def test_a_model_file_becomes_a_folder(format: Format, model: Path, tmp_path: Path) -> None:
    found = export(model, format, tmp_path / "deep" / "out", lines=LINES)
    assert found is not None and len(found.nmt_lines) == len(LINES) - 1 and len(found.different) <= 1
    assert (tmp_path / "deep" / "out" / "nmt.yaml").is_file()
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / "out"]


def test_what_is_there_is_not_overwritten(model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    export(model, "ctranslate2", tmp_path / "out", lines=LINES)  # nothing in it: nothing is lost
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    for output in (tmp_path / "out", model):
        with pytest.raises(
            NmtError, match=r"(exists already and is not empty|a file, not a folder): choose another --out"
        ):
            export(model, "ctranslate2", output, lines=LINES)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    (tmp_path / ".new.part").mkdir()  # the user's
    (tmp_path / ".new.part" / "model.bin").write_text("thesis")
    there = {path.name for path in tmp_path.iterdir()}
    assert export(model, "ctranslate2", tmp_path / "new", lines=LINES)
    assert {path.name for path in tmp_path.iterdir()} == there | {"new"}
    assert (tmp_path / ".new.part" / "model.bin").read_text() == "thesis"


def test_the_folder_has_the_permissions_of_any_new_folder(model: Path, tmp_path: Path) -> None:
    (tmp_path / "any").mkdir()
    export(model, "ctranslate2", tmp_path / "out", lines=LINES)
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_name_that_is_not_utf_8_is_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(NmtError, match="the name is not UTF-8"):
        export(model, "ctranslate2", tmp_path / os.fsdecode(b"new\xff"), lines=LINES)


def test_the_current_folder_is_not_replaced(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for output in (Path(), tmp_path / "here"):
        with pytest.raises(NmtError, match="is the current folder"):
            export(model, "ctranslate2", output, lines=LINES)
    for output in (Path(".."), Path("/")):
        with pytest.raises(NmtError, match="exists already"):
            export(model, "ctranslate2", output, lines=LINES)
    assert export(model, "ctranslate2", Path("new/below"), lines=LINES)


def test_translations_that_differ_are_counted(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = ctranslate2_files.write

    def without_feed_forward(folder, config, vocabulary, weights, *arguments):  # type: ignore[no-untyped-def]
        changed = {name: 0 * weight if "feed_forward.outer" in name else weight for name, weight in weights.items()}
        write(folder, config, vocabulary, changed, *arguments)

    monkeypatch.setattr(ctranslate2_files, "write", without_feed_forward)
    found = export(model, "ctranslate2", tmp_path / "out", lines=LINES)
    assert found is not None and found.different and (tmp_path / "out" / "model.bin").is_file()


def test_mistakes_are_told_before_the_work(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, words in (
        ((model, "ctranslate2", tmp_path / "out", "int4"), "--quantization int4: choose one of float32, "),
        ((model, "marian", tmp_path / "out", "int8"), "--quantization int8: marian is always float32"),
        ((model, "marian", model / "out"), "is a file, not a folder"),
    ):
        with pytest.raises(NmtError, match=words):
            export(*arguments)  # type: ignore[arg-type]
    for package, target, install in (
        ("ctranslate2", "ctranslate2", r"pip install 'nmt-toolkit\[ctranslate2\]'$"),
        ("transformers", "marian", r"pip install 'nmt-toolkit\[marian\]'$"),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(NmtError, match=install):
            export(model, target, tmp_path / "out")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == [model]


def test_a_sample_without_text_is_refused_before_the_work(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CTranslate2Exporter, "write", None)
    with pytest.raises(NmtError, match="--sample: none of its 2 lines has text"):
        export(model, "ctranslate2", tmp_path / "out", lines=["", " "])
    assert list(tmp_path.iterdir()) == [model]


def test_what_the_format_cannot_hold_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pre.safetensors"
    model_file.save(path, make_checkpoint(make_settings("model.norm=pre")))
    with pytest.raises(NmtError, match=r"model\.norm: pre"):
        export(path, "marian", tmp_path / "out")
    assert list(tmp_path.iterdir()) == [path]
