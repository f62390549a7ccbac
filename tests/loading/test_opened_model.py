"""What is known of a model before its weights are read; and that these are of the same model."""

from pathlib import Path

import pytest
from helpers.export_models import LINES, make_model

import nmt
from nmt.checkpoints import model_file
from nmt.errors import NmtError
from nmt.interop.ctranslate2 import export as ctranslate2
from nmt.loading.opened_model import open_model
from nmt.terms.glossary import Term


@pytest.fixture
def run(tmp_path: Path) -> Path:
    model_file.save(tmp_path / "run" / "best.safetensors", make_model())
    return tmp_path / "run"


def test_what_is_known_before_the_weights_are_read(run: Path) -> None:
    made, file = make_model(), run / "best.safetensors"
    for opened in (open_model(run), open_model(file)):
        assert (opened.file, opened.files, opened.is_exported) == (file, [file], False)
        assert opened.settings == made.config and opened.provenance == made.provenance
        assert [str(pair) for pair in opened.languages.pairs] == ["en-de"]
    folder = run.parent / "exported"
    folder.mkdir()
    ctranslate2.write(folder, made)
    opened = open_model(folder)
    assert (opened.file, opened.is_exported, opened.settings) == (folder, True, made.config)
    assert set(opened.files) == set(folder.iterdir())
    for first, other in ((opened, open_model(run)), (open_model(run), opened)):
        with pytest.raises(NmtError, match="exported: an exported folder cannot be in an ensemble: give model files"):
            first.translator("cpu", ensemble=[other])
    terms = run / "terms"
    terms.write_text("two\tzwei\n")
    with pytest.raises(NmtError, match="exported: an exported folder cannot use a glossary"):
        opened.translator("cpu", glossary=terms)


def test_a_glossary_of_a_program_is_a_file_or_a_mapping(run: Path) -> None:
    terms = run / "terms.tsv"
    terms.write_text("two|three\tzwei|drei\n", encoding="utf-8")
    loaded = [nmt.load(run, "cpu", glossary=given) for given in (terms, str(terms), {"two|three": "zwei|drei"})]
    assert [one.glossary and one.glossary.terms for one in loaded] == [[Term(("two", "three"), ("zwei", "drei"))]] * 3
    assert nmt.load(run, "cpu").glossary is None
    with pytest.raises(ValueError, match="'two' has two translations"):
        nmt.load(run, "cpu", glossary={"two": "zwei", "three|two": "drei"})


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_file_that_is_replaced_is_read_only_if_the_settings_are_the_same(run: Path, engine: str) -> None:
    opened, file = open_model(run), run / "best.safetensors"
    model_file.save(file, make_model())
    assert len(opened.translator("cpu", [f"decoding.engine={engine}"]).translate(LINES)) == len(LINES)
    model_file.save(file, make_model("decoding.beam_size=4"))
    with pytest.raises(NmtError, match=r"best\.safetensors: was replaced by another model while it was read"):
        opened.translator("cpu", [f"decoding.engine={engine}"])
