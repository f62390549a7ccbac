"""A calibration of a model file: written whole or not at all, by the command and by training."""

import dataclasses
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.export_models import make_model
from helpers.killed import killed_at_operation
from helpers.runs import config_text, write_corpus
from typer.testing import CliRunner

import nmt
from nmt.checkpoints import averaging, model_file, run_folder
from nmt.cli import app
from nmt.commands import average, calibrate
from nmt.commands.train import train, training_data
from nmt.config import reader
from nmt.config.schema import Config
from nmt.decoding.confidence import CALIBRATION, Calibration
from nmt.errors import NmtError
from nmt.interop.ctranslate2 import export as ctranslate2
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]
PROVENANCE = {"step": 7, "bleu": 12.5, "source_text": {"longest": 30, "several": 0}, "run_dir": "é"}


@pytest.fixture
def text(tmp_path: Path) -> tuple[Path, Path]:
    """200 lines and their translation."""
    write_corpus(tmp_path / "text", "a", 200, seed=5)
    return tmp_path / "text" / "a.en", tmp_path / "text" / "a.de"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "model.safetensors"
    path.parent.mkdir()
    model_file.save(path, dataclasses.replace(make_model("decoding.beam_size=1"), provenance=PROVENANCE))
    return path


def calibration_of(path: Path) -> Calibration | None:
    return Calibration.of(model_file.load_provenance(path))


def same_weights(one: Path, other: Path) -> bool:
    first, second = model_file.load(one), model_file.load(other)
    assert first.weights.keys() == second.weights.keys()
    same = [torch.equal(weight, second.weights[name]) for name, weight in first.weights.items()]
    return all(same) and (first.config, first.vocabulary.protos) == (second.config, second.vocabulary.protos)


def test_writes_the_calibration_and_changes_nothing_else(model: Path, text: tuple[Path, Path], tmp_path: Path) -> None:
    """Through a link; a second calibration replaces the first. Lines without words on one side do not count."""
    before, link = tmp_path / "before", tmp_path / "link.safetensors"
    shutil.copyfile(model, before)
    model.chmod(0o640)
    link.symlink_to(model)
    source, reference = text
    for number, name in enumerate(("first", "second"), start=1):
        other = tmp_path / name
        other.write_text(source.read_text() + "one two\n\n" * number)
        more = reference.read_text() + "\neins\n" * number
        (tmp_path / "reference").write_text(more)
        arguments = ["calibrate", str(link), "--source", str(other), "--reference", str(tmp_path / "reference")]
        done = CliRunner().invoke(app.app, arguments)
        assert done.exit_code == 0, done.output
        provenance = model_file.load_provenance(model)
        found = Calibration.from_json(provenance.pop(CALIBRATION))
        assert found is not None and (found.text, found.sentences) == (f"{name} + reference", 200)
        assert provenance == PROVENANCE and same_weights(model, before)
    assert link.is_symlink() and model.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in model.parent.iterdir()) == ["model.safetensors"]
    [[best]] = nmt.load(link, "cpu").hypotheses(["one two"])
    assert best.confidence == found.rated(best).confidence is not None


