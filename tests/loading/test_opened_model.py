"""What is known of a model before its weights are read; and that these are of the same model."""

from pathlib import Path

import pytest
from helpers.export_models import LINES, make_model

from nmt.checkpoints import model_file
from nmt.errors import NmtError
from nmt.interop.ctranslate2 import export as ctranslate2
from nmt.loading.opened_model import open_model


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


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_file_that_is_replaced_is_read_only_if_the_settings_are_the_same(run: Path, engine: str) -> None:
    opened, file = open_model(run), run / "best.safetensors"
    model_file.save(file, make_model())
    assert len(opened.translator("cpu", [f"decoding.engine={engine}"]).translate(LINES)) == len(LINES)
    model_file.save(file, make_model("decoding.beam_size=4"))
    with pytest.raises(NmtError, match=r"best\.safetensors: was replaced by another model while it was read"):
        opened.translator("cpu", [f"decoding.engine={engine}"])
