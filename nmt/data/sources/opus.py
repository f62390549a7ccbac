"""Corpora of OPUS (https://opus.nlpl.eu; Tiedemann 2012). They are found in its public index and downloaded to a cache.

The index answers `?corpus=Tatoeba&source=en&target=de&preprocessing=moses&version=latest` with JSON, in which each file
has an address. A Moses file is a zip file with a text file of each language, aligned line by line. The cache contains

    opus/Tatoeba/v2023-04-12/de-en.txt.zip         the file, complete and checked
    opus/Tatoeba/v2023-04-12/de-en.txt.zip.json    where it came from, its size and SHA-256
    opus/Tatoeba/de-en.latest                      the version that was the latest when the index was last asked
"""

import hashlib
import io
import json
import logging
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode, urljoin
from zipfile import BadZipFile, ZipFile

from nmt.config import schema
from nmt.config.suggestions import did_you_mean
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.download import NETWORK_ERRORS, cache_folder, discard, download, network_reason, open_url, record_of
from nmt.files.text import aligned, blocks_of_lines, decoded_lines, file_digest, reading

log = logging.getLogger("nmt")

SERVER = "https://opus.nlpl.eu/opusapi/"  # $NMT_OPUS replaces it, for example by a mirror
_NAME = re.compile(r"[\w+][\w.+-]*")  # of a corpus, a version or a language; it becomes part of a path
_MOST_NAMES = 20  # in a message
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Release:
    """One version of a corpus in two languages, in the cache."""

    corpus: str
    version: str
    languages: tuple[str, str]  # of the source and of the target, as OPUS writes them
    path: Path  # the zip file
    digest: str  # its SHA-256


class _Unreachable(Exception):
    """The index gives no answer. The message says why."""


def opus_pairs(corpus: schema.Corpus, data: schema.DataConfig, errors: str = "strict") -> Iterator[tuple[str, str]]:
    """The pairs of an OPUS corpus in its order, read from the zip file. errors: as in `decoded_lines`. Raises NmtError
    as `find` does."""
    release = find(corpus, data)
    with _zip_errors(release.path), ZipFile(release.path) as archive, ExitStack() as opened:
        names = _members(archive, release.languages, release.path)
        streams = (opened.enter_context(archive.open(name)) for name in names)
        lines = [
            decoded_lines(
                blocks_of_lines(io.BufferedReader(cast(io.RawIOBase, stream), _BLOCK_BYTES)),
                f"{release.path}: {name}",
                errors,
            )
            for stream, name in zip(streams, names, strict=True)
        ]
        yield from aligned(lines[0], lines[1], f"{release.path}: {names[0]}", names[1])


def opus_content(corpus: schema.Corpus, data: schema.DataConfig) -> list[str]:
    """Identifies the content of the corpus, for the fingerprint. Raises NmtError as `find` does."""
    release = find(corpus, data)
    return [release.corpus, release.version, *release.languages, release.digest]


def find(corpus: schema.Corpus, data: schema.DataConfig) -> Release:
    """The release that a corpus names. It is downloaded if it is not in the cache.

    `version: latest` is looked up once per process, so that the text stays the same. Without network, the newest
    version in the cache is used, with a warning.

    Raises NmtError if the corpus, the version or the language pair does not exist, if it is neither in the cache nor
    can be downloaded, and if it is damaged.
    """
    assert corpus.opus
    # In the codes of OPUS, such as pt_BR, "-" stands between the two languages.
    source = corpus.source_column or data.source_language.replace("-", "_")
    target = corpus.target_column or data.target_language.replace("-", "_")
    server = os.environ.get("NMT_OPUS") or SERVER
    return _find(corpus.opus, corpus.version or "latest", (source, target), server, cache_folder())


