"""Download files. Interrupted downloads continue. The cache folder keeps the files."""

import http
import http.client
import json
import logging
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from tqdm import tqdm

from nmt.errors import NmtError
from nmt.files import atomic

log = logging.getLogger("nmt")

TIMEOUT_SECONDS = 30.0  # without any byte
RETRIES = 4  # since the last try that received some bytes
WAIT_SECONDS = 1.0  # before the first retry; doubled before each further retry
_BLOCK_BYTES = 1 << 18
_LATER = {408, 425, 429, 500, 502, 503, 504}  # status codes of temporary errors
NETWORK_ERRORS = (OSError, http.client.HTTPException)  # URLError, timeouts and closed connections are OSErrors


def cache_folder() -> Path:
    """The folder for downloaded files: $NMT_CACHE, or `nmt` in the system's cache folder. It may not exist."""
    if folder := os.environ.get("NMT_CACHE"):
        return Path(folder).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "nmt"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nmt"


def open_url(url: str, headers: Mapping[str, str] | None = None) -> Any:
    """The response to a GET request. Redirects are followed. Raises one of NETWORK_ERRORS; NmtError for another kind of
    address."""
    if not url.startswith(("http://", "https://")):
        raise NmtError(f"{url}: not an address that starts with http:// or https://")
    named = {"User-Agent": "nmt", "Accept-Encoding": "identity", **(headers or {})}
    return urllib.request.urlopen(urllib.request.Request(url, headers=named), timeout=TIMEOUT_SECONDS)


def network_reason(error: Exception) -> str:
    """A network error in a few words."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP status {error.code} {error.reason}"
    reason = getattr(error, "reason", None) or error  # the reason of a URLError is often an OSError
    reason = getattr(reason, "strerror", None) or reason
    return " ".join(str(reason).split()) or type(error).__name__


def download(url: str, path: Path, otherwise: str) -> None:
    """Download a file to `path`. An interrupted download is continued if the server still has the same file and can
    send a part of it. The file `path` with `.json` appended records the origin.

    The caller checks the content and holds a lock. otherwise: a remedy for the message if the server refuses the file.
    Raises NmtError if the file cannot be downloaded. The next call continues.
    """
    tries = 0
    while True:
        before = _size(path)
        try:
            return _transfer(url, path)
        except NETWORK_ERRORS as error:
            passing = not isinstance(error, urllib.error.HTTPError) or error.code in _LATER
            tries = 1 if _size(path) > before else tries + 1
            reason = network_reason(error)
            if not passing or tries > RETRIES:
                kept = f" ({_size(path):,} bytes are kept)" if _size(path) else ""
                fix = "run the command again to continue" if passing else otherwise
                raise NmtError(f"{url}: cannot be downloaded: {reason}{kept}: {fix}") from None
        log.info("%s: %s: trying again", url, reason)
        time.sleep(WAIT_SECONDS * 2 ** (tries - 1))


def discard(path: Path) -> None:
    """Remove the files that `download` wrote at `path`."""
    for file in (path, record_of(path)):
        file.unlink(missing_ok=True)


def _transfer(url: str, path: Path) -> None:
    """Make one request, for the whole file or for its missing part. Raises one of NETWORK_ERRORS."""
    record = _read_record(path, url)
    done = _size(path) if record else 0
    if record and record["bytes"] == done:
        return
    range_headers = {"Range": f"bytes={done}-", "If-Range": record["version"]} if record and done else {}
    try:
        response = open_url(url, range_headers)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not range_headers:
            raise
        discard(path)
        response, range_headers = open_url(url), {}
    with response:
        total, version = _total(response), _version(response)
        continued = response.status == http.HTTPStatus.PARTIAL_CONTENT
        if continued and not (record and _continues(response, done, total, record)):
            discard(path)
            raise ConnectionError("the server has another file now")
        with atomic.reporting(path, "NMT_CACHE"):
            file = path.open(
                "ab" if continued else "wb", buffering=0
            )  # without a buffer, so that nothing remains to be written on close
        with file:
            if not continued:  # the old content is deleted: now the record describes the new content
                done = 0
                with atomic.reporting(path, "NMT_CACHE"):
                    record = {"url": url, "version": version, "bytes": total}
                    atomic.write_text(record_of(path), json.dumps(record))
            _copy(response, file, path, done, total)


def _copy(response: Any, file: FileIO, path: Path, done: int, total: int | None) -> None:
    """Write the response to the file. Raises ConnectionError if it ends before `total` bytes."""
    name = path.name.removesuffix(".part")
    bar = tqdm(desc=name, total=total, initial=done, unit="B", unit_scale=True, leave=False, disable=None)
    with bar:
        while block := response.read(_BLOCK_BYTES):
            with atomic.reporting(path, "NMT_CACHE"):
                atomic.write_all(file, block)
            done += len(block)
            bar.update(len(block))
    if total is not None and done < total:
        raise ConnectionError(f"the connection was closed after {done:,} of {total:,} bytes")


def _total(response: Any) -> int | None:
    """The size of the whole file in bytes; None if the server does not send it."""
    size = response.headers.get("Content-Length")
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        size = response.headers.get("Content-Range", "").rpartition("/")[2]
    return int(size) if size and size.isdecimal() else None


def _version(response: Any) -> str | None:
    """An identifier of the version of the file: its ETag, unless it is weak, or its date."""
    tag = response.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _continues(response: Any, done: int, total: int | None, record: Mapping[str, Any]) -> bool:
    """Whether the server sends the missing part of the same file."""
    begins = response.headers.get("Content-Range", "").startswith(f"bytes {done}-")
    return begins and total == record["bytes"] and _version(response) in (None, record["version"])


def record_of(path: Path) -> Path:
    """The JSON file beside a download that records its origin."""
    return path.with_name(f"{path.name}.json")


def _read_record(path: Path, url: str) -> dict[str, Any] | None:
    """The record of an interrupted download; None if it cannot be continued, as without a version of the file."""
    with suppress(OSError, ValueError):
        record = json.loads(record_of(path).read_text(encoding="utf-8"))
        if isinstance(record, dict) and record.get("url") == url and record.get("version") and "bytes" in record:
            return record
    return None


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
