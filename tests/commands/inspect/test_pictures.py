"""Pictures and their fonts; what they look like was looked at."""

import logging
import struct
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import pytest
from helpers.inspection_models import SENTENCES, inspector_of, new_checkpoint
from typer.testing import CliRunner

from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.commands.inspect import fonts, output_folder, pictures
from nmt.commands.inspect.inspect import Inspection
from nmt.errors import NmtError

FILES = {
    "alignment.png", "positions.png", *(f"attention-{kind}{part}.png" for kind in ("encoder", "decoder", "cross")
    for part in ("", "-heads")),
}  # fmt: skip


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "nmt"):
        yield caplog


@pytest.fixture(scope="module")
def seen() -> Inspection:
    return inspector_of(new_checkpoint("ar", "de", encoder_layers=3)).inspect(
        SENTENCES["ar"], "Das kostet $5 und $6_x^2, </s> ."
    )


def size_of(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", data[16:24])  # type: ignore[return-value]


def test_pictures_of_a_sentence(seen: Inspection, tmp_path: Path, warned: pytest.LogCaptureFixture) -> None:
    """Dollars are no formulas; Arabic is in the font that matplotlib brings, so nothing is said."""
    written = pictures.write(seen, tmp_path, layer=2)
    assert {path.name for path in written} == FILES
    assert all(width >= 300 and height >= 150 for width, height in map(size_of, written))
    assert warned.messages == []
    assert matplotlib.rcParams["text.parse_math"] is True, "settings are left as they were"


def test_labels_are_those_of_the_model(seen: Inspection) -> None:
    for kind in ("encoder", "decoder", "cross"):
        figure = pictures._heads(seen, kind, seen.inside.attention[kind][0], 0)
        panels = [axes for axes in figure.axes if axes.get_title().startswith("head")]
        assert [axes.get_title() for axes in panels] == [f"head {i}" for i in range(1, 5)]
        rows, columns = seen.pieces(kind)
        for head, axes in enumerate(panels):
            assert [label.get_text() for label in axes.get_yticklabels()] == rows
            assert [label.get_text() for label in axes.get_xticklabels()] == columns
            assert (axes.images[0].get_array() == seen.inside.attention[kind][0, head].numpy()).all()


def test_an_overview_holds_every_head() -> None:
    seen = inspector_of(new_checkpoint(layers=3, heads=2)).inspect("the street")
    weights = seen.inside.attention["cross"]
    (panel, _) = pictures._overview("cross", weights).axes
    drawn = panel.images[0].get_array()
    assert drawn is not None
    tall, wide = (drawn.shape[0] + 1) // 3, (drawn.shape[1] + 1) // 2
    for layer in range(3):
        for head in range(2):
            tile = drawn[layer * tall :, head * wide :][: weights.shape[2], : weights.shape[3]]
            assert (tile == weights[layer, head].numpy()).all()
    assert [label.get_text() for label in panel.get_yticklabels()] == ["layer 1", "layer 2", "layer 3"]


@pytest.mark.parametrize(
    "word", ["https://www.example.org/" + "a-folder/" * 12 + "x", "W" * 200], ids=["address", "wide"]
)
def test_very_long_words_are_shortened_and_have_room(word: str) -> None:
    """matplotlib lays the picture out, and every label and the title lie within it."""
    seen = inspector_of(new_checkpoint(max_positions=600)).inspect(f"the street {word}", word)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = pictures._alignment(seen, seen.alignment)
        figure.draw_without_rendering()
    (panel, _) = figure.axes
    labels = [*panel.get_xticklabels(), *panel.get_yticklabels()]
    texts = [label.get_text() for label in labels]
    assert max(map(len, texts)) <= 30 and "street" in texts
    assert "W" not in word or texts.count("W" * 29 + "…") == 2
    assert figure._suptitle is not None
    for text in (*labels, figure._suptitle):
        box = text.get_window_extent()
        assert min(box.x0, box.y0) >= 0 and box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height, text


def test_every_character_has_a_font_or_a_warning(warned: pytest.LogCaptureFixture) -> None:
    assert fonts.families("Grüße, мир, ▁مرحبا שלום α\u0301\u200d\n") == ["DejaVu Sans"]
    for code, text in SENTENCES.items():
        warned.clear()
        chosen = fonts.families(text, [code])
        held = set().union(*(fonts._characters(entry) for entry in fonts._upright_fonts() if entry.name in chosen))
        missing = {character for character in text if not character.isspace()} - held
        assert bool(missing) == bool(warned.messages)


def test_characters_without_a_font_are_named_in_one_warning(
    warned: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is installed here: as if it were DejaVu Sans alone."""
    only = [entry for entry in fonts._upright_fonts() if entry.name == "DejaVu Sans"]
    monkeypatch.setattr(fonts, "_upright_fonts", lambda: only)
    assert fonts.families("你好 안녕 नमस्ते Grüße") == ["DejaVu Sans"]
    (message,) = warned.messages
    assert "no installed font has these 10 characters: " in message and "你" in message and "ü" not in message
    assert "fonts-noto" in message and "\n" not in message


def test_fonts_are_chosen_by_language_where_several_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    has = {"Noto Sans CJK JP": "你好は", "Some Serif": "你", "DejaVu Sans": "abc", "Noto Sans CJK SC": "你好は"}
    entries = {name: type("Entry", (), {"name": name, "letters": set(has[name])})() for name in has}
    monkeypatch.setattr(fonts, "_upright_fonts", lambda: list(entries.values()))
    monkeypatch.setattr(fonts, "_characters", lambda entry: entry.letters)
    for code, family in (("ja", "JP"), ("zh", "SC"), ("zh-CN", "SC"), ("ja_JP", "JP")):
        assert fonts.families("a你好", ["en", code]) == ["DejaVu Sans", f"Noto Sans CJK {family}"]


def test_the_command(tmp_path: Path) -> None:
    file, folder = tmp_path / "m.safetensors", tmp_path / "new" / "inside"
    model_file.save(file, new_checkpoint())
    arguments = ["inspect", str(file), "the street", "--output", str(folder), "--device", "cpu"]
    found = CliRunner().invoke(app.app, arguments)
    assert found.exit_code == 0, found.output
    assert {path.name for path in folder.iterdir()} == FILES | {output_folder.PAGE, output_folder.DATA}
    assert "word alignment: cross-attention of decoder layer 1 of 2, mean of 4 heads" in found.stdout
    assert "index.html (open it in a browser)" in found.stderr
    found = CliRunner().invoke(app.app, [*arguments, "--layer", "3"])
    assert found.exit_code == 1
    assert "--layer 3: this model has 2 layers of attention: give a number from 1 to 2" in found.stderr


def test_options_that_would_do_nothing_are_refused(tmp_path: Path) -> None:
    """Before any work, or the model would be missing."""
    arguments = ["inspect", str(tmp_path / "missing.safetensors"), "the street"]
    for some in (["--layer", "9"], ["--layer", "1", "--output", str(tmp_path / "inside"), "--no-pictures"]):
        found = CliRunner().invoke(app.app, [*arguments, *some])
        assert (found.exit_code, found.stdout) == (2, "")
        assert "--layer chooses which heads are drawn" in found.stderr


@pytest.mark.parametrize("target", ["", " \n"])
def test_an_empty_target_is_refused(target: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(app.app, ["inspect", str(tmp_path / "missing"), "the street", "--target", target])
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith("error: --target is empty") and found.stderr.count("\n") == 1


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says how to fix it, before any work; the page needs no matplotlib."""
    file, folder = tmp_path / "m.safetensors", tmp_path / "inside"
    model_file.save(file, new_checkpoint())
    for module in [name for name in sys.modules if name.startswith(("matplotlib", "nmt.commands.inspect"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["inspect", str(file), "the street", "--output", str(folder), "--device", "cpu"]
    found = CliRunner().invoke(app.app, arguments)
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.count("\n") == 1 and "pip install 'matplotlib>=3.11'" in found.stderr
    assert not folder.exists()
    found = CliRunner().invoke(app.app, [*arguments, "--no-pictures"])
    assert found.exit_code == 0, found.output
    assert {path.name for path in folder.iterdir()} == {output_folder.PAGE, output_folder.DATA}


def test_a_matplotlib_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matplotlib, "__version_info__", (3, 10, 9, "final", 0))
    with pytest.raises(NmtError, match="pip install --upgrade matplotlib"):
        output_folder.check(tmp_path, pictures=True)


def test_a_folder_that_cannot_be_made(seen: Inspection, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NmtError, match="choose another --output"):
        output_folder.write(seen, tmp_path / "file" / "inside", pictures=False)


def test_a_page_of_the_users_is_not_overwritten(seen: Inspection, tmp_path: Path) -> None:
    for name in ("index.html", "inspection.json", "positions.png"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(NmtError, match=rf"{name}: exists and was not written by nmt inspect"):
            output_folder.check(tmp_path, pictures=False)
        assert [path.name for path in tmp_path.iterdir()] == [name]
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).unlink()
    for _ in range(2):  # over those of an earlier inspection
        output_folder.check(tmp_path / "inside", pictures=False)
        output_folder.write(seen, tmp_path / "inside", pictures=False)
    (tmp_path / "inside" / "mine.png").write_text("mine")
    (tmp_path / "inside" / "attention-cross.png").write_text("of the sentence before")
    output_folder.write(seen, tmp_path / "inside", pictures=False)
    left = {path.name for path in (tmp_path / "inside").iterdir()}
    assert left == {output_folder.PAGE, output_folder.DATA, "mine.png"}
