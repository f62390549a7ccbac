"""A pickled translator opens its files again, in the process that uses it."""

import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.export_models import LINES, make_model

import nmt
from nmt.checkpoints import model_file
from nmt.decoding.glossary import Glossary
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.interop.ctranslate2 import export as ctranslate2
from nmt.interop.ctranslate2.engine import CTranslate2Engine
from nmt.loading import opened_model


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder that is the current one."""
    model_file.save(tmp_path / "best.safetensors", make_model())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def in_another_process(data: bytes) -> Translator:
    """As if it were one: nothing has been opened."""
    opened_model._load.cache_clear()
    opened_model._loaded.clear()
    return pickle.loads(data)  # type: ignore[no-any-return]


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_it_translates_as_before(run: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the settings that it has by now, from any folder, and without the run folder's choice of a model."""
    translator = nmt.load(".", "cpu", overrides=[f"decoding.engine={engine}", "decoding.beam_size=2"])
    kind, expected = type(translator.engine), translator.hypotheses(LINES, 2)
    translator.decoding = replace(translator.decoding, max_length=1)
    translator.languages.use("de")
    limited = translator.translate(LINES)
    data = pickle.dumps(translator)
    same = pickle.loads(data)
    assert same.engine is translator.engine and same.languages.used == translator.languages.used
    assert same.counts.lines == 0 and pickle.dumps(same) == data
    del translator, same
    monkeypatch.chdir("/")
    model_file.save(model_file.checkpoint_path(run, 9), make_model("decoding.beam_size=4"))
    found = in_another_process(data)
    assert pickle.dumps(found) == data, "before it is opened"
    assert found.translate(LINES) == limited != [one.text for one, *_ in expected]
    assert type(found.engine) is kind and found.languages.used is not None
    assert pickle.dumps(found) == data
    found.decoding = replace(found.decoding, max_length=None)
    again = [[one.text for one in of_line] for of_line in found.hypotheses(LINES, 2)]
    assert again == [[one.text for one in of_line] for of_line in expected]


def test_what_is_set_before_it_is_opened_stays(run: Path) -> None:
    translator = nmt.load(run, "cpu")
    translator.glossary = Glossary([("two", "zebra")])
    data = pickle.dumps(translator)
    del translator
    found, searched = in_another_process(data), list[int]()
    found.decoding, found.on_lines = replace(found.decoding, max_length=9), searched.append
    assert "zebra" in found.translate(["two"])[0]
    assert found.decoding.max_length == 9 and sum(searched) == 1


def test_each_process_opens_it_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, count, load = pickle.dumps(nmt.load(run, "cpu")), list[Path](), opened_model.open_model
    monkeypatch.setattr(opened_model, "open_model", lambda path: count.append(path) or load(path))
    found = [in_another_process(data), *map(pickle.loads, [data] * 3)]
    assert count == [], "a pool of processes may hang where unpickling fails"
    for translator in found:
        translator.translate(LINES)
    assert count == [run / "best.safetensors"]
    assert isinstance(found[0].engine, CTranslate2Engine) and len({id(one.engine) for one in found}) == 1


def test_files_that_are_gone_or_others_are_told(run: Path, tmp_path: Path) -> None:
    data = pickle.dumps(nmt.load(run, "cpu"))
    model_file.save(run / "best.safetensors", make_model("decoding.beam_size=4"))
    with pytest.raises(
        NmtError, match=r"best\.safetensors: has changed since the translator was opened: open it again"
    ):
        in_another_process(data).translate(LINES)
    (run / "best.safetensors").unlink()
    with pytest.raises(NmtError, match=r"best\.safetensors: no such file"):
        in_another_process(data).translate(LINES)
    (tmp_path / "exported").mkdir()
    ctranslate2.write(tmp_path / "exported", make_model())
    data = pickle.dumps(nmt.load("exported", "cpu"))
    assert len(in_another_process(data).translate(LINES)) == len(LINES)
    os.utime(tmp_path / "exported" / "model.bin", (1, 1))
    with pytest.raises(NmtError, match=r"exported: has changed since the translator was opened: open it again"):
        in_another_process(data).translate(LINES)
