"""Reads requests: their fields, checks of the fields, and limits."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from fastapi import HTTPException, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import from_json
from python_multipart.multipart import parse_options_header
from starlette.types import Message

from nmt.config.language_codes import matching
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.errors import NmtError
from nmt.serve.detection import DetectedLanguage, detect

_FORM, _FORM_WITH_FILE = b"application/x-www-form-urlencoded", b"multipart/form-data"
_MOST_FIELDS = 16  # maximum number of fields of a form with a file
_BODY_SECONDS = 30.0  # maximum time to receive a body, or each MiB of a larger body
_MOST_TERMS, _LONGEST_TERM = 100, 200  # of the glossary in a request; characters
_CLOSE = {"Connection": "close"}  # the rest of the body is not received
_OLD_CODES = {"pb": "pt-BR", "zt": "zh-Hant"}  # old codes of LibreTranslate, which it still accepts

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class RequestLimits:
    """Maximum sizes of requests and answers."""

    lines: int = 256  # of a request
    characters: int = 20_000  # of a request
    waiting: int = 1000  # lines in the queue
    answer: int = 32 * 2**20  # bytes
    file: int = 4 << 20  # bytes; 0: files are not translated
    document_seconds: float = 60  # to read a file, and to write its translation

    def __post_init__(self) -> None:
        if self.lines > self.waiting:
            raise NmtError(
                f"--max-lines {self.lines} is more than --max-waiting {self.waiting}: lower one or raise the other"
            )

    @property
    def body(self) -> int:
        """Maximum bytes of a request: 12 for each character (`\\ud83d\\ude00`, `%F0%9F%98%80`), and some for the
        format."""
        return 12 * (self.characters + 2 * _MOST_TERMS * _LONGEST_TERM) + 64 * self.lines + 10_000

    @property
    def upload(self) -> int:
        """Maximum bytes of a request with a file."""
        return self.file + 64_000 + 24 * _MOST_TERMS * _LONGEST_TERM

    def check(self, lines: Sequence[str], texts: Sequence[str]) -> None:
        """Raises HTTPException for too many lines, or too many characters in the texts."""
        for count, name, limit in (
            (len(lines), "lines", self.lines),
            (sum(map(len, texts)), "characters", self.characters),
        ):
            if count > limit:
                raise HTTPException(413, f"{count} {name}, more than {limit}: send fewer in one request")


def _from_form(terms: Any) -> Any:
    """In a form or a query, terms are JSON. Raises ValueError for what is no object."""
    with suppress(ValueError):
        terms = from_json(terms) if isinstance(terms, str) else terms
    if not isinstance(terms, dict):
        raise ValueError('expected a JSON object of terms, such as {"court": "Gericht"}')
    return terms


_Term = Annotated[str, Field(max_length=_LONGEST_TERM)]
Terms = Annotated[dict[_Term, _Term], Field(max_length=_MOST_TERMS), BeforeValidator(_from_form)]


class OwnRequest(BaseModel):
    """A request to /translate in nmt's own format. Each text is one line; line breaks are read as spaces."""

    model_config = ConfigDict(extra="forbid")

    text: str | list[str]
    n_best: int = Field(1, ge=1)
    alignment: bool = False
    to: str | None = None
    from_: str | None = Field(None, alias="from")
    glossary: Terms = {}  # source and target terms, as the entries of a Glossary


class LibreTranslateRequest(BaseModel):
    """A request to /translate as LibreTranslate's clients send it."""

    q: str | list[str]
    source: str
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0)
    glossary: Terms = {}  # LibreTranslate has no such field


class DetectRequest(BaseModel):
    """A request to /detect."""

    q: str | list[str]


class FileRequest(BaseModel):
    """The fields of a request to /translate_file, without the file."""

    source: str
    target: str
    glossary: Terms = {}


async def read_fields(request: Request, limit: int) -> dict[str, Any]:
    """The fields of the query and of the body. The body is JSON, a form, or a form with one file (an UploadFile).

    Fields that are null, or empty in a form, are left out. limit: maximum bytes of the body. Raises HTTPException if
    the body is too large, takes too long or cannot be read, and if a field occurs twice, because one of the two would
    be ignored.
    """
    seconds = _BODY_SECONDS * max(1.0, limit / 2**20)
    try:
        async with asyncio.timeout(seconds):
            body_fields = await _body_fields(_with_limit(request, limit))
    except TimeoutError:
        raise HTTPException(408, f"the body took longer than {seconds:g} seconds: send it faster", _CLOSE) from None
    fields = [*_form_fields(request.scope["query_string"], "query"), *body_fields]
    for name, times in Counter(name for name, _ in fields).items():
        if times > 1:
            raise HTTPException(400, f"{name[:40]} is given twice: send several texts as a list in JSON")
    return {name: value for name, value in fields if value is not None}


