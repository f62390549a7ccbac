"""The requests that clients of LibreTranslate send, as they were recorded, and what each expects."""

import json
from typing import Any

import pytest
from helpers.services import Answer, Gated, Service, service

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.config.schema import VocabularyConfig
from nmt.data.subwords import vocabulary
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.decoding.language_choice import LanguageChoice
from nmt.serve.batching import Offer
from nmt.serve.jobs import LibreTranslateJob, job_from
from nmt.serve.requests import RequestLimits

pytestmark = pytest.mark.usefixtures("time_limit")

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
ENGLISH, GERMAN = {"code": "en", "name": "English"}, {"code": "de", "name": "German"}
FIELDS: dict[str, Any] = {"q": "one two", "source": "en", "target": "de"}
WITH_FILE = "multipart/form-data; boundary=B"
PARTS = b"".join(
    f'--B\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    for name, value in FIELDS.items()
)


def translated(answer: Any, best: list[str]) -> bool:
    return answer == {"translatedText": best[0]}


def with_source(answer: Any, best: list[str]) -> bool:
    language, confidence = (found := answer["detectedLanguage"])["language"], found["confidence"]
    return (answer["translatedText"], language, len(answer)) == (best[0], "en", 2) and 0 < confidence <= 100


def with_sources(answer: Any, best: list[str]) -> bool:
    first, second = answer["detectedLanguage"]
    return answer["translatedText"] == [best[0]] * 2 and first == second and first["language"] == "en"


def with_alternatives(answer: Any, best: list[str]) -> bool:
    return answer == {"translatedText": best[0], "alternatives": best[1:]}


def as_html(answer: Any, best: list[str]) -> bool:
    return answer == {"translatedText": f"<p class=x>{best[0]}</p>&copy;"}


def detections(answer: Any, _: list[str]) -> bool:
    return [each["language"] for each in answer] == ["en", "de"] and 100 >= answer[0]["confidence"] > 0


def languages(answer: Any, _: list[str]) -> bool:
    return answer == [ENGLISH | {"targets": ["de"]}, GERMAN | {"targets": []}]


def settings(answer: Any, _: list[str]) -> bool:
    return (
        answer["language"] == {"source": ENGLISH, "target": GERMAN}
        and answer["charLimit"] == RequestLimits().characters
    )


def as_json(**changes: Any) -> bytes:
    return json.dumps(FIELDS | changes).encode()


# Method, path, content type, body, what is expected.
REQUESTS: dict[str, tuple[str, str, str, bytes, Any]] = {
    "deep-translator, auto": (
        *("POST", "/translate?q=one+two&source=auto&target=de&format=text&api_key=any", "", b""),
        with_source,
    ),
    "libretranslatepy": ("POST", "/translate", FORM, b"q=one+two&source=en&target=de&api_key=any", translated),
    "libretranslatepy detect": ("POST", "/detect", FORM, b"q=one+two&api_key=any", detections),
    "libretranslatepy languages": ("GET", "/languages", FORM, b"api_key=any", languages),
    "curl -d": ("POST", "/translate", FORM, as_json(), translated),
    "curl -d, detect": ("POST", "/detect", FORM, b'{"q": "one two"}', detections),
    "curl -F": ("POST", "/translate", WITH_FILE, PARTS + b"--B--\r\n", translated),
    "curl -G": ("GET", "/translate?q=one%20two&source=en&target=de", "", b"", translated),
    "half in the query": ("POST", "/translate?source=en&target=de", JSON, b'{"q": "one two"}', translated),
    "null": ("POST", "/translate", JSON, as_json(alternatives=None, format=None, api_key=None), translated),
    "empty": ("POST", "/translate", FORM, b"q=one+two&source=en&target=de&api_key=&alternatives=&format=", translated),
    "alternatives": ("POST", "/translate", JSON, as_json(alternatives=2), with_alternatives),
    "a list, auto": ("POST", "/translate", JSON, as_json(q=["one two"] * 2, source="auto"), with_sources),
    "codes": ("POST", "/translate", JSON, as_json(source="en_US", target="de-DE"), translated),
    "html": ("POST", "/translate", JSON, as_json(q="<p class=x>one two</p>&copy;", format="html"), as_html),
    "settings": ("GET", "/frontend/settings", "", b"", settings),
}


def send(served: Service, method: str, path: str, content_type: str, body: bytes, **headers: str) -> Answer:
    return served.ask(method, path, body, headers | ({"Content-Type": content_type} if content_type else {}))


def test_clients_work_as_they_are() -> None:
    translator = Gated()
    best = [each.text for each in translator.alone("one two", 3)]
    assert len(set(best)) > 1
    assert "<" not in best[0]
    with service(translator) as (served, _):
        failed = []
        for name, (*request, expected) in REQUESTS.items():
            answer = send(served, *request)
            if answer.status != 200 or not expected(answer.json, best):
                failed.append((name, answer.status, answer.body))
        raw = "q=zwölf 日本&source=en&target=de".encode()  # `curl -d` encodes nothing
        assert send(served, "POST", "/translate", FORM, raw).json == served.post(FIELDS | {"q": "zwölf 日本"}).json
    assert not failed


