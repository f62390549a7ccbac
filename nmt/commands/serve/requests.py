"""Requests to /translate and their answers, in our own format or LibreTranslate's."""

import email
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qsl

from nmt.commands.serve.batching import DECIMALS, MAX_ANSWER, NBest
from nmt.config.language_codes import normal
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.decoding.translator import Translation
from nmt.errors import NmtError


class RequestError(Exception):
    """An HTTP status of 400 or more and a message of one line; close: do not wait for the rest of the request."""

    def __init__(self, status: int, message: str, *, close: bool = False):
        super().__init__(message)
        self.status, self.close = status, close


@dataclass(frozen=True)
class Limits:
    """Maximum lines and characters of a request, lines that wait in total, and bytes of an answer."""

    lines: int = 256
    characters: int = 20_000
    waiting: int = 1000
    answer: int = MAX_ANSWER

    def __post_init__(self) -> None:
        if self.lines > self.waiting:
            raise NmtError(
                f"--max-lines {self.lines} is more than --max-waiting {self.waiting}: lower one or raise the other"
            )

    @property
    def body(self) -> int:
        """Maximum bytes of a request: 12 for a character (`\\ud83d\\ude00`, `%F0%9F%98%80`), some for the format."""
        return 12 * self.characters + 64 * self.lines + 10_000


@dataclass(frozen=True)
class NmtRequest:
    """{"text": "…" or ["…", …], "n_best": 1, "alignment": false, "to": "fr", "from": "en"}. Each text is one line; a
    line break is a space."""

    lines: list[str]
    n_best: int
    alignment: bool
    languages: LanguagePair | None = None  # None: the model has one pair
    token_scores: ClassVar[bool] = True  # in the answer
    count_field: ClassVar[str] = "n_best"  # the field for the number of translations

    def answer(self, n_best: NBest) -> bytes:
        """The answer as JSON. It makes no single long call to `json`, which would block the other threads."""
        lines = (",".join(map(self._translation, translations)) for translations in n_best)
        return f'{{"translations":[{",".join(f"[{line}]" for line in lines)}]}}'.encode()

    def _translation(self, one: Translation) -> str:
        """The fields of a Translation, by the same names."""
        names = ["text", "score", "log_probability", "pieces", "token_scores"]
        fields = {name: _json(getattr(one, name)) for name in names}
        if self.alignment:
            fields["source_pieces"] = _json(one.source_pieces)
            fields["alignment"] = _matrix(one.alignment)
        return f"{{{','.join(f'{_json(name)}:{value}' for name, value in fields.items())}}}"


@dataclass(frozen=True)
class LibreTranslateRequest:
    """{"q": "…" or ["…", …], "source", "target", "format", "alternatives", "api_key"}. Line breaks are kept."""

    texts: list[list[str]]  # the lines of each text
    is_list: bool  # `q` was a list, so the answer has lists
    n_best: int
    detected: str | None  # the source language, if the request had `auto`
    languages: LanguagePair | None = None  # None: the model has one pair
    alignment: ClassVar[bool] = False
    token_scores: ClassVar[bool] = False
    count_field: ClassVar[str] = "alternatives"

    @property
    def lines(self) -> list[str]:
        return [line for text in self.texts for line in text]

    def answer(self, n_best: NBest) -> bytes:
        """The answer as JSON."""
        texts: list[list[str]] = []  # the translations of each text, best first
        for text in self.texts:
            lines, n_best = n_best[: len(text)], n_best[len(text) :]
            # A line without words has only one translation, the empty one, which every rank uses.
            texts.append([
                "\n".join(line[min(rank, len(line) - 1)].text for line in lines) for rank in range(max(map(len, lines)))
            ])  # fmt: skip
        answer: dict[str, Any] = {"translatedText": self._one_or_all([best for best, *_ in texts])}
        if self.n_best > 1:
            answer["alternatives"] = self._one_or_all([others for _, *others in texts])
        if self.detected:
            # Nothing is detected: it is the only language that the model translates from, or the first.
            answer["detectedLanguage"] = self._one_or_all([{"language": self.detected, "confidence": 0}] * len(texts))
        return _json(answer).encode()

    def _one_or_all(self, values: list[Any]) -> Any:
        return values if self.is_list else values[0]


TranslationRequest = NmtRequest | LibreTranslateRequest