def _with_limit(request: Request, limit: int) -> Request:
    """A request whose body raises HTTPException if it has more bytes than the limit.

    Most clients read an answer only after they have sent the whole body, and lose it if the connection is closed
    before. So a body of up to twice the limit is received first; nothing above the limit is kept.
    """
    too_large = HTTPException(413, f"the body has more than {limit} bytes: send less in one request", _CLOSE)
    if int(request.headers.get("content-length", 0)) > 2 * limit:
        raise too_large
    size = 0

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size <= limit:
            return message
        while message.get("more_body") and size <= 2 * limit:
            message = await request.receive()
            size += len(message.get("body", b""))
        raise too_large

    return Request(request.scope, receive)


async def _body_fields(request: Request) -> list[tuple[str, Any]]:
    if request.headers.get("content-encoding", "identity") != "identity":
        raise HTTPException(415, "compressed bodies are not supported: send the body without Content-Encoding", _CLOSE)
    content_type, _ = parse_options_header(request.headers.get("content-type"))
    if content_type == _FORM_WITH_FILE:
        if request.scope["path"] != "/translate_file":  # Starlette would read other text as Latin-1
            _decoded(await request.body(), "body")
        form = await request.form(max_files=1, max_fields=_MOST_FIELDS)
        return [(name, value) for name, value in form.multi_items() if value != ""]
    body = await request.body()
    if not body:
        return []
    if content_type == _FORM and not body.lstrip().startswith((b"{", b"[")):  # `curl -d` calls JSON a form
        return _form_fields(body, "body")
    try:
        fields = from_json(body)  # refuses half of a surrogate pair, which an answer could not contain
    except ValueError:
        raise HTTPException(400, "the body is not valid JSON in UTF-8") from None
    if not isinstance(fields, dict):
        raise HTTPException(400, 'the body is not a JSON object, such as {"text": ["a", "b"]}')
    return [*fields.items()]


def _form_fields(text: bytes, name: str) -> list[tuple[str, Any]]:
    try:
        return [*parse_qsl(_decoded(text, name), errors="strict")]
    except ValueError:
        raise HTTPException(400, f"the {name} is not valid UTF-8, percent-encoded") from None


def _decoded(text: bytes, name: str) -> str:
    try:
        return text.decode()
    except ValueError:
        raise HTTPException(400, f"the {name} is not valid UTF-8") from None


def checked(model: type[Model], fields: dict[str, Any]) -> Model:
    """Validates the fields. Raises HTTPException for the first wrong or missing one, with LibreTranslate's message."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        name = str(first["loc"][0])[:40]
        missing = f"Invalid request: missing {name} parameter"
        message = first["msg"].removeprefix("Value error, ")
        raise HTTPException(400, missing if first["type"] == "missing" else f"{name}: {message}") from None


def as_list(texts: str | list[str]) -> list[str]:
    """The texts as a list. A single text becomes a list with one element."""
    return [texts] if isinstance(texts, str) else texts


def chosen_pair(languages: LanguagePairs, to: str | None, from_: str | None) -> LanguagePair | None:
    """The chosen pair; None if the model has only one. Raises NmtError as LanguagePairs.choose."""
    pair = languages.choose(to, from_)
    return pair if languages.several else None


def source_and_target(request: LibreTranslateRequest | FileRequest, languages: LanguagePairs) -> tuple[str | None, str]:
    """The languages as the model names them; the source is None for `auto`. Raises HTTPException for a language that
    the model does not have."""
    target = _language("target", request.target, languages.targets)
    source = None if request.source == "auto" else _language("source", request.source, languages.sources)
    return source, target


def _language(name: str, code: str, supported: list[str]) -> str:
    if language := matching(code, supported) or matching(_OLD_CODES.get(code, code), supported):
        return language
    raise HTTPException(400, f"{name}: {code[:40]} is not supported: this model has {', '.join(supported)}")


def likeliest_source(lines: Sequence[str], languages: LanguagePairs, target: str) -> DetectedLanguage:
    """The likeliest source language of all lines together, as in LibreTranslate. Only languages with this target are
    candidates."""
    return detect(lines, [pair.source for pair in languages.pairs if pair.target == target])[0]
