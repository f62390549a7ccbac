"""Corpora of OPUS: found, downloaded and kept whole, whatever the network, the server and other processes do."""

import hashlib
import logging
import multiprocessing
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.opus_server import OpusServer, moses_zip, serving

from nmt.config.schema import Corpus, DataConfig
from nmt.data.sources import corpus as corpora
from nmt.data.sources import opus
from nmt.errors import NmtError
from nmt.files import download

pytestmark = pytest.mark.usefixtures("time_limit")
SECONDS = 300  # limit of each test: two start processes

# German, English. What text cannot be compressed makes a file of many blocks.
PAIRS = [(f"Satz {number} \u2028ä", f"sentence {random.Random(number).random()}") for number in range(3000)]
READ = [(english, german) for german, english in PAIRS]
CONTENT = moses_zip(PAIRS)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpusServer]:
    """With a corpus Tatoeba of two versions, the second with CONTENT, and this process as if it were new."""
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(download, "_BLOCK_BYTES", 1000)
    with serving() as running:
        monkeypatch.setenv("NMT_OPUS", running.index)
        running.add("Tatoeba", "v1", ("de", "en"), moses_zip([("alt", "old")]))
        running.add("Tatoeba", "v2", ("de", "en"), CONTENT)
        running.requests.clear()
        opus._find.cache_clear()
        yield running
    opus._find.cache_clear()


def settings(source: str = "en", target: str = "de") -> DataConfig:
    return DataConfig(source_language=source, target_language=target, train=())


def read(name: str = "Tatoeba", data: DataConfig | None = None, **more: Any) -> list[tuple[str, str]]:
    """As a new process would."""
    opus._find.cache_clear()
    return list(corpora.read_pairs(Corpus(opus=name, **more), data or settings(), "train"))


def fingerprint(**more: Any) -> str:
    return corpora.fingerprint(Corpus(opus="Tatoeba", **more), settings(), "train")


def error(name: str = "Tatoeba", data: DataConfig | None = None, **more: Any) -> str:
    with pytest.raises(NmtError) as raised:
        read(name, data, **more)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def cached(tmp_path: Path) -> list[str]:
    """The names of the cache's files, but for locks."""
    files = sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    return [path.relative_to(tmp_path / "cache").as_posix() for path in files if path.name != ".nmt-lock"]


WHOLE = [
    "opus/Tatoeba/de-en.latest",
    "opus/Tatoeba/v2/de-en.txt.zip",
    "opus/Tatoeba/v2/de-en.txt.zip.json",
]

# --------------------------------------------------------------------------- what is right


@pytest.mark.parametrize("version", [{}, {"version": "v2"}])
def test_pairs(server: OpusServer, version: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nmt")
    assert read(**version) == READ
    assert "opus/Tatoeba: version v2, de-en, in" in caplog.text
    assert read(data=settings("de", "en"), **version) == PAIRS
    assert server.downloads() == [None]  # once for both directions


def test_codes_of_languages(server: OpusServer) -> None:
    """A hyphen would divide the two codes; another code can be named."""
    content = moses_zip([("hello", "olá")], ("en", "pt_BR"))
    server.add("Tatoeba", "v3", ("en", "pt_BR"), content)
    assert read(data=settings("en", "pt-BR")) == [("hello", "olá")]
    assert read(data=settings("eng", "por"), source_column="en", target_column="pt_BR") == [("hello", "olá")]
    assert "give it as source_column or target_column" in error(data=settings("eng", "pt-BR"))


def test_the_cache_needs_no_network(
    server: OpusServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert read() == READ
    before = fingerprint()
    assert cached(tmp_path) == WHOLE
    monkeypatch.setenv("NMT_OPUS", "http://127.0.0.1:9/")  # nobody listens there
    assert read(version="v2") == READ
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert read() == READ
    assert "cannot be reached" in caplog.text
    assert "using version v2, the latest known in the cache" in caplog.text
    assert fingerprint() == before
    for said, named in ((error(version="v1"), "v1"), (error(data=settings("fr", "en")), "latest")):
        assert f"version={named}" in said
        assert f"there is no copy in {tmp_path}/cache/opus/Tatoeba: connect to the network, set NMT_OPUS" in said


def test_a_damaged_copy_is_downloaded_again(server: OpusServer, tmp_path: Path, caplog: Any) -> None:
    assert read() == READ
    path = tmp_path / "cache" / WHOLE[1]
    for damaged in (CONTENT[:-10], CONTENT[:500] + b"?" + CONTENT[501:], b""):
        path.write_bytes(damaged)
        caplog.clear()
        assert read() == READ
        assert f"{path}: damaged or incomplete: it is downloaded again" in caplog.text
    assert cached(tmp_path) == WHOLE


# --------------------------------------------------------------------------- what the index says


def test_unknown_names(server: OpusServer) -> None:
    server.add("OpenSubtitles", "v2018", ("en", "fr"), CONTENT)
    assert "OPUS has no corpus of this name: did you mean Tatoeba?" in error("tatoba")
    assert "OPUS has no corpus of this name: see http" in error("zzzzz")
    assert "no version v7 with de and en: there is v1, v2" in error(version="v7")
    assert "no text in en and fr: with en there is de;" in error(data=settings("en", "fr"))
    assert "no text in en and xx: it has no text in xx;" in error(data=settings("xx", "en"))
    for name in ("../Tatoeba", "a/b", ".hidden", "a b"):
        assert "is not a name in OPUS" in error(name)
    assert "is not a name in OPUS" in error(version="../../v1")


def test_names_in_the_index_are_checked(server: OpusServer, tmp_path: Path) -> None:
    """What the index says becomes a path."""
    server.entries[-1]["version"] = "../../../outside"
    assert "is not a name in OPUS" in error()
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b"none", "cannot be reached (HTTP status 404"),
        (200, b'{"corpora": 1}', "does not answer as the index of OPUS does"),
    ],
)
def test_an_index_that_is_none(server: OpusServer, status: int, body: bytes, words: str) -> None:
    server.index_status, server.index_body = status, body
    assert words in error()
    server.index_status, server.index_body = 200, None
    assert read() == READ
    server.index_status, server.index_body = status, body
    assert read() == READ


