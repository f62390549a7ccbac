"""The page as text; tests/page_in_chromium.py is the page in a browser."""

import re
from html.parser import HTMLParser
from importlib import resources

from nmt.serving import app
from nmt.serving.languages import name_of

PAGE = resources.files("nmt.serving").joinpath("page.html").read_text(encoding="utf-8")
VOID = {"meta", "link", "input", "br"}


class Elements(HTMLParser):
    """Every element's attributes; fails where one is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(PAGE)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()


def test_it_is_whole_and_needs_nothing_from_elsewhere() -> None:
    for tag, attributes in Elements().found:
        assert tag not in ("img", "iframe", "object", "base"), tag
        assert "src" not in attributes
        assert attributes.get("href", "data:,") == "data:,"
        assert not any(name.startswith("on") or name == "style" for name in attributes), "the policy would stop it"
    assert not re.search(r"//[a-z]|@import|url\(|import\(|innerHTML|eval\(", re.sub(r"//  ?[a-z].*", "", PAGE))


def test_what_the_script_and_the_labels_name_is_there() -> None:
    attributes = [attributes for _, attributes in Elements().found]
    ids = [of["id"] for of in attributes if "id" in of]
    assert len(ids) == len(set(ids))
    named = re.findall(r'\bat\("([a-z-]+)"\)', PAGE)
    assert len(named) > 10
    for key in ("for", "aria-labelledby", "aria-describedby"):
        named += [of[key] for of in attributes if key in of]
    assert set(named) <= set(ids)
    for tag, of in Elements().found:
        if tag == "textarea":
            assert of["id"] in [of.get("for") for of in attributes]


def test_the_policy_lets_its_own_script_and_style_run() -> None:
    policy = app._policy(PAGE)
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/]{43}='", policy)) == 2
    assert "unsafe" not in policy
    assert PAGE.count("<script") == PAGE.count("<style") == 1


def test_names_of_languages() -> None:
    assert [name_of(code) for code in ("de", "pt-BR", "zh_Hant", "xx")] == ["German", "Portuguese", "Chinese", "xx"]