def test_a_killed_calibration_leaves_the_old_file_or_the_new(model: Path, text: tuple[Path, Path]) -> None:
    torch.set_num_threads(1)
    old, left = model.read_bytes(), []
    for number in itertools.count(1):
        killed = killed_at_operation(
            number, model.parent, lambda: calibrate.calibrate(model, *text, ["decoding.engine=torch"])
        )
        left.append(model.read_bytes() == old or calibration_of(model) is not None)
        if not killed:
            break
        model.write_bytes(old)
    assert number > 4 and all(left) and calibration_of(model) is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("lines", "a.en has 199 lines and .*a.de has 200: each line needs its translation"),
        ("references", "a.en: fewer than 200 lines with a translation and a reference"),
        ("one", "a.en: fewer than 200 lines with a translation and a reference"),
        ("empty", "a.en: fewer than 200 lines"),
        ("skipped", "a.en: fewer than 200 lines with a translation"),
        ("file", "model.safetensors: is read-only: make it writable"),
        ("meanwhile", "model.safetensors: was changed by another program: run the command again"),
        ("training", "run: another process is training there"),
        ("exported", "exported: an exported folder: change the model file, and export it again"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(
    model: Path, text: tuple[Path, Path], tmp_path: Path, change: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, reference = text
    lines, path, overrides, kept = source.read_text().splitlines(keepends=True), model, list[str](), model.read_bytes()
    match change:
        case "lines":
            source.write_text("".join(lines[:-1]))
        case "references":
            reference.write_text("\n" * 200)
        case "one":
            source.write_text("".join(lines[:-1]) + " \n")
        case "empty":
            source.write_text("")
            reference.write_text("")
        case "skipped":
            source.write_text("".join(lines[:-1]) + "one " * 99 + "\n")
            overrides = ["decoding.long_input=skip"]
        case "file":
            model.chmod(0o440)
        case "meanwhile":
            model_file.save(tmp_path / "newer", make_model("decoding.beam_size=2"))
            kept = (tmp_path / "newer").read_bytes()
            monkeypatch.setattr(calibrate, "log_counts", lambda *_: model.write_bytes(kept))
        case "training":
            path = tmp_path / "run"
            (path / "state").mkdir(parents=True)
            (path / "config.yaml").write_text(config_text(tmp_path, path))
            shutil.copyfile(model, path / "best.safetensors")
        case "exported":
            path = tmp_path / "exported"
            path.mkdir()
            ctranslate2.write(path, make_model())
    with (
        pytest.raises(NmtError, match=message) as raised,
        run_folder.locked(path if change == "training" else tmp_path / "other"),
    ):
        calibrate.calibrate(path, source, reference, overrides)
    assert "\n" not in str(raised.value) and model.read_bytes() == kept
    assert not list(model.parent.glob(".nmt*"))


# ----------------------------------------------------------------------------------------------------- in training

SHORT = (
    "training.max_steps=4", "training.validate_every=2", "training.checkpoint_every=1", "training.ema_decay=0.9",
    "decoding.max_extra_tokens=2", "decoding.beam_size=1", "data.validation_in_training=warn",
)  # fmt: skip


def config_of(corpus: Path, run: Path, sentences: int, *overrides: str) -> Config:
    """The settings of a short run with a validation text of this length."""
    write_corpus(corpus, "held_out", sentences, seed=3)
    held_out = f"data.validation={{source: {corpus}/held_out.en, target: {corpus}/held_out.de}}"
    return reader.parse(Config, config_text(corpus, run), "test", [*SHORT, held_out, *overrides])


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a validation text of 200 sentences, with a pause after its first step."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("calibrated") / "run"
    config = config_of(corpus, folder, 200)
    for deadline in (0.0, float("inf")):
        Trainer(config, training_data(config), torch.device("cpu"), deadline=deadline).run()
    return folder


def test_validated_checkpoints_of_a_run_have_one(run: Path, corpus: Path, tmp_path: Path) -> None:
    """The same as `nmt calibrate` gives with this text, and as a run without a pause. Unvalidated ones and the moving
    average have none."""
    found = {step: calibration_of(model_file.checkpoint_path(run, step)) for step in (1, 2, 3, 4)}
    assert found[1] is None and found[3] is None and calibration_of(run / model_file.EMA) is None
    best = calibration_of(run / model_file.BEST)
    assert best in (found[2], found[4]) and found[2] != found[4] and best is not None
    assert (best.text, best.sentences) == ("held_out.en + held_out.de", 200)
    copy = tmp_path / "copy.safetensors"
    shutil.copyfile(run / model_file.BEST, copy)
    again = calibrate.calibrate(copy, corpus / "held_out.en", corpus / "held_out.de", ["decoding.engine=torch"])
    assert again.weights == pytest.approx(best.weights, rel=1e-3, abs=1e-3)
    train(config_of(corpus, tmp_path / "whole", 200), "cpu")
    assert [calibration_of(model_file.checkpoint_path(tmp_path / "whole", step)) for step in (2, 4)] == [
        found[2], found[4],
    ]  # fmt: skip


def test_an_unreliable_one_gives_a_warning_at_the_end(
    run: Path, corpus: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the run's best model. This run has ended already."""
    best = calibration_of(run / model_file.BEST)
    for correlation in (0.12, 0.45):
        found = dataclasses.replace(best, correlation=correlation).to_json()
        monkeypatch.setattr(model_file, "load_provenance", lambda _, found=found: {CALIBRATION: found})
        train(config_of(corpus, run, 200), "cpu")
    warnings = [record.getMessage() for record in caplog.records if "correlation" in record.getMessage()]
    assert warnings == [
        f"{run / model_file.BEST}: the confidence has a low correlation with chrF (0.12): do not rely on it"
    ]


@pytest.mark.parametrize(
    ("sentences", "override", "translated"),
    [(199, "seed=1", 199), (200, "training.validation_sentences=150", 150), (200, "training.validation_bleu=false", 0)],
)
def test_with_fewer_sentences_none_and_the_log_says_so_once(
    corpus: Path, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    sentences: int, override: str, translated: int,
) -> None:  # fmt: skip
    """A model that begins with a calibrated one does not keep its calibration."""
    caplog.set_level("INFO", "nmt")
    best = f"training.start_from={run / model_file.BEST}"
    metric = "training.best_metric=validation_loss"
    config = config_of(corpus, tmp_path / "run", sentences, best, metric, override)
    train(config, "cpu")
    assert {calibration_of(path) for path in model_file.checkpoints(tmp_path / "run")} == {None}
    assert CALIBRATION not in json.dumps(model_file.load_provenance(tmp_path / "run" / model_file.BEST))
    [message] = [record.getMessage() for record in caplog.records if "no confidence" in record.msg]
    assert message.startswith(
        f"no confidence: {translated} validation sentences are translated, a calibration needs 200"
    )


def test_an_average_has_one_if_it_was_validated(run: Path) -> None:
    paths = model_file.checkpoints(run)
    assert Calibration.of(averaging.average(paths).provenance) is None
    winner, tried = average.select(run, "cpu")
    found = {one.name: one.validation.calibration for one in tried}
    assert Calibration.of(winner.provenance) == Calibration.of(found[winner.provenance["selected"]]) is not None
    assert len({str(calibration) for calibration in found.values()}) == len(found) > 1


def test_a_reference_that_is_no_translation_gives_a_warning(
    model: Path, text: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Its sentences have nothing to do with how sure the model is."""
    source, reference = text
    reference.write_text("".join(f"{'xyzvwq'[i * i % 5]}\n" for i in range(200)))
    calibrate.calibrate(model, source, reference)
    assert "low correlation with chrF" in caplog.text and f"Is {reference} the translation of" in caplog.text
