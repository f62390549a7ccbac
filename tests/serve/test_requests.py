"""Bodies of requests in both shapes, and their answers."""

import gzip
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.decoding.translator import Translation
from nmt.serve import requests
from nmt.serve.detection import Detected
from nmt.serve.fields import Received, RequestError, read
from nmt.serve.requests import LibreTranslateRequest, Limits, NmtRequest, PlainText, parse

JSON = "application/json"
FORM = "application/x-www-form-urlencoded; charset=utf-8"
LANGUAGES = LanguagePairs((LanguagePair("en", "de"),))
LIBRE = {"source": "en", "target": "de"}


def asked(fields: object, limits: Limits | None = None) -> Any:
    return received(Received(json.dumps(fields).encode(), JSON), limits)


def received(request: Received, limits: Limits | None = None) -> Any:
    return parse(request, LANGUAGES, limits or Limits(), beam_size=3)


def one(text: str) -> Translation:
    return Translation(text, -0.5, -1.0, [text, "</s>"], [-0.75, -0.25])


def test_our_own_shape() -> None:
    assert asked({"text": "a b"}) == NmtRequest(["a b"], 1, False)
    assert asked({"text": ["a\nb", ""], "n_best": 2, "alignment": True}) == NmtRequest(["a\nb", ""], 2, True)
    assert asked({"text": []}) == NmtRequest([], 1, False)
    answer = json.loads(asked({"text": ["a"], "n_best": 2}).answer([[one("x"), one("y")]]))
    first = {"text": "x", "score": -0.5, "log_probability": -1.0, "pieces": ["x", "</s>"]}
    assert answer["translations"][0][0] == first | {"token_scores": [-0.75, -0.25]}
    assert [[best["text"] for best in line] for line in answer["translations"]] == [["x", "y"]]


def test_a_placeholder_that_is_lost_is_a_warning() -> None:
    request = asked({"text": ["a {b}", "c {d} {d}", "e"], "n_best": 2})
    found = [[one("{b} x"), one("{b}")], [one("{d} {d}"), one("{d}")], [one("y")]]
    warning = requests.warning_of(request, found, LANGUAGES, ("verbatim",))
    assert warning == "1 of 3 lines: not all placeholders are in the translation"
    assert json.loads(request.answer(found, warning))["warning"] == warning
    assert requests.warning_of(request, found[:1], LANGUAGES, ()) == ""
    assert "warning" not in json.loads(request.answer(found))


def test_an_alignment_is_in_the_answer_if_asked_for() -> None:
    request = asked({"text": ["a", ""], "alignment": True})
    found = replace(one("x"), source_pieces=["ä", "</s>"], alignment=[[1 / 3, 2 / 3], [1.0, 1e-9]])
    first, empty = [best[0] for best in json.loads(request.answer([[found], [one("")]]))["translations"]]
    assert first["source_pieces"] == ["ä", "</s>"]
    assert first["alignment"] == [[0.333333, 0.666667], [1.0, 0.0]]
    assert (empty["source_pieces"], empty["alignment"]) == (None, None)


