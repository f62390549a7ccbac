"""The page as text; tests/commands/inspect/page_in_chromium.py is the page in a browser."""

import base64
import hashlib
import json
import re
from importlib import resources

import pytest
from helpers.html_elements import Elements
from helpers.inspection_models import SENTENCES, inspector_of, new_checkpoint

from nmt.commands.inspect.inspect import Inspection
from nmt.commands.inspect.output_folder import page
from nmt.commands.inspect.text import to_data

FOLDER = resources.files("nmt.commands.inspect")
SCRIPT = "".join(
    path.read_text(encoding="utf-8") for path in (FOLDER.parent.joinpath("html_page.js"), FOLDER.joinpath("page.js"))
)


@pytest.fixture(scope="module")
def seen() -> Inspection:
    return inspector_of(new_checkpoint("ar", "ja")).inspect("</script> & <b> {data} {script}", SENTENCES["ja"])


def test_it_is_whole_and_needs_nothing_from_elsewhere(seen: Inspection) -> None:
    Elements(page(seen)).check_nothing_from_elsewhere("b")
    source = SCRIPT + "".join(FOLDER.joinpath(f"page.{part}").read_text(encoding="utf-8") for part in ("html", "css"))
    source = source.replace("http://www.w3.org/2000/svg", "")  # a name
    assert not re.search(r"https?:|@import|url\(|import\(|fetch\(|XMLHttp|innerHTML|eval\(", source)


def test_the_policy_lets_its_own_script_and_style_run(seen: Inspection) -> None:
    elements = Elements(page(seen))
    (policy,) = [str(of["content"]) for of in elements.attributes if "http-equiv" in of]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    style, _, script = elements.texts
    for kind, text in ((f"{style[0]}-src", style[1]), (f"{script[0]}-src", script[1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy


def test_its_data_is_that_of_the_inspection(seen: Inspection) -> None:
    """Whatever the text holds; and the script is as it was written, whatever braces the text has."""
    elements = Elements(page(seen))
    _, (_, data), (_, script) = elements.texts
    assert json.loads(data) == json.loads(json.dumps(to_data(seen, 4, 2)))
    assert script == SCRIPT


def test_what_the_script_and_the_labels_name_is_there(seen: Inspection) -> None:
    elements = Elements(page(seen))
    named = re.findall(r'\bat\("([a-z-]+)"\)', SCRIPT)
    assert len(named) > 20
    assert {*named, *elements.values("for", "aria-labelledby")} <= elements.ids
