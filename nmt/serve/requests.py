"""Requests to /translate and their answers, in our own format or LibreTranslate's."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from nmt.config.language_codes import matching
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.decoding.kept_items import is_kept
from nmt.decoding.markup.marked_text import MarkedText
from nmt.decoding.translator import Translation
from nmt.errors import NmtError
from nmt.serve import fields as request_fields
from nmt.serve.batching import DECIMALS, MAX_ANSWER, NBest
from nmt.serve.detection import Detected, detect
from nmt.serve.fields import Received, RequestError


@dataclass(frozen=True)
class Limits:
    """Maximum lines and characters of a request, lines that wait in total, bytes of an answer, bytes of a file (0:
    files are not translated), and seconds to read it, and to write its translation."""

    lines: int = 256
    characters: int = 20_000
    waiting: int = 1000
    answer: int = MAX_ANSWER
    file: int = 4 << 20
    document_seconds: float = 60

    def __post_init__(self) -> None:
        if self.lines > self.waiting:
            raise NmtError(
                f"--max-lines {self.lines} is more than --max-waiting {self.waiting}: lower one or raise the other"
            )

    @property
    def body(self) -> int:
        """Maximum bytes of a request: 12 for a character (`\\ud83d\\ude00`, `%F0%9F%98%80`), some for the format."""
        return 12 * self.characters + 64 * self.lines + 10_000

    @property
    def upload(self) -> int:
        """Maximum bytes of a request with a file."""
        return self.file + 64_000


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
    without_alignment: ClassVar[str] = "leave out alignment"  # how to ask for a smaller answer

    @property
    def characters(self) -> int:
        return sum(map(len, self.lines))

    def answer(self, n_best: NBest, warning: str = "") -> bytes:
        """The answer as JSON. It makes no single long call to `json`, which would block the other threads."""
        lines = (",".join(map(self._translation, translations)) for translations in n_best)
        more = f',"warning":{_json(warning)}' if warning else ""
        return f'{{"translations":[{",".join(f"[{line}]" for line in lines)}]{more}}}'.encode()

    def _translation(self, translation: Translation) -> str:
        """The fields of a Translation, by the same names."""
        names = ["text", "score", "log_probability", "pieces", "token_scores"]
        fields = {name: _json(getattr(translation, name)) for name in names}
        if self.alignment:
            fields["source_pieces"] = _json(translation.source_pieces)
            fields["alignment"] = _matrix(translation.alignment)
        return f"{{{','.join(f'{_json(name)}:{value}' for name, value in fields.items())}}}"


class Text(Protocol):
    """A text of a request: lines that are translated separately, and how their translations are put together."""

    @property
    def lines(self) -> Sequence[str]: ...
    @property
    def characters(self) -> int: ...
    @property
    def has_elements(self) -> bool: ...
    def join(self, translations: Sequence[Translation]) -> str: ...


@dataclass(frozen=True)
class PlainText:
    """A text whose line breaks are kept."""

    lines: list[str]
    has_elements: ClassVar[bool] = False

    @classmethod
    def of(cls, text: str) -> "PlainText":
        return cls(re.split("\r\n|\r|\n", text))

    @property
    def characters(self) -> int:
        return sum(map(len, self.lines))

    def join(self, translations: Sequence[Translation]) -> str:
        return "\n".join(translation.text for translation in translations)


@dataclass(frozen=True)
class HtmlText:
    """A text with tags."""

    marked: MarkedText
    characters: int

    @classmethod
    def of(cls, text: str, language: str) -> "HtmlText":
        return cls(MarkedText(text, language), len(text))

    @property
    def lines(self) -> list[str]:
        return [line.text for line in self.marked.lines]

    @property
    def has_elements(self) -> bool:
        return any(line.elements for line in self.marked.lines)

    def join(self, translations: Sequence[Translation]) -> str:
        lines = zip(self.marked.lines, translations, strict=True)
        return self.marked.with_lines([line.translated(translation) for line, translation in lines])


@dataclass(frozen=True)
class LibreTranslateRequest:
    """{"q": "…" or ["…", …], "source", "target", "format", "alternatives", "api_key"}."""

    texts: Sequence[Text]
    is_list: bool  # `q` was a list, so the answer has lists
    n_best: int
    detected: Detected | None  # the source language, if the request had `auto`
    languages: LanguagePair | None = None  # None: the model has one pair
    token_scores: ClassVar[bool] = False
    count_field: ClassVar[str] = "alternatives"
    without_alignment: ClassVar[str] = "set format to text"

    @property
    def alignment(self) -> bool:
        """Whether one says where tags go."""
        return any(text.has_elements for text in self.texts)

    @property
    def lines(self) -> list[str]:
        return [line for text in self.texts for line in text.lines]

    @property
    def characters(self) -> int:
        return sum(text.characters for text in self.texts)

    def answer(self, n_best: NBest, warning: str = "") -> bytes:
        """The answer as JSON. LibreTranslate has no warning; its clients ignore it."""
        texts: list[list[str]] = []  # the translations of each text, best first
        for text in self.texts:
            lines, n_best = n_best[: len(text.lines)], n_best[len(text.lines) :]
            # A line without words has only one translation, the empty one, which every rank uses.
            ranks = range(max(map(len, lines), default=1))
            joined = (text.join([line[min(rank, len(line) - 1)] for line in lines]) for rank in ranks)
            texts.append(list(dict.fromkeys(joined)))  # different lines can be the same text
        answer: dict[str, Any] = {"translatedText": self._one_or_all([best for best, *_ in texts])}
        if self.n_best > 1:
            answer["alternatives"] = self._one_or_all([others for _, *others in texts])
        if self.detected:
            answer["detectedLanguage"] = self._one_or_all([self.detected._asdict()] * len(texts))
        if warning:
            answer["warning"] = warning
        return _json(answer).encode()

    def _one_or_all(self, values: list[Any]) -> Any:
        return values if self.is_list else values[0]


_OLD_CODES = {"pb": "pt-BR", "zt": "zh-Hant"}  # as LibreTranslate had them before, and still takes them

TranslationRequest = NmtRequest | LibreTranslateRequest


def _json(value: Any) -> str:
    """Raises ValueError for a number that JSON does not have; no score is such a number."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _matrix(alignment: list[list[float]] | None) -> str:
    """Row by row: one call for the complete matrix could block the other threads for a second."""
    if alignment is None:
        return "null"
    return f"[{','.join(_json([round(weight, DECIMALS) for weight in row]) for row in alignment)}]"