def test_no_call_for_json_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for a whole answer would keep all other threads waiting: it is written in C, and never interrupted."""
    lengths, dumps = [], json.dumps
    monkeypatch.setattr(
        json, "dumps", lambda *args, **kwargs: lengths.append(len(made := dumps(*args, **kwargs))) or made
    )
    found = replace(one("x"), source_pieces=["a"] * 400, alignment=[[1 / 3] * 400] * 400)
    content = asked({"text": ["a"], "n_best": 3, "alignment": True}).answer([[found] * 3])
    assert len(content) > 3 * 400 * 400 * 8
    assert max(lengths) < 10_000


def test_libretranslates_lists_alternatives_and_detection() -> None:
    request = asked({"q": ["a\n", "b"], "source": "auto", "target": "DE", "alternatives": 1})
    found = Detected("en", request.detected.confidence)
    texts = [PlainText(["a", ""]), PlainText(["b"])]
    assert request == LibreTranslateRequest(texts, is_list=True, n_best=2, detected=found)
    assert json.loads(request.answer([[one("A"), one("AA")], [one("")], [one("B"), one("BB")]])) == {
        "translatedText": ["A\n", "B"],
        "alternatives": [["AA\n"], ["BB"]],
        "detectedLanguage": [{"language": "en", "confidence": found.confidence}] * 2,
    }
    assert asked(LIBRE | {"q": "a", "alternatives": 99}).n_best == 3


@pytest.mark.parametrize(
    ("fields", "best"),
    [
        ({"q": "a\n1\nb"}, "A\n1\nB"),
        ({"q": "a<br>1<br>b", "format": "html"}, "A<br>1<br>B"),
        ({"q": "<b>a</b> 1 <i>b</i>", "format": "html"}, "<b></b><i>X</i>"),
    ],
)
def test_alternatives_are_different_texts(fields: dict[str, Any], best: str) -> None:
    """The translations of a line are; the texts that are joined from several lines need not be."""
    request = asked(LIBRE | fields | {"alternatives": 2})
    translations = {"a": [one("A"), one("A A")], "b": [one("B")], "1": [one("1")], "a 1 b": [one("X")]}
    answer = json.loads(request.answer([translations[line] for line in request.lines]))
    texts = [answer["translatedText"], *answer["alternatives"]]
    assert texts[0] == best and len(set(texts)) == len(texts)


def test_old_codes_of_libretranslate() -> None:
    many = LanguagePairs((LanguagePair("en", "pt-BR"), LanguagePair("en", "pt-PT"), LanguagePair("zh-Hant", "pt-PT")))
    body = json.dumps({"q": "a", "source": "zt", "target": "pb"}).encode()
    assert parse(Received(body), many, Limits(), beam_size=1).languages == ("zh-Hant", "pt-BR")


def test_html_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MarkedText", lambda _: pytest.fail("it was read"))
    with pytest.raises(RequestError, match="11 characters, more than 10"):
        asked(LIBRE | {"q": "<" * 11, "format": "html"}, Limits(characters=10))


def test_forms() -> None:
    found = received(Received(b"q=d%C3%B6g+%26%0Acat&source=en&target=de&api_key=&alternatives=2", FORM))
    assert found == LibreTranslateRequest([PlainText(["dög &", "cat"])], is_list=False, n_best=3, detected=None)
    own = received(Received(b"text=a&n_best=2&alignment=true", FORM))
    assert own == NmtRequest(["a"], 2, True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([], 'the body is not a JSON object, such as {"text": ["a", "b"]}'),
        ({}, "text is missing: give a text or a list of texts"),
        (
            {"text": "a", "beam": 2},
            "beam: unknown field: use text, to, from, n_best and alignment, or q, source and target",
        ),
        ({"text": ["a", None]}, "text: expected a text or a list of texts, not null"),
        ({"q": "a", "source": ["\ud800"]}, "the body has half of a surrogate pair, which is not a character"),
        ({"text": "a", "n_best": "many"}, 'n_best: expected an integer of at least 1, not "many"'),
        ({"text": "a", "alignment": 1}, "alignment: expected true or false, not 1"),
        ({"q": "a", "target": "de"}, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "fr", "target": "de"}, "source: fr is not supported: this model's source is en"),
        ({"q": "a", "format": "pdf"} | LIBRE, "format: pdf is not supported: send text or html"),
    ],
)
def test_what_cannot_be_meant(fields: object, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        asked(fields)
    assert (refused.value.status, str(refused.value)) == (400, message)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [(JSON, b"{"), (JSON, b'{"text": "\xff"}'), (JSON, b"[" * 100_000), (FORM, b"q=%ff")],
)
def test_bodies_that_cannot_be_read(content_type: str, body: bytes) -> None:
    with pytest.raises(RequestError, match=r"^the body is not valid application/[a-z-]+ in UTF-8$"):
        received(Received(body, content_type))


@pytest.mark.parametrize(
    ("content_type", "body"),
    [(JSON, b'{"q": "one", "source": "en", "target": "de", "q": "two"}'), (FORM, b"q=one&q=two&source=en&target=de")],
)
def test_no_text_is_left_out_because_another_has_its_name(content_type: str, body: bytes) -> None:
    with pytest.raises(RequestError, match=r"^q is given twice: send several texts as a list in JSON$"):
        received(Received(body, content_type))


def test_limits() -> None:
    limits = Limits(lines=3, characters=10)
    assert asked({"text": ["aaa", "bbb", "cccc"]}, limits).lines == ["aaa", "bbb", "cccc"]
    for fields, words in (
        ({"text": ["a"] * 4}, "4 lines, more than 3"),
        ({"q": "a\nb\nc\nd"} | LIBRE, "4 lines, more than 3"),
        ({"text": "a" * 11}, "11 characters, more than 10"),
    ):
        with pytest.raises(RequestError, match=words) as refused:
            asked(fields, limits)
        assert refused.value.status == 413
    longest = json.dumps({"text": ["\U0001f600" * 20_000] + [""] * 255, "n_best": 4})
    assert len(longest) < Limits().body


def test_a_small_body_does_not_become_a_large_one_in_memory() -> None:
    bomb = gzip.compress(b" " * 10**7)
    tracemalloc.start()
    try:
        with pytest.raises(RequestError, match="the body has more than 1000 bytes"):
            read(Received(bomb, JSON, "gzip"), 1000)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()