@cache
def _find(name: str, version: str, languages: tuple[str, str], server: str, downloads: Path) -> Release:
    for part in (name, version, *languages):
        _check_name(part, f"opus/{name}")
    pair, folder = "-".join(sorted(languages)), downloads / "opus" / name
    entry = None
    if version == "latest":
        entry, version = _latest(name, languages, server, folder / f"{pair}.latest")
    path = folder / version / f"{pair}.txt.zip"
    digest = _checked_digest(path)
    if digest is None:
        with ExitStack() as held:
            with atomic.reporting(path, "NMT_CACHE"):
                atomic.make_folder(path.parent)
                message = f"opus/{name}: waiting for another process that downloads it"
                held.enter_context(atomic.locked(path.parent, lambda: log.info("%s", message)))
                atomic.remove_unfinished(path.parent)
            digest = _checked_digest(path)  # the other process may have finished it
            if digest is None:
                digest = _fetch(entry or _entry(name, version, languages, server, folder), languages, server, path)
    if entry:
        _remember(folder / f"{pair}.latest", version)
    log.info("opus/%s: version %s, %s, in %s", name, version, pair, path)
    return Release(name, version, languages, path, digest)


def _check_name(text: str, label: str) -> None:
    if not _NAME.fullmatch(text):
        raise NmtError(f"{label}: {text!r} is not a name in OPUS: use only letters, digits and _ . + -")


# --------------------------------------------------------------------------- the index


def _latest(
    name: str, languages: tuple[str, str], server: str, remembered: Path
) -> tuple[Mapping[str, Any] | None, str]:
    """The index's entry for the latest version, and the version; (None, a version in the cache) without an answer."""
    try:
        entry = _ask_for_entry(name, "latest", languages, server)
    except _Unreachable as error:
        version = None
        with suppress(OSError):
            version = remembered.read_text(encoding="utf-8")
        if version is None or not _NAME.fullmatch(version):
            raise _no_network(name, error, remembered.parent) from None
        log.warning("opus/%s: %s; using version %s, the latest known in the cache", name, error, version)
        return None, version
    version = entry["version"]
    _check_name(version, f"opus/{name}")
    return entry, version


def _entry(name: str, version: str, languages: tuple[str, str], server: str, folder: Path) -> Mapping[str, Any]:
    try:
        return _ask_for_entry(name, version, languages, server)
    except _Unreachable as error:
        raise _no_network(name, error, folder) from None


def _no_network(name: str, error: _Unreachable, folder: Path) -> NmtError:
    return NmtError(
        f"opus/{name}: {error}, and there is no copy in {folder}: connect to the network, set NMT_OPUS to the address "
        "of a mirror, or copy that folder from a machine that has it"
    )


def _ask_for_entry(name: str, version: str, languages: tuple[str, str], server: str) -> Mapping[str, Any]:
    """The index's entry for a Moses file. Raises _Unreachable, and NmtError with the available names if it has none."""
    source, target = sorted(languages)
    which = {"corpus": name, "source": source, "target": target, "preprocessing": "moses"}
    for entry in _ask(server, "corpora", which | {"version": version}):
        if isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("url", "version")):
            return entry
    names = _ask(server, "corpora", {"corpora": "True"})
    if name not in names:
        hint = did_you_mean(name, map(str, names), most=3) or f"see {server}?corpora=True"
        raise NmtError(f"opus/{name}: OPUS has no corpus of this name: {hint}")
    versions = {str(entry.get("version")) for entry in _ask(server, "corpora", which) if isinstance(entry, dict)}
    if versions:
        raise NmtError(f"opus/{name}: no version {version} with {source} and {target}: there is {_some(versions)}")
    code = languages[0]
    others = _ask(server, "languages", {"languages": "True", "corpus": name, "source": code, "preprocessing": "moses"})
    there_is = f"with {code} there is {_some(others)}" if others else f"it has no text in {code}"
    raise NmtError(
        f"opus/{name}: no text in {source} and {target}: {there_is}; if OPUS has another code for a language, give "
        "it as source_column or target_column"
    )


def _some(names: Iterable[object]) -> str:
    shown = sorted(map(str, names))
    if len(shown) > _MOST_NAMES:
        shown[_MOST_NAMES:] = ["…"]
    return ", ".join(shown)