def _json(value: Any) -> str:
    """Raises ValueError for a number that JSON does not have; no score is such a number."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _matrix(alignment: list[list[float]] | None) -> str:
    """Row by row: one call for the complete matrix could block the other threads for a second."""
    if alignment is None:
        return "null"
    return f"[{','.join(_json([round(weight, DECIMALS) for weight in row]) for row in alignment)}]"


def parse(
    content_type: str, body: bytes, languages: LanguagePairs, limits: Limits, beam_size: int
) -> TranslationRequest:
    """The request in a body. Raises RequestError if it is not valid or too large."""
    fields = _fields(content_type, body)
    request = _libretranslate(fields, languages, beam_size) if "q" in fields else _own(fields, languages)
    lines, characters = len(request.lines), sum(map(len, request.lines))
    for count, name, limit in ((lines, "lines", limits.lines), (characters, "characters", limits.characters)):
        if count > limit:
            raise RequestError(413, f"{count} {name}, more than {limit}: send fewer in one request")
    return request


def _own(fields: Mapping[str, Any], languages: LanguagePairs) -> NmtRequest:
    for name in fields.keys() - {"text", "n_best", "alignment", "to", "from"}:
        raise RequestError(
            400, f"{name}: unknown field: use text, to, from, n_best and alignment, or q, source and target"
        )
    if "text" not in fields:
        raise RequestError(400, "text is missing: give a text or a list of texts")
    texts, _ = _texts("text", fields["text"])
    codes = [fields.get(name) for name in ("to", "from")]
    for name, code in zip(("to", "from"), codes, strict=True):
        if not isinstance(code, str | None):
            raise _wrong(name, "the code of a language", code)
    n_best, alignment = _integer(fields, "n_best", least=1), _boolean(fields, "alignment")
    return NmtRequest(texts, n_best, alignment, _chosen(languages, *codes))


def _chosen(languages: LanguagePairs, to: str | None, from_: str | None) -> LanguagePair | None:
    """The pair; None if the model has only one."""
    try:
        pair = languages.choose(to, from_)
    except NmtError as error:
        raise RequestError(400, str(error)) from None
    return pair if languages.several else None


def _libretranslate(fields: Mapping[str, Any], languages: LanguagePairs, beam_size: int) -> LibreTranslateRequest:
    for name in ("q", "source", "target"):
        if not fields.get(name):
            raise RequestError(400, f"Invalid request: missing {name} parameter")
    for name, known in (("source", languages.sources), ("target", languages.targets)):
        code = str(fields[name])
        if (name, code) != ("source", "auto") and normal(code) not in map(normal, known):
            several = "is" if len(known) == 1 else "can be"
            raise RequestError(
                400, f"{name}: {code} is not supported: this model's {name} {several} {', '.join(known)}"
            )
    source = str(fields["source"])
    pair = _chosen(languages, str(fields["target"]), None if source == "auto" else source)
    if fields.get("format") not in (None, "", "text"):
        raise RequestError(400, f"format: {fields['format']} is not supported: send plain text and format: text")
    texts, is_list = _texts("q", fields["q"])
    alternatives = _integer(fields, "alternatives", least=0)
    return LibreTranslateRequest(
        texts=[re.split("\r\n|\r|\n", text) for text in texts],
        is_list=is_list,
        n_best=min(1 + alternatives, beam_size),  # clients accept fewer than they ask for
        detected=_first_source(languages, pair) if source == "auto" else None,
        languages=pair,
    )


def _first_source(languages: LanguagePairs, pair: LanguagePair | None) -> str:
    """The only source of the pair's target, or the first."""
    return next(one.source for one in languages.pairs if pair is None or one.target == pair.target)


def _texts(name: str, value: Any) -> tuple[list[str], bool]:
    """The texts, and whether the value is a list."""
    is_list = isinstance(value, list)
    texts = value if is_list else [value]
    for text in texts:
        if not isinstance(text, str):
            raise _wrong(name, "a text or a list of texts", text)
    return texts, is_list


def _integer(fields: Mapping[str, Any], name: str, least: int) -> int:
    """An integer, in a form as text; `least` if the field is missing."""
    value = fields.get(name, least)
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise _wrong(name, f"an integer of at least {least}", value)
    return value


def _boolean(fields: Mapping[str, Any], name: str) -> bool:
    value = {"true": True, "false": False}.get(str(fields.get(name, False)).lower())
    if value is None:
        raise _wrong(name, "true or false", fields[name])
    return value


def _wrong(name: str, expected: str, value: Any) -> RequestError:
    return RequestError(400, f"{name}: expected {expected}, not {json.dumps(value)[:40]}")


def _fields(content_type: str, body: bytes) -> dict[str, Any]:
    """The fields of a body, which is JSON unless its content type is a form. All texts can be written in UTF-8."""
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == "application/x-www-form-urlencoded":
            fields: Any = _once(parse_qsl(body.decode(), keep_blank_values=True, errors="strict"))
        elif kind == "multipart/form-data":
            fields = _multipart(content_type, body)
        else:
            fields = json.loads(body, object_pairs_hook=_once)
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # JSON's \ud800, which no answer could repeat
        raise RequestError(400, "the body has half of a surrogate pair, which is not a character") from None
    except (ValueError, RecursionError):
        raise RequestError(400, f"the body is not valid {kind or 'JSON'} in UTF-8") from None
    if not isinstance(fields, dict):
        raise RequestError(400, "the body is not a JSON object")
    return fields


def _multipart(content_type: str, body: bytes) -> dict[str, Any]:
    """The fields of a form that is sent as a MIME message."""
    message = email.message_from_bytes(b"Content-Type: %s\r\n\r\n%s" % (content_type.encode("latin-1"), body))
    fields = list[tuple[str, Any]]()
    for part in message.walk():
        name, payload = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(payload, bytes):
            fields.append((name, payload.decode()))
    return _once(fields)


def _once(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Fields by name. Raises RequestError for a name that is given twice: one of the two would be ignored."""
    named = dict(fields)
    if len(named) < len(fields):
        names = [name for name, _ in fields]
        twice = next(name for name in names if names.count(name) > 1)
        raise RequestError(400, f"{twice[:40]} is given twice: send several texts as a list in JSON")
    return named