def test_what_cannot_be_read_is_refused_as_json() -> None:
    cases = [
        ("POST", "/suggest", FORM, b"q=a&s=b&source=en&target=de", 403, "takes no suggestions"),
        ("GET", "/translate", "", b"", 400, "missing text parameter"),
        ("GET", "/detect", "", b"", 400, "missing q parameter"),
        ("GET", "/translate?q=%ff&source=en&target=de", "", b"", 400, "the query is not valid UTF-8"),
        ("POST", "/translate", FORM, b"q=%ff", 400, "the body is not valid UTF-8"),
        ("POST", "/translate", WITH_FILE, PARTS.replace(b"one", b"\xff") + b"--B--\r\n", 400, "not valid UTF-8"),
        ("POST", "/translate", JSON, b'{"text": "\xff"}', 400, "the body is not valid JSON"),
        ("POST", "/translate", JSON, rb'{"text": "\ud800"}', 400, "the body is not valid JSON"),
        ("POST", "/translate", JSON, b"[" * 100_000, 400, "the body is not valid JSON"),
        ("POST", "/translate", JSON, b"[]", 400, "the body is not a JSON object"),
        ("POST", "/translate", FORM, b"q=one&q=two&source=en&target=de", 400, "q is given twice"),
        ("POST", "/translate?q=a", JSON, as_json(), 400, "q is given twice"),
        ("POST", "/translate", WITH_FILE, PARTS + PARTS + b"--B--", 400, "q is given twice"),
        ("POST", "/detect", JSON, as_json(q="a" * 20_001), 413, "20001 characters, more than 20000"),
        ("GET", f"/detect?q={'a' * RequestLimits().body}", "", b"", 413, "characters, more than 20000"),
    ]
    with service(Gated()) as (served, _):
        for *request, status, words in cases:
            answer = send(served, *request)
            assert (answer.status, list(answer.json)) == (status, ["error"]), request
            assert words in answer.json["error"]
        assert send(served, "POST", "/translate", JSON, as_json(), **{"Content-Encoding": "gzip"}).status == 415
        # The longest that is allowed, in each form.
        assert served.get(f"/detect?q={'%D1%84' * 19_999}").status == 200
        assert served.post({"q": "\U0001f600" * 20_000}, "/detect").status == 200


def test_clients_are_told_of_a_pair_that_was_not_trained() -> None:
    """In all formats, and each time."""
    translator, pairs = Gated(), [("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en")]
    tagged = vocabulary.learn(["one two"] * 20, VocabularyConfig(size=270), ["<2de>", "<2en>", "<2fr>"])
    languages = LanguagePairs(tuple(LanguagePair(*pair) for pair in pairs))
    translator.languages = LanguageChoice(languages, Vocabulary(tagged, tagged))
    warning = "de to fr was not trained (zero-shot): the translations may be bad"
    file = b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\none\r\n--B--'
    with service(translator) as (served, _):
        for source, expected in (("de", warning), ("de", warning), ("en", None)):
            fields = f"source={source}&target=fr"
            for answer in (
                served.post({"text": "one", "from": source, "to": "fr"}),
                served.get(f"/translate?q=one&{fields}"),
                served.post_bytes(file, WITH_FILE, f"/translate_file?{fields}"),
            ):
                assert answer.status == 200 and answer.json.get("warning") == expected


def test_the_source_is_the_likeliest_one_of_the_target() -> None:
    many = LanguagePairs((LanguagePair("en", "de"), LanguagePair("fr", "de"), LanguagePair("zh_CN", "en")))

    def source(target: str, *texts: str) -> tuple[Any, Any]:
        fields = {"q": [*texts], "source": "auto", "target": target}
        job = job_from(fields, many, RequestLimits(), Offer(1, aligns=True, has_scores=True, keep=()))
        assert isinstance(job, LibreTranslateJob)
        return job.options.pair, job.detected

    pair, detected = source("de", "Le chien court dans le jardin.", "Oui")
    assert (pair, detected.language) == (("fr", "de"), "fr") and detected.confidence > 50
    assert source("de", "The dog runs through the garden.")[0] == ("en", "de")
    assert source("de", "The dog runs through the old garden.", *["Oui monsieur"] * 4)[0] == ("en", "de")
    pair, detected = source("en", "The dog runs through the garden.")  # of another language than it can be
    assert (pair, detected.language) == (("zh_CN", "en"), "zh_CN") and detected.confidence < 5
    assert source("en", "今天天气很好，我们去公园。")[1].confidence > 50
    assert source("de", "12 : 3")[1] == ("en", 0.0)
