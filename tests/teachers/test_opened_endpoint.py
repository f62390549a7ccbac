"""The file of an endpoint: every problem is found before a request."""

from pathlib import Path

import pytest
from helpers import endpoints

import nmt
from nmt.errors import NmtError
from nmt.teachers.opened_endpoint import OpenedEndpoint

ADDRESS = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("modle: x", r"line 6: modle: .* did you mean `?model"),
        ("key: ${NMT_NO_SUCH_KEY}", r"key: the environment has no variable NMT_NO_SUCH_KEY: export NMT_NO_SUCH_KEY=…"),
        ("prompt: Translate", r"prompt: does not contain \{text\}, which is the line to translate: add it"),
        ('prompt: "{sorce} {text}"', r"prompt: \{sorce\} is not a field: use \{source\}"),
        ("limit: {cost: 1}", r"limit\.cost needs price"),
        ("parameters: {messages: []}", r"parameters\.messages: has its own setting: leave it out"),
        ("parameters: {stream: true}", r"parameters\.stream: answers are read as a whole: leave it out"),
        ("examples: FOLDER/none", r"none: no such file"),
        ("examples: FOLDER/one", r"one:1: 'house': write a source, one tab and its translation"),
    ],
)
def test_a_file_with_a_problem(tmp_path: Path, more: str, message: str) -> None:
    (tmp_path / "one").write_text("house\n")
    with pytest.raises(NmtError, match=message) as raised:
        OpenedEndpoint.open(endpoints.write(tmp_path, ADDRESS, more.replace("FOLDER", str(tmp_path))))
    assert "\n" not in str(raised.value)


def test_missing_settings_and_other_languages(tmp_path: Path) -> None:
    path = endpoints.write(tmp_path, ADDRESS)
    text = path.read_text()
    for old, new, message in (
        (":1/v1", ":99999/v1", "endpoint: http://127.0.0.1:99999/v1: expected an address"),
        ("model: tiny\n", "", "model is missing"),
        ("language: de", "language: xx1", "target_language: xx1: no language has this code"),
    ):
        path.write_text(text.replace(old, new))
        with pytest.raises(NmtError, match=message):
            OpenedEndpoint.open(path)
    with pytest.raises(NmtError, match=r"this model translates from en"):
        OpenedEndpoint.open(endpoints.write(tmp_path, ADDRESS), from_="fr")


def test_the_key_is_in_no_text_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEACHER_KEY", "sk-planted")
    for key in ("${TEACHER_KEY}", "sk-planted"):
        opened = OpenedEndpoint.open(endpoints.write(tmp_path, "http://me:pw@127.0.0.1:1/v1", f"key: {key}"))
        assert "sk-planted" not in repr(opened) + repr(opened.endpoint) + repr(opened.teacher().body("x", "", 0, 1))
    assert opened.files == [opened.path]


@pytest.mark.parametrize("key", ["[sk-planted]", "{a: sk-planted}", "${sk-planted}"])
def test_a_key_of_another_kind_is_not_shown(tmp_path: Path, key: str) -> None:
    with pytest.raises(NmtError, match=r"key: expected the name of a variable, such as \$\{NAME\}, or text") as raised:
        OpenedEndpoint.open(endpoints.write(tmp_path, ADDRESS, f"key: {key}"))
    assert "plant" not in str(raised.value)


@pytest.mark.parametrize("key", ["sk-planted\nx", "sk-plantéd"])
def test_a_key_that_cannot_be_sent_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("TEACHER_KEY", key)
    with pytest.raises(NmtError, match=r"teacher\.yaml: key: has characters") as raised:
        OpenedEndpoint.open(endpoints.write(tmp_path, ADDRESS, "key: ${TEACHER_KEY}"))
    assert "plant" not in str(raised.value)


def test_a_model_is_expected_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(NmtError, match=r"teacher\.yaml: a file of settings, not a model: only translate, evaluate and"):
        nmt.load(endpoints.write(tmp_path, ADDRESS))
