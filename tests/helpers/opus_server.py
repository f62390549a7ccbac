"""A server with the interface of OPUS's index and files, on a free port of this machine, and with faults."""

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Pairs = Sequence[tuple[str, str]]


def moses_zip(pairs: Pairs, languages: tuple[str, str] = ("de", "en"), corpus: str = "Tatoeba") -> bytes:
    """A Moses file; each pair has its text in the order of `languages`."""
    file = io.BytesIO()
    name = f"{corpus}.{'-'.join(languages)}"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README", "about it")
        for side, language in enumerate(languages):
            archive.writestr(f"{name}.{language}", "".join(f"{pair[side]}\n" for pair in pairs))
        archive.writestr(f"{name}.xml", "<links/>")
    return file.getvalue()


@dataclass
class OpusServer:
    """What the server has and does; tests change it. `requests` has the path and the Range of each request."""

    address: str = ""
    entries: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)  # to answer the next requests for files with
    cuts: list[int] = field(default_factory=list)  # after so many bytes the next answers with files end
    ranges: bool = True  # whether a part of a file can be had
    versions: str | None = "ETag"  # the header by which versions of a file are told apart
    compares: bool = True  # whether it sends a part only of the version that is asked for
    length: bool = True  # whether the size is told
    redirect: bool = False  # whether a file is found at another address
    seconds: float = 0.0  # to wait before each file
    askers: int = 0  # to wait, before each file, for so many requests to the index
    index_status: int = 200
    index_body: bytes | None = None

    def add(self, corpus: str, version: str, languages: tuple[str, str], content: bytes, **more: Any) -> str:
        """Add a file to the index as the latest version of the corpus; returns its path."""
        source, target = languages
        for entry in self.entries:
            if entry["corpus"] == corpus:
                entry["latest"] = "False"
        path = f"/OPUS-{corpus}/{version}/moses/{source}-{target}.txt.zip"
        self.files[path] = content
        self.entries.append(
            {
                "alignment_pairs": 2, "corpus": corpus, "documents": "", "id": len(self.entries), "latest": "True",
                "preprocessing": "moses", "size": len(content) // 1024, "source": source, "source_tokens": 5,
                "target": target, "target_tokens": 6, "url": self.address + path, "version": version, **more,
            }
        )  # fmt: skip
        return path

    @property
    def index(self) -> str:
        return f"{self.address}/opusapi/"

    def downloads(self) -> list[str | None]:
        """The Range of each request for a file."""
        return [given for path, given in self.requests if path.startswith("/OPUS-")]

    def answer(self, query: dict[str, str]) -> object:
        """The index's answer. As the real one, it finds a pair of languages in either order."""
        if "source" in query and "target" in query:
            query["source"], query["target"] = sorted((query["source"], query["target"]))
        if query.get("version") == "latest":
            query["latest"] = "True"
            del query["version"]
        wanted = {key: value for key, value in query.items() if key not in ("corpora", "languages", "source")}
        rows = [row for row in self.entries if all(row[key] == value for key, value in wanted.items())]
        source = query.get("source")
        if "languages" in query:
            pairs = [(row["source"], row["target"]) for row in rows if source in (row["source"], row["target"], None)]
            return {"languages": sorted({code for pair in pairs for code in pair} - {source})}
        rows = [row for row in rows if source in (row["source"], None)]
        return {"corpora": sorted({row["corpus"] for row in rows}) if "corpora" in query else rows}


@contextmanager
def serving() -> Iterator[OpusServer]:
    """A running server."""
    opus = OpusServer()
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            opus.requests.append((parts.path, self.headers.get("Range")))
            with suppress(ConnectionError):
                if parts.path == "/opusapi/":
                    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                    body = json.dumps(opus.answer(query)).encode() if opus.index_body is None else opus.index_body
                    self.reply(opus.index_status, body)
                else:
                    self.file(parts.path)

        def file(self, path: str) -> None:
            stopped.wait(opus.seconds)
            while sum(asked == "/opusapi/" for asked, _ in opus.requests) < opus.askers and not stopped.wait(0.01):
                pass
            if opus.statuses:
                return self.reply(opus.statuses.pop(0), b"a fault")
            if opus.redirect and not path.startswith("/moved"):
                return self.reply(302, b"", {"Location": f"{opus.address}/moved{path}"})
            content = opus.files.get(path.removeprefix("/moved"))
            if content is None:
                return self.reply(404, b"no such file")
            version = f'"{hashlib.sha256(content).hexdigest()[:8]}"'
            headers = {opus.versions: version} if opus.versions else {}
            wanted = self.headers.get("Range")
            if opus.ranges and wanted and (self.headers.get("If-Range") == version or not opus.compares):
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    return self.reply(416, b"", {"Content-Range": f"bytes */{len(content)}"})
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
                return self.reply(206, content[start:], headers, cut=True)
            return self.reply(200, content, headers, cut=True)

        def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None, *, cut: bool = False) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            if opus.length:
                self.send_header("Content-Length", str(len(body)))
            sent = body[: opus.cuts.pop(0)] if cut and opus.cuts else body
            if len(sent) < len(body) or not opus.length:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            self.wfile.write(sent)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    opus.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield opus
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