def parse(received: Received, languages: LanguagePairs, limits: Limits, beam_size: int) -> TranslationRequest:
    """The request for a translation. Raises RequestError if it is not valid or too large."""
    fields = request_fields.read(received, limits.body)
    if fields.keys() & {"q", "source", "target"}:
        request: TranslationRequest = _libretranslate(fields, languages, limits, beam_size)
    else:
        request = _own(fields, languages)
    check_count(len(request.lines), "lines", limits.lines)
    check_count(request.characters, "characters", limits.characters)
    return request


def parse_detection(received: Received, languages: LanguagePairs, limits: Limits) -> list[Detected]:
    """LibreTranslate's answer to the request for the language of a text: at most three, and the first in any case.
    Raises RequestError as `parse` does."""
    fields = request_fields.read(received, limits.body)
    if not fields.get("q"):
        raise RequestError(400, "Invalid request: missing q parameter")
    texts, _ = _texts("q", fields["q"])
    check_count(sum(map(len, texts)), "characters", limits.characters)
    lines = [line for text in texts for line in PlainText.of(text).lines]
    best, *others = detect(lines, list(dict.fromkeys([*languages.sources, *languages.targets])))
    return [best, *(other for other in others[:2] if other.confidence)]


def warning_of(request: TranslationRequest, n_best: NBest, languages: LanguagePairs, keep: tuple[str, ...]) -> str:
    """What the client should know of its translations; empty for nothing. keep: decoding.keep."""
    lost = count_not_kept(request.lines, n_best, keep)
    found = [languages.warning(request.languages) if request.languages else "", not_kept(lost, len(n_best))]
    return "; ".join(filter(None, found))


