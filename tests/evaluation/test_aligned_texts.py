"""Test sets by name, from sacreBLEU's folder; nothing is downloaded."""

import urllib.error
import urllib.request
from pathlib import Path
from typing import NoReturn

import pytest
from sacrebleu import utils
from sacrebleu.dataset import DATASETS

from nmt.errors import NmtError
from nmt.evaluation.aligned_texts import load_test_set, read_text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sacreBLEU's folder, and no network."""

    def urlopen(url: str) -> NoReturn:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.setattr(utils, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(DATASETS["wmt14"], "_outdir", str(tmp_path / "wmt14"))
    monkeypatch.setattr(DATASETS["wmt14"], "_rawdir", str(tmp_path / "wmt14" / "raw"))
    return tmp_path / "wmt14"


def test_xml_is_not_scored_as_text(tmp_path: Path) -> None:
    (tmp_path / "my.tmx").write_text("<?xml version='1.0'?>\n<tmx/>\n")
    with pytest.raises(NmtError, match=r"my.tmx: is XML, not plain text: .* give it alone: nmt split "):
        read_text(tmp_path / "my.tmx")


def test_a_set_that_is_there(folder: Path) -> None:
    folder.mkdir()
    for field in ("docid", "genre", "origlang"):
        (folder / f"wmt14.en-de.{field}").write_text("x\nx\n")
    (folder / "wmt14.en-de.src").write_text("One.\nTwo\u2028lines.\n", encoding="utf-8")
    (folder / "wmt14.en-de.ref").write_text("Eins.\nZwei.\n")
    source, references = load_test_set("wmt14", "en-de")
    assert source.lines == ["One.", "Two\u2028lines."]
    assert [reference.lines for reference in references] == [["Eins.", "Zwei."]]
    assert source.name == "wmt14 wmt14.en-de.src"


def test_a_set_that_cannot_be_downloaded(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "nmt")
    with pytest.raises(NmtError, match=r"^--test-set wmt14: cannot be downloaded .*no network.*text files") as error:
        load_test_set("wmt14", "en-de")
    assert "\n" not in str(error.value) and str(folder) in str(error.value)
    assert f"wmt14: downloading to {folder}" in caplog.text


def test_names_that_are_none(folder: Path) -> None:
    with pytest.raises(NmtError, match="--test-set wmt41: sacreBLEU knows no such test set: did you mean wmt"):
        load_test_set("wmt41", "en-de")
    assert not folder.exists()
