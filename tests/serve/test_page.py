"""The page as text; tests/serve/page_in_chromium.py is the page in a browser."""

import json
import re
from collections.abc import Iterator
from importlib import resources

import pytest
from helpers.html_elements import Elements
from helpers.services import CALIBRATION, Answer, Gated, service

from nmt.config.language_codes import english_name
from nmt.documents.file_formats import FILE_FORMATS

FOLDER = resources.files("nmt.serve")
SOURCES = [FOLDER.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")]


@pytest.fixture(scope="module")
def answer() -> Iterator[Answer]:
    translator = Gated()
    translator.calibration = CALIBRATION
    with service(translator) as (served, _):
        yield served.get("/")


def test_it_is_whole_and_needs_nothing_from_elsewhere(answer: Answer) -> None:
    Elements(answer.body.decode()).check_nothing_from_elsewhere()
    assert not re.search(r"https?:|@import|url\(|import\(|innerHTML|eval\(", "".join(SOURCES))


def test_what_the_script_and_the_labels_name_is_there(answer: Answer) -> None:
    elements = Elements(answer.body.decode())
    named = re.findall(r'\b(?:at|say)\("([a-z-]+)"', SOURCES[2])
    assert len(named) > 20
    assert {*named, *elements.values("for", "aria-labelledby", "aria-describedby")} <= elements.ids
    for tag, of in elements.found:
        if tag == "textarea":
            assert of["id"] in elements.values("for")


def test_it_has_the_languages_and_the_limits(answer: Answer) -> None:
    _, (_, data), _ = Elements(answer.body.decode()).texts
    assert json.loads(data) == {
        "languages": [
            {"code": "en", "name": "English", "targets": ["de"]},
            {"code": "de", "name": "German", "targets": []},
        ],
        "limits": {
            "lines": 256,
            "characters": 20_000,
            "file": 4 << 20,
            "n_best": 3,
            "alignment": True,
            "scores": True,
        },
        "formats": [*FILE_FORMATS],
        "low_confidence": 30.0,
    }


def test_the_policy_lets_its_own_script_and_style_run_and_ask_its_own_server(answer: Answer) -> None:
    policy = answer.headers["content-security-policy"]
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/]{43}='", policy)) == 2
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "connect-src 'self'" in policy and "frame-ancestors 'none'" in policy


def test_names_of_languages() -> None:
    assert [english_name(code) for code in ("de", "pt-BR", "zh_Hant", "xx")] == [
        "German",
        "Portuguese",
        "Chinese",
        "xx",
    ]
