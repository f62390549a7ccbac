"""The fields of a request, from its query and its body: JSON or a form, compressed or not; or a form with a file."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from typing import Any
from urllib.parse import parse_qsl

_FORM = "application/x-www-form-urlencoded"
_WITH_FILE = "multipart/form-data"
_MOST_PARTS, _LONGEST_HEAD = 16, 2000  # of a form with a file; characters, because `email` reads a head in its square
# `wbits` of zlib. By RFC 9110, deflate has a zlib header; some clients send it without.
_WINDOWS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}


class RequestError(Exception):
    """An HTTP status of 400 or more and a message of one line; close: do not wait for the rest of the request.
    retry_after: the seconds after which the same request can succeed."""

    def __init__(self, status: int, message: str, *, close: bool = False, retry_after: int | None = None):
        super().__init__(message)
        self.status = status
        self.headers = {"Connection": "close"} if close else {}
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)


@dataclass(frozen=True)
class Received:
    """A request as it was sent."""

    body: bytes = b""
    content_type: str = ""
    content_encoding: str = ""
    query: bytes = b""


def read(received: Received, limit: int) -> dict[str, Any]:
    """The fields by name, without those that are null. All texts can be written in UTF-8.

    limit: the most bytes of the body, decompressed. Raises RequestError, also for a name that is given twice: one of
    the two would be ignored.
    """
    fields = [*_query(received.query).items()]
    if body := _decompressed(received.body, received.content_encoding, limit):
        fields += _body(received.content_type, body).items()
    return _once([(name, value) for name, value in fields if value is not None])


@dataclass(frozen=True)
class Upload:
    """A file as it was sent. name: as its sender calls it, which is no path of this machine."""

    name: str
    content: bytes


def read_upload(received: Received, limit: int) -> tuple[dict[str, Any], Upload | None]:
    """The fields as `read`, of a form with a file, and its field `file`.

    Format: RFC 7578 (multipart/form-data) and RFC 2046, section 5.1. The body is split at its boundaries; what is in
    its parts is read no further, whatever their types. Raises RequestError as `read`.
    """
    kind = _head(f"Content-Type: {received.content_type}")
    boundary = kind.get_boundary()
    if kind.get_content_type() != _WITH_FILE or not boundary:
        raise RequestError(415, f"send a form with file, source and target as {_WITH_FILE}")
    incomplete = RequestError(400, f"the body is not complete and valid {_WITH_FILE} of at most {_MOST_PARTS} fields")
    body = b"\r\n" + _decompressed(received.body, received.content_encoding, limit)
    _, *parts = body.split(b"\r\n--" + boundary.encode(errors="replace"), _MOST_PARTS + 1)
    if not parts or not parts.pop().startswith(b"--"):
        raise incomplete
    fields, file = [*_query(received.query).items()], None
    for part in parts:
        head, ended, content = part.partition(b"\r\n\r\n")
        of = _head(head.removeprefix(b"\r\n").decode(errors="replace"))
        name = of.get_param("name", header="content-disposition")
        if not ended or not isinstance(name, str):
            raise incomplete
        if name == "file" and (filename := of.get_filename()) is not None:
            file = Upload(filename, content)
            continue
        try:
            fields.append((name, content.decode()))
        except UnicodeDecodeError:
            raise RequestError(400, f"{name[:40]} is not text in UTF-8") from None
    return _once(fields), file


def _head(lines: str) -> Message:
    """Header lines. Raises RequestError for too long ones."""
    if len(lines) > _LONGEST_HEAD:
        raise RequestError(400, f"a header has more than {_LONGEST_HEAD} characters")
    return HeaderParser().parsestr(lines)


def _decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in _WINDOWS:
        raise RequestError(415, f"Content-Encoding {encoding[:40]}: send the body as gzip, as deflate or as it is")
    for window in _WINDOWS[encoding]:
        unpacking = zlib.decompressobj(window)
        try:
            unpacked = unpacking.decompress(body, limit + 1)
        except zlib.error:
            continue
        if len(unpacked) > limit:
            raise RequestError(413, f"the body has more than {limit} bytes: send less in one request")
        if unpacking.eof and not unpacking.unused_data:
            return unpacked
    raise RequestError(400, f"the body is not complete and valid {encoding}")


def _query(query: bytes) -> dict[str, Any]:
    try:
        return _form(query)
    except ValueError:
        raise RequestError(400, "the query is not valid UTF-8, percent-encoded") from None


def _body(content_type: str, body: bytes) -> dict[str, Any]:
    """The fields of a body, which is JSON unless its content type is a form. `curl -d` calls JSON a form."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == _FORM and body.lstrip().startswith((b"{", b"[")):
        kind = ""
    if kind == _WITH_FILE:
        raise RequestError(415, f"{kind} is not supported: send JSON, or a form as {_FORM}")
    try:
        if kind == _FORM:
            fields: Any = _form(body)
        else:
            fields = json.loads(body, object_pairs_hook=_once)
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # JSON's \ud800, which no answer could repeat
        raise RequestError(400, "the body has half of a surrogate pair, which is not a character") from None
    except (ValueError, RecursionError):
        raise RequestError(400, f"the body is not valid {kind or 'JSON'} in UTF-8") from None
    if not isinstance(fields, dict):
        raise RequestError(400, 'the body is not a JSON object, such as {"text": ["a", "b"]}')
    return fields


def _form(text: bytes) -> dict[str, Any]:
    return _once(parse_qsl(text.decode(), keep_blank_values=True, errors="strict"))


def _once(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(fields)
    if len(named) < len(fields):
        names = [name for name, _ in fields]
        twice = next(name for name in names if names.count(name) > 1)
        raise RequestError(400, f"{twice[:40]} is given twice: send several texts as a list in JSON")
    return named