def _ask(server: str, key: str, parameters: Mapping[str, str]) -> list[Any]:
    """A list in the index's answer. Raises _Unreachable."""
    url = f"{server}?{urlencode(parameters)}"
    try:
        with open_url(url) as response:
            answer = json.load(response)
    except NETWORK_ERRORS as error:
        raise _Unreachable(f"the index of OPUS at {url} cannot be reached ({network_reason(error)})") from None
    except (ValueError, RecursionError):
        answer = None
    values = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(values, list):
        raise _Unreachable(f"{url} does not answer as the index of OPUS does")
    return values


# --------------------------------------------------------------------------- the cache


def _checked_digest(path: Path) -> str | None:
    """The SHA-256 of a file in the cache; None if it does not exist or is not the file that was downloaded."""
    if not path.exists():
        return None
    digest = file_digest(path)
    with suppress(OSError, ValueError):
        record = json.loads(record_of(path).read_text(encoding="utf-8"))
        if isinstance(record, dict) and record.get("sha256") == digest:
            return digest
    log.warning("%s: damaged or incomplete: it is downloaded again", path)
    return None


def _remember(path: Path, version: str) -> None:
    with suppress(OSError):
        if path.read_text(encoding="utf-8") == version:
            return
    with atomic.reporting(path, "NMT_CACHE"):
        atomic.write_text(path, version)


def _fetch(entry: Mapping[str, Any], languages: tuple[str, str], server: str, path: Path) -> str:
    """Download the file of an entry of the index to `path`. Returns its SHA-256. The caller holds the folder's lock."""
    url, part = urljoin(server, entry["url"]), path.with_name(f"{path.name}.part")
    size = entry.get("size")
    log.info("opus: downloading %s%s to %s", url, f" ({size:,} KiB)" if isinstance(size, int) else "", path)
    download(url, part, "set version to another release of the corpus, or NMT_OPUS to the address of a mirror")
    try:
        digest = _check(part, entry, languages, url)
    except NmtError:
        discard(part)
        raise
    with atomic.reporting(path, "NMT_CACHE"):
        record = {"url": url, "version": entry["version"], "bytes": part.stat().st_size, "sha256": digest}
        atomic.write_text(record_of(path), json.dumps(record))  # before the file: a file without it counts as damaged
        atomic.sync(part)
        part.replace(path)
        discard(part)
    return digest


def _check(part: Path, entry: Mapping[str, Any], languages: tuple[str, str], url: str) -> str:
    """The SHA-256 of a downloaded file. Raises NmtError if it is damaged or not the file that the index describes."""
    digest, size = file_digest(part), part.stat().st_size
    digests = {"sha256": digest}
    if "md5" in entry:
        with part.open("rb") as file:
            digests["md5"] = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    for kind, computed in digests.items():
        if kind in entry and str(entry[kind]).lower() != computed:
            raise NmtError(f"{url}: wrong {kind} {computed}; the index says {entry[kind]}: run the command again")
    if (
        not digests.keys() & entry.keys()
        and isinstance(entry.get("size"), int)
        and abs(size // 1024 - entry["size"]) > 1
    ):
        log.warning("%s: has %s KiB; the index says %s", url, f"{size // 1024:,}", f"{entry['size']:,}")
    with _zip_errors(part, url), ZipFile(part) as archive:
        for name in _members(archive, languages, url):
            with archive.open(name) as stream:
                while stream.read(_BLOCK_BYTES):  # at the end it compares the checksum
                    pass
    return digest


@contextmanager
def _zip_errors(path: Path, where: str | None = None) -> Iterator[None]:
    """Turn exceptions in reading a zip file into NmtErrors. where: its name in messages."""
    try:
        with reading(path):
            yield
    except (BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        remove = "run the command again" if where else "delete it, and it is downloaded again"
        raise NmtError(f"{where or path}: not a complete zip file ({error}): {remove}") from None


def _members(archive: ZipFile, languages: tuple[str, str], where: object) -> list[str]:
    """The names of the source file and of the target file: Tatoeba.de-en.de has the text in `de`."""
    members = []
    for code in languages:
        names = [name for name in archive.namelist() if name.endswith(f".{code}")]
        if len(names) != 1:
            raise NmtError(f"{where}: {len(names)} files with text in {code}; it holds {_some(archive.namelist())}")
        members.append(names[0])
    return members
