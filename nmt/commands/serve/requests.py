"""What a request to /translate asks for, in our own shape or LibreTranslate's, and the answer in the same shape."""

import email
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol
from urllib.parse import parse_qsl

from nmt.commands.serve.answer_size import DECIMALS
from nmt.commands.serve.batching import MOST_ANSWER, Found
from nmt.decoding.translator import Translation
from nmt.errors import NmtError


class Refused(Exception):
    """A request that gets an error for an answer: an HTTP status and one line that says why.

    hang_up: end the connection with it, rather than wait for the rest of the request.
    """

    def __init__(self, status: int, message: str, *, hang_up: bool = False):
        super().__init__(message)
        self.status, self.hang_up = status, hang_up


@dataclass(frozen=True)
class Limits:
    """The most of one request and the bytes of its answer, and the most lines of all that may wait.

    NmtError where no request as large could wait.
    """

    lines: int = 256
    characters: int = 20_000
    waiting: int = 1000
    answer: int = MOST_ANSWER

    def __post_init__(self) -> None:
        if self.lines > self.waiting:
            raise NmtError(
                f"--max-lines {self.lines} is more than --max-waiting {self.waiting}: lower one or raise the other"
            )

    @property
    def body(self) -> int:
        """Bytes of a request: each character as long as `\\ud83d\\ude00` or %F0%9F%98%80, and what is around them."""
        return 12 * self.characters + 64 * self.lines + 10_000


@dataclass(frozen=True)
class Languages:
    """The codes of what a model translates from and into."""

    source: str
    target: str


class Asked(Protocol):
    """What to translate and how to answer; `count_field`: the field that asks for several translations."""

    count_field: ClassVar[str]

    @property
    def lines(self) -> list[str]: ...

    @property
    def n_best(self) -> int: ...

    @property
    def alignment(self) -> bool: ...

    def answer(self, found: Found) -> bytes:
        """The answer, as JSON, from the n best translations of each line.

        For a thread of its own: no single call in it is long, so that other threads have their turn.
        """


@dataclass(frozen=True)
class Own:
    """{"text": "…" or ["…", …], "n_best": 1, "alignment": false}: each text is one line, a line break in it a space."""

    lines: list[str]
    n_best: int
    alignment: bool
    count_field: ClassVar[str] = "n_best"

    def answer(self, found: Found) -> bytes:
        lines = (",".join(map(self._translation, best)) for best in found)
        return f'{{"translations":[{",".join(f"[{line}]" for line in lines)}]}}'.encode()

    def _translation(self, one: Translation) -> str:
        fields = {
            "text": _json(one.text),
            "score": _json(one.score),
            "log_probability": _json(one.log_probability),
            "tokens": _json(one.pieces),
            "token_scores": _json(one.token_scores),
        }
        if self.alignment:
            fields["source_tokens"] = _json(one.source_pieces)
            fields["alignment"] = _matrix(one.alignment)
        return f"{{{','.join(f'{_json(name)}:{value}' for name, value in fields.items())}}}"


@dataclass(frozen=True)
class LibreTranslate:
    """{"q": "…" or ["…", …], "source", "target", "format", "alternatives", "api_key"}: line breaks are kept."""

    texts: list[list[str]]  # the lines of each
    many: bool  # a list was given, and is answered
    n_best: int
    detected: str | None  # the language instead of `auto`
    alignment: bool = False
    count_field: ClassVar[str] = "alternatives"

    @property
    def lines(self) -> list[str]:
        return [line for text in self.texts for line in text]

    def answer(self, found: Found) -> bytes:
        ranked, first = [], 0
        for text in self.texts:
            of_text = found[first : first + len(text)]
            first += len(text)
            # A line without words has one translation, the empty one, whatever the rank.
            ranked.append([
                "\n".join(best[min(rank, len(best) - 1)].text for best in of_text)
                for rank in range(max(map(len, of_text)))
            ])  # fmt: skip
        answer: dict[str, Any] = {"translatedText": self._one_or_all([best for best, *_ in ranked])}
        if self.n_best > 1:
            answer["alternatives"] = self._one_or_all([others for _, *others in ranked])
        if self.detected:
            # Nothing is detected: it is the one language that the model translates from.
            answer["detectedLanguage"] = self._one_or_all([{"language": self.detected, "confidence": 0}] * len(ranked))
        return _json(answer).encode()

    def _one_or_all(self, values: list[Any]) -> Any:
        return values if self.many else values[0]


