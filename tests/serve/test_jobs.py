"""Fields of requests in both formats, and their answers."""

from dataclasses import replace
from typing import Any

import pytest
from fastapi import HTTPException

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.decoding.translator import Translation
from nmt.errors import NmtError
from nmt.serve import jobs
from nmt.serve.batching import BatchOptions, Offer
from nmt.serve.jobs import job_from, job_warning
from nmt.serve.requests import RequestLimits

LANGUAGES = LanguagePairs((LanguagePair("en", "de"),))
MANY = LanguagePairs((LanguagePair("en", "pt-BR"), LanguagePair("en", "pt-PT"), LanguagePair("zh-Hant", "pt-PT")))
OFFER = Offer(n_best=3, aligns=True, has_scores=True, keep=("verbatim",))
ENDPOINT = Offer(n_best=1, aligns=False, has_scores=False, keep=())
LIBRE = {"source": "en", "target": "de"}


def job(
    fields: dict[str, Any],
    limits: RequestLimits | None = None,
    languages: LanguagePairs = LANGUAGES,
    offer: Offer = OFFER,
) -> Any:
    return job_from(fields, languages, limits or RequestLimits(), offer)


def translation(text: str) -> Translation:
    return Translation(text, -0.5, -1.0, [text, "</s>"], [-0.75, -0.25], subwords=2, source_subwords=3)


@pytest.mark.parametrize(
    ("fields", "lines", "n_best", "alignment"),
    [
        ({"text": "a\nb"}, ["a\nb"], 1, False),
        ({"text": ["a", ""], "n_best": 2, "alignment": True}, ["a", ""], 2, True),
        ({"text": [], "n_best": "2", "alignment": "true"}, [], 2, True),  # of a form
        ({"q": "a\r\nb\n"} | LIBRE, ["a", "b", ""], 1, False),
        ({"q": ["a", "b"], "alternatives": 99} | LIBRE, ["a", "b"], 3, False),
        ({"q": "<p>a <b>c</b></p>", "format": "html"} | LIBRE, ["a c"], 1, True),
    ],
)
def test_what_is_asked_for(fields: dict[str, Any], lines: list[str], n_best: int, alignment: bool) -> None:
    found = job(fields)
    expected = BatchOptions(n_best, alignment, token_scores="text" in fields)
    assert (found.lines, found.options) == (lines, expected)


def test_our_own_answer() -> None:
    aligned = replace(translation("x"), source_pieces=["ä", "</s>"], alignment=[[1 / 3, 2 / 3], [1.0, 1e-9]])
    fields = {"text": "x", "score": -0.5, "log_probability": -1.0, "pieces": ["x", "</s>"]}
    fields |= {"token_scores": [-0.75, -0.25], "subwords": 2, "source_subwords": 3}
    assert job({"text": "a"}).answer([[aligned, translation("y")]])["translations"][0][0] == fields
    [[best], [empty]] = job({"text": ["a", ""], "alignment": True}).answer([[aligned], [translation("")]])[
        "translations"
    ]
    assert best == fields | {"source_pieces": ["ä", "</s>"], "alignment": [[0.333333, 0.666667], [1.0, 0.0]]}
    assert (empty["source_pieces"], empty["alignment"]) == (None, None)


def test_libretranslates_answer() -> None:
    request = job({"q": ["a\n", "b"], "source": "auto", "target": "DE", "alternatives": 1})
    detected = {"language": "en", "confidence": request.detected.confidence}
    n_best = [[translation("A"), translation("AA")], [translation("")], [translation("B"), translation("BB")]]
    assert request.answer(n_best) == {
        "translatedText": ["A\n", "B"],
        "alternatives": [["AA\n"], ["BB"]],
        "detectedLanguage": [detected, detected],
    }


@pytest.mark.parametrize(
    ("fields", "best"),
    [
        ({"q": "a\n1\nb"}, "A\n1\nB"),
        ({"q": "a<br>1<br>b", "format": "html"}, "A<br>1<br>B"),
        ({"q": "<b>a</b> 1 <i>b</i>", "format": "html"}, "<b></b><i>X</i>"),
        ({"q": "c<br>b", "format": "html"}, "C<br>B"),
    ],
)
def test_alternatives_are_different_texts(fields: dict[str, Any], best: str) -> None:
    """The translations of a line are; the texts that are joined from several lines need not be."""
    request = job(LIBRE | fields | {"alternatives": 2})
    words = {"a": ["A", "A A"], "b": ["B"], "c": ["C", "c", ""], "1": ["1"], "a 1 b": ["X"]}
    answer = request.answer([[translation(text) for text in words[line]] for line in request.lines])
    texts = [answer["translatedText"], *answer["alternatives"]]
    assert texts[0] == best and len(set(texts)) == len(texts)


def test_a_placeholder_that_is_lost_is_a_warning() -> None:
    request = job({"text": ["a {b}", "c {d} {d}", "e"], "n_best": 2})
    n_best = [[translation(text) for text in texts] for texts in (["{b} x", "{b}"], ["{d} {d}", "{d}"], ["y"])]
    warning = "1 of 3 lines: not all placeholders are in the translation"
    assert job_warning(request, n_best, LANGUAGES, OFFER) == warning
    assert job_warning(request, n_best, LANGUAGES, replace(OFFER, keep=())) == ""


def test_an_endpoint_gives_texts_alone() -> None:
    request = job({"text": ["a", "b", " "]}, offer=ENDPOINT)
    n_best = [[translation("A")], [translation("")], [translation("")]]
    assert request.answer(n_best) == {"translations": [[{"text": "A"}], [{"text": ""}], [{"text": ""}]]}
    assert job_warning(request, n_best, LANGUAGES, ENDPOINT) == "1 of 3 lines: the answer is not a translation"
    assert job_warning(request, n_best, LANGUAGES, OFFER) == "", "a model can give an empty text"
    html = job({"q": "<p>a <b>c</b></p>", "format": "html", "alternatives": 3} | LIBRE, offer=ENDPOINT)
    assert html.options == BatchOptions(1, alignment=False, token_scores=False)


def test_old_codes_of_libretranslate() -> None:
    assert job({"q": "a", "source": "zt", "target": "pb"}, languages=MANY).options.pair == ("zh-Hant", "pt-BR")
    with pytest.raises(NmtError, match="no target language"):
        job({"text": "a"}, languages=MANY)


def test_html_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MarkedText", lambda *_: pytest.fail("it was read"))
    with pytest.raises(HTTPException) as refused:
        job(LIBRE | {"q": "<" * 11, "format": "html"}, RequestLimits(characters=10))
    assert (refused.value.status_code, refused.value.detail) == (
        413, "11 characters, more than 10: send fewer in one request",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "missing text parameter"),
        ({"text": "a", "beam": 2}, "beam: "),
        ({"text": ["a", 1]}, "text: "),
        ({"text": "a", "n_best": "many"}, "n_best: "),
        ({"text": "a", "n_best": 0}, "n_best: "),
        ({"text": "a", "alignment": 2}, "alignment: "),
        ({"text": "a", "to": ["de"]}, "to: "),
        ({"q": "a", "target": "de"}, "missing source parameter"),
        ({"q": "a", "source": "fr", "target": "de"}, "source: fr is not supported: this model has en"),
        ({"q": "a", "format": "pdf"} | LIBRE, "format: "),
    ],
)
def test_what_cannot_be_meant(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(HTTPException) as refused:
        job(fields)
    assert refused.value.status_code == 400
    assert words in refused.value.detail and "\n" not in refused.value.detail
