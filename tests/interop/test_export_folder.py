"""What of ours an exported folder holds: read as written, or a message."""

from pathlib import Path

import pytest
from helpers.export_models import SEPARATE, make_settings, make_vocabulary

from nmt.data.cleaning.source_text import SourceText
from nmt.decoding.confidence import Calibration
from nmt.errors import NmtError
from nmt.interop import export_folder


@pytest.mark.parametrize("overrides", [(), SEPARATE])
def test_read_as_written(overrides: tuple[str, ...], tmp_path: Path) -> None:
    settings = make_settings(*overrides)
    vocabulary = make_vocabulary(settings)
    export_folder.write(tmp_path, settings, vocabulary)
    assert export_folder.load_config(tmp_path) == settings
    assert export_folder.load_known(tmp_path) == (None, None)
    known = SourceText(39, 0), Calibration("text", 200, 0.5, (-1.0, 0.5, -0.5, 0.2, 1.0), 30.0)
    export_folder.write(tmp_path, settings, vocabulary, known)
    assert export_folder.load_known(tmp_path) == known
    read = export_folder.load_vocabulary(tmp_path, settings)
    assert read.shared == vocabulary.shared
    assert (read.source.proto, read.target.proto) == (vocabulary.source.proto, vocabulary.target.proto)


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    settings = make_settings()
    with pytest.raises(NmtError, match=r"nmt\.yaml: missing: .* was not written by `nmt export`"):
        export_folder.load_config(tmp_path)
    export_folder.write(tmp_path, settings, make_vocabulary(settings))
    (tmp_path / "nmt.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(NmtError, match=r"nmt\.yaml: cannot be read"):
        export_folder.load_config(tmp_path)
    (tmp_path / "nmt.yaml").write_text("model: {d_modle: 3}")
    with pytest.raises(NmtError, match="d_model"):
        export_folder.load_config(tmp_path)
    (tmp_path / "nmt.yaml").write_text("a: " * 12_000_000)
    with pytest.raises(NmtError, match=r"nmt\.yaml: too long: settings have at most 33,554,432 characters"):
        export_folder.load_config(tmp_path)
    (tmp_path / "nmt.yaml").write_text("[" * 100_000)
    with pytest.raises(NmtError, match=r"nmt\.yaml: .*nested"):
        export_folder.load_config(tmp_path)
    for name in ("source_text", "calibration"):
        for damaged in ("{", "[]", '{"longest": 0, "several": 0}'):
            (tmp_path / f"{name}.json").write_text(damaged)
            with pytest.raises(NmtError, match=rf"{name}\.json: .*export it again"):
                export_folder.load_known(tmp_path)
        (tmp_path / f"{name}.json").unlink()
    (tmp_path / "source.spm").write_bytes(b"no")
    with pytest.raises(NmtError, match=r"source\.spm: not a SentencePiece model"):
        export_folder.load_vocabulary(tmp_path, settings)
    (tmp_path / "source.spm").unlink()
    with pytest.raises(NmtError, match=r"source\.spm: cannot be read"):
        export_folder.load_vocabulary(tmp_path, settings)


def test_positions_reach_from_the_longest_source_to_its_longest_output() -> None:
    assert export_folder.longest_position(make_settings()) == 40 + 12 + 1
