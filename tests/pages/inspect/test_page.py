"""The page as text; tests/pages/inspect/page_in_chromium.py is the page in a browser."""

import json
import re
from importlib import resources
from pathlib import Path

import pytest
from helpers.html_elements import Elements
from helpers.inspection_models import SENTENCES, inspector_of, new_checkpoint
from typer.testing import CliRunner

from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.errors import NmtError
from nmt.pages.inspect import output_folder
from nmt.pages.inspect.inspect import Inspection
from nmt.pages.inspect.output_folder import page
from nmt.pages.inspect.text import to_data

FOLDER = resources.files("nmt.pages.inspect")
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


def test_the_command(tmp_path: Path) -> None:
    file, folder = tmp_path / "m.safetensors", tmp_path / "new" / "inside"
    model_file.save(file, new_checkpoint())
    arguments = ["inspect", str(file), "the street", "--output", str(folder), "--device", "cpu"]
    found = CliRunner().invoke(app.app, arguments)
    assert found.exit_code == 0, found.output
    assert {path.name for path in folder.iterdir()} == {output_folder.PAGE, output_folder.DATA}
    assert "word alignment: " in found.stdout and "index.html (open it in a browser)" in found.stderr


def test_a_file_of_the_users_is_not_overwritten(seen: Inspection, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NmtError, match="choose another --output"):
        output_folder.write(seen, tmp_path / "file" / "inside")
    for name in ("index.html", "inspection.json"):
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / name).write_text("mine")
        with pytest.raises(NmtError, match=rf"{name}: exists and was not written by nmt inspect"):
            output_folder.check(tmp_path / "other")
        assert (tmp_path / "other" / name).read_text() == "mine"
        (tmp_path / "other" / name).unlink()
        (tmp_path / "other").rmdir()
    for _ in range(2):  # over those of an earlier inspection
        output_folder.check(tmp_path / "inside")
        output_folder.write(seen, tmp_path / "inside")
    assert {path.name for path in (tmp_path / "inside").iterdir()} == {output_folder.PAGE, output_folder.DATA}