def count_not_kept(lines: Sequence[str], n_best: NBest, keep: tuple[str, ...]) -> int:
    """How many lines have a translation that lacks something which is to be kept."""
    if not keep:
        return 0
    pairs = zip(lines, n_best, strict=True)
    return sum(not all(is_kept(line, each.text, keep) for each in translations) for line, translations in pairs)


def not_kept(lost: int, lines: int) -> str:
    """What to tell of lines that lack something which is to be kept."""
    return f"{lost} of {lines} lines: not all placeholders are in the translation" if lost else ""


def check_given(fields: Mapping[str, Any], *names: str) -> None:
    """Raises RequestError for a field that is missing, with LibreTranslate's words."""
    for name in names:
        if not fields.get(name):
            raise RequestError(400, f"Invalid request: missing {name} parameter")


def check_count(count: int, name: str, limit: int, fix: str = "send fewer in one request") -> None:
    """Raises RequestError for more than the limit."""
    if count > limit:
        raise RequestError(413, f"{count} {name}, more than {limit}: {fix}")


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
    return NmtRequest(texts, n_best, alignment, chosen_pair(languages, *codes))


def chosen_pair(languages: LanguagePairs, to: str | None, from_: str | None) -> LanguagePair | None:
    """The pair; None if the model has only one."""
    try:
        pair = languages.choose(to, from_)
    except NmtError as error:
        raise RequestError(400, str(error)) from None
    return pair if languages.several else None


def _libretranslate(
    fields: Mapping[str, Any], languages: LanguagePairs, limits: Limits, beam_size: int
) -> LibreTranslateRequest:
    check_given(fields, "q", "source", "target")
    asked, is_list = _texts("q", fields["q"])
    as_html = _is_html(fields)
    if as_html:
        check_count(sum(map(len, asked)), "characters", limits.characters)  # before they are read
    target = language_of(fields, "target", languages.targets)
    source = "" if fields["source"] == "auto" else language_of(fields, "source", languages.sources)
    texts: list[Text] = [HtmlText.of(text, source) if as_html else PlainText.of(text) for text in asked]
    lines = [line for text in texts for line in text.lines]
    detected = None if source else likeliest_source(lines, languages, target)
    return LibreTranslateRequest(
        texts=texts,
        is_list=is_list,
        n_best=min(1 + _integer(fields, "alternatives", least=0), beam_size),  # clients accept fewer
        detected=detected,
        languages=chosen_pair(languages, target, detected.language if detected else source),
    )


def _is_html(fields: Mapping[str, Any]) -> bool:
    wanted = fields.get("format") or "text"
    if wanted not in ("text", "html"):
        raise RequestError(400, f"format: {str(wanted)[:40]} is not supported: send text or html")
    return bool(wanted == "html")


def language_of(fields: Mapping[str, Any], name: str, known: list[str]) -> str:
    """The language of a field, as the model writes it."""
    code = str(fields[name])
    if found := matching(code, known) or matching(_OLD_CODES.get(code, code), known):
        return found
    several = "is" if len(known) == 1 else "can be"
    raise RequestError(400, f"{name}: {code[:40]} is not supported: this model's {name} {several} {', '.join(known)}")


def likeliest_source(lines: Sequence[str], languages: LanguagePairs, target: str) -> Detected:
    """The likeliest source of those with this target, of all lines together, as LibreTranslate does it."""
    return detect(lines, [pair.source for pair in languages.pairs if pair.target == target])[0]


def _texts(name: str, value: Any) -> tuple[list[str], bool]:
    """The texts, and whether the value is a list."""
    is_list = isinstance(value, list)
    texts = value if is_list else [value]
    for text in texts:
        if not isinstance(text, str):
            raise _wrong(name, "a text or a list of texts", text)
    return texts, is_list


def _integer(fields: Mapping[str, Any], name: str, least: int) -> int:
    """An integer, in a form as text; `least` if the field is missing or has no value."""
    value = fields.get(name, least)
    if value == "":
        return least
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