# --------------------------------------------------------------------------- faults of the download


def test_interrupted_and_continued(server: OpusServer, tmp_path: Path) -> None:
    """In the same process, as often as some bytes come, and by the next one: only what is missing is sent."""
    server.cuts = [1000] * 2 * download.RETRIES
    assert read() == READ
    assert server.downloads() == [None, *[f"bytes={1000 * count}-" for count in range(1, len(server.downloads()))]]
    assert len(server.downloads()) == 2 * download.RETRIES + 1
    server.requests.clear()
    (tmp_path / "cache" / WHOLE[1]).unlink()
    server.cuts = [4000, *[0] * 10]
    said = error()
    assert "cannot be downloaded: the connection was closed after 4,000 of" in said
    assert "(4,000 bytes are kept): run the command again to continue" in said
    assert server.downloads() == [None, *["bytes=4000-"] * (download.RETRIES)]
    server.cuts.clear()
    server.requests.clear()
    assert read() == READ
    assert server.downloads() == ["bytes=4000-"]
    assert cached(tmp_path) == WHOLE


@pytest.mark.parametrize(
    "server_has",
    [{"ranges": False}, {"versions": None, "length": False}],
    ids=["no ranges", "no versions, no length"],
)
def test_a_server_that_cannot_continue(server: OpusServer, server_has: dict[str, Any]) -> None:
    for key, value in server_has.items():
        setattr(server, key, value)
    server.cuts = [5000]
    if server.length:
        assert read() == READ
    else:  # the end of the file cannot be told from a closed connection
        assert "not a complete zip file" in error()
        assert read() == READ
    assert len(server.downloads()) == 2


def test_another_file_on_the_server_is_not_joined_to_the_first(server: OpusServer) -> None:
    server.compares = True
    other = moses_zip([*PAIRS, ("neu", "new")])
    server.cuts = [5000, *[0] * 10]
    assert "5,000 bytes are kept" in error()
    path = next(path for path, content in server.files.items() if content == CONTENT)
    server.files[path] = other
    server.cuts.clear()
    server.requests.clear()
    assert read() == [*READ, ("new", "neu")]
    assert server.downloads() == ["bytes=5000-"]


def test_faults_that_pass_and_faults_that_stay(server: OpusServer) -> None:
    server.statuses = [503, 429]
    assert read() == READ
    server.statuses = [404]
    said = error(version="v1")
    assert "cannot be downloaded: HTTP status 404" in said and "set version to another release" in said
    server.statuses = [500] * 20
    assert "cannot be downloaded: HTTP status 500" in error(version="v1")
    assert len(server.statuses) == 20 - 1 - download.RETRIES


def test_checksum(server: OpusServer, tmp_path: Path) -> None:
    entry = server.entries[-1]
    entry["sha256"] = "0" * 64
    assert "wrong sha256" in error()
    assert cached(tmp_path) == []
    entry["sha256"] = hashlib.sha256(CONTENT).hexdigest().upper()
    entry["size"] = 12345
    assert read() == READ


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (CONTENT[:-30], "not a complete zip file"),
        (moses_zip(PAIRS, ("de", "fr")), "0 files with text in en; it holds README, Tatoeba.de-fr.de"),
    ],
    ids=["truncated", "another language"],
)
def test_a_file_that_is_none(server: OpusServer, tmp_path: Path, content: bytes, words: str) -> None:
    path = next(path for path, known in server.files.items() if known == CONTENT)
    server.files[path] = content
    assert words in error()
    assert cached(tmp_path) == []
    server.files[path] = CONTENT
    assert read() == READ


# --------------------------------------------------------------------------- processes


def _read_in_process(results: "multiprocessing.Queue[object]") -> None:
    try:
        results.put(read() == READ)
    except NmtError as problem:
        results.put(str(problem))


def test_two_processes_download_once(server: OpusServer, tmp_path: Path) -> None:
    server.askers = 2  # the download lasts until both have begun
    results: multiprocessing.Queue[object] = multiprocessing.get_context("spawn").Queue()
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_read_in_process, args=(results,)) for _ in range(2)]
    for process in processes:
        process.start()
    assert [results.get(timeout=200) for _ in processes] == [True, True]
    for process in processes:
        process.join()
    assert server.downloads() == [None]
    assert cached(tmp_path) == WHOLE
