"""The page as text; tests/commands/serve/page_in_chromium.py is the page in a browser."""

import re
from importlib import resources

from helpers.html_elements import Elements

from nmt.commands.serve import app
from nmt.config.language_codes import english_name

PAGE = resources.files("nmt.commands.serve").joinpath("page.html").read_text(encoding="utf-8")


def test_it_is_whole_and_needs_nothing_from_elsewhere() -> None:
    Elements(PAGE).check_nothing_from_elsewhere()
    assert not re.search(r"//[a-z]|@import|url\(|import\(|innerHTML|eval\(", re.sub(r"//  ?[a-z].*", "", PAGE))


def test_what_the_script_and_the_labels_name_is_there() -> None:
    elements = Elements(PAGE)
    named = re.findall(r'\bat\("([a-z-]+)"\)', PAGE)
    assert len(named) > 10
    assert {*named, *elements.values("for", "aria-labelledby", "aria-describedby")} <= elements.ids
    for tag, of in elements.found:
        if tag == "textarea":
            assert of["id"] in elements.values("for")


def test_the_policy_lets_its_own_script_and_style_run() -> None:
    policy = app._policy(PAGE)
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/]{43}='", policy)) == 2
    assert "unsafe" not in policy
    assert PAGE.count("<script") == PAGE.count("<style") == 1


def test_names_of_languages() -> None:
    assert [english_name(code) for code in ("de", "pt-BR", "zh_Hant", "xx")] == [
        "German",
        "Portuguese",
        "Chinese",
        "xx",
    ]