def _json(value: Any) -> str:
    """As JSON. Raises ValueError for a number that JSON has not, which no score is."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _matrix(alignment: list[list[float]] | None) -> str:
    """Row by row: one call for all could take a second, in which no other thread runs."""
    if alignment is None:
        return "null"
    return f"[{','.join(_json([round(share, DECIMALS) for share in row]) for row in alignment)}]"


def read(content_type: str, body: bytes, languages: Languages, limits: Limits, beam_size: int) -> Asked:
    """What the body of a request asks for. Raises Refused with what is wrong with it."""
    fields = _fields(content_type, body)
    asked = _libretranslate(fields, languages, beam_size) if "q" in fields else _own(fields)
    lines = asked.lines
    if len(lines) > limits.lines:
        raise Refused(413, f"{len(lines)} lines, more than {limits.lines}: send fewer at a time")
    characters = sum(map(len, lines))
    if characters > limits.characters:
        raise Refused(413, f"{characters} characters, more than {limits.characters}: send fewer at a time")
    return asked


def _own(fields: Mapping[str, Any]) -> Own:
    for name in fields.keys() - {"text", "n_best", "alignment"}:
        raise Refused(400, f"{name}: unknown; there are text, n_best and alignment, or q, source and target")
    if "text" not in fields:
        raise Refused(400, "text is missing: give a text, or a list of them")
    texts, _ = _texts("text", fields["text"])
    return Own(texts, _whole_number(fields, "n_best", least=1), _flag(fields, "alignment"))


def _libretranslate(fields: Mapping[str, Any], languages: Languages, beam_size: int) -> LibreTranslate:
    for name in ("q", "source", "target"):
        if not fields.get(name):
            raise Refused(400, f"Invalid request: missing {name} parameter")
    for name, known in (("source", languages.source), ("target", languages.target)):
        code = fields[name]
        if (name, code) != ("source", "auto") and str(code).lower() != known.lower():
            raise Refused(400, f"{name}: {code} is not supported: this model has {known}")
    if fields.get("format") not in (None, "", "text"):
        raise Refused(400, f"format: {fields['format']} is not supported: send plain text, as format: text")
    texts, many = _texts("q", fields["q"])
    alternatives = _whole_number(fields, "alternatives", least=0)
    return LibreTranslate(
        texts=[re.split("\r\n|\r|\n", text) for text in texts],
        many=many,
        n_best=min(1 + alternatives, beam_size),  # its clients expect as many as there are
        detected=languages.source if fields["source"] == "auto" else None,
    )


def _texts(name: str, given: Any) -> tuple[list[str], bool]:
    """The texts, and whether there was a list of them."""
    many = isinstance(given, list)
    texts = given if many else [given]
    for text in texts:
        if not isinstance(text, str):
            raise Refused(400, f"{name}: a text or a list of texts is wanted, not {json.dumps(text)[:40]}")
    return texts, many


def _whole_number(fields: Mapping[str, Any], name: str, least: int) -> int:
    """A number, or its digits in a form; `least` where there is none."""
    value = fields.get(name, least)
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Refused(400, f"{name}: a whole number from {least} is wanted, not {json.dumps(value)[:40]}")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = {"true": True, "false": False}.get(str(fields.get(name, False)).lower())
    if value is None:
        raise Refused(400, f"{name}: true or false is wanted, not {json.dumps(fields[name])[:40]}")
    return value


def _fields(content_type: str, body: bytes) -> dict[str, Any]:
    """The fields of a body: JSON, unless it is said to be a form. Every text in it can be written in UTF-8."""
    kind = content_type.partition(";")[0].strip().lower()
    try:
        fields = _parsed(kind, content_type, body)
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # from JSON's \ud800; no answer could name it either
        raise Refused(400, "the body has half of a surrogate pair, which is no character") from None
    except (ValueError, RecursionError):
        raise Refused(400, f"the body is not {kind or 'JSON'}, in UTF-8") from None
    if not isinstance(fields, dict):
        raise Refused(400, "the body is not a JSON object")
    return fields


def _parsed(kind: str, content_type: str, body: bytes) -> Any:
    if kind == "application/x-www-form-urlencoded":
        return dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict"))
    if kind == "multipart/form-data":
        return _multipart(content_type, body)
    return json.loads(body)


def _multipart(content_type: str, body: bytes) -> dict[str, Any]:
    """A form as browsers send it with files: a MIME message."""
    message = email.message_from_bytes(b"Content-Type: %s\r\n\r\n%s" % (content_type.encode("latin-1"), body))
    fields = {}
    for part in message.walk():
        name, payload = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(payload, bytes):
            fields[name] = payload.decode()
    return fields
