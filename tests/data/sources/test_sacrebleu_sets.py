"""Test sets of sacreBLEU as validation corpora: found in its folder, downloaded by it, and named in errors."""

import io
import tarfile
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from sacrebleu import utils
from sacrebleu.dataset import DATASETS
from sacrebleu.dataset.plain_text import PlainTextDataset

from nmt.config.schema import Corpus, DataConfig
from nmt.data.sources import corpus as corpora
from nmt.errors import NmtError

SOURCE, REFERENCE = "One.\nTwo \u2028 more.\n", "Eins.\nZwei.\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sacreBLEU's folder, with a small test set wmt14/full in it, and no network."""
    monkeypatch.setattr(utils, "SACREBLEU_DIR", str(tmp_path))
    for dataset in DATASETS.values():
        monkeypatch.setattr(dataset, "_outdir", str(tmp_path / dataset.name))
        monkeypatch.setattr(dataset, "_rawdir", str(tmp_path / dataset.name / "raw"))

    def no_network(*_: object) -> None:
        raise URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    (tmp_path / "wmt14" / "full").mkdir(parents=True)
    for field in DATASETS["wmt14/full"].fieldnames("en-de"):
        text = {"src": SOURCE, "ref": REFERENCE}.get(field, "-\n-\n")
        (tmp_path / "wmt14" / "full" / f"wmt14_full.en-de.{field}").write_text(text, encoding="utf-8")
    return tmp_path


def settings(source: str = "en", target: str = "de") -> DataConfig:
    return DataConfig(source_language=source, target_language=target, train=())


def read(name: str, data: DataConfig | None = None, **columns: str) -> list[tuple[str, str]]:
    return list(corpora.read_pairs(Corpus(sacrebleu=name, **columns), data or settings(), "validation"))


def error(name: str, data: DataConfig | None = None) -> str:
    with pytest.raises(NmtError) as raised:
        read(name, data)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_pairs(folder: Path) -> None:
    assert read("wmt14/full") == [("One.", "Eins."), ("Two \u2028 more.", "Zwei.")]
    assert read("wmt14/full", settings("eng", "deu"), source_column="en", target_column="de")


def test_unknown_names(folder: Path) -> None:
    assert "sacreBLEU knows no such test set: did you mean wmt14/full" in error("wmt14/ful")
    assert "`sacrebleu --list` shows them" in error("?")
    said = error("wmt14/full", settings("en", "xx"))
    assert "en-xx: wmt14/full does not have it: choose from cs-en, de-en, en-cs, en-de, " in said
    assert "source_column and target_column" in said


class Response(io.BytesIO):
    """What urlopen returns."""


def archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, text in {"a.en": SOURCE, "a.de": REFERENCE}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return file.getvalue()


@pytest.mark.parametrize("fault", ["none", "wrong checksum"])
def test_download(folder: Path, fault: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """The library ends the process for a wrong checksum; here it is an error like others."""
    content = archive()
    small: Any = PlainTextDataset(
        "small",
        data=["https://nowhere.invalid/small.tar.gz"],
        md5=["0" * 32] if fault == "wrong checksum" else None,
        langpairs={"en-de": ["a.en", "a.de"]},
    )
    monkeypatch.setattr(small, "_outdir", str(folder / "small"))
    monkeypatch.setattr(small, "_rawdir", str(folder / "small" / "raw"))
    monkeypatch.setitem(DATASETS, "small", small)
    sent = content[:60] if fault == "truncated" else content
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_: Response(sent))
    if fault == "none":
        assert read("small") == [("One.", "Eins."), ("Two \u2028 more.", "Zwei.")]
    else:
        said = error("small")
        assert "sacrebleu/small: cannot be downloaded (" in said
        assert ("MD5 sum" in caplog.text) == (fault == "wrong checksum")
        assert f"delete {folder}/small if a download was interrupted" in said
