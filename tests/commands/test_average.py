"""The average that translates the validation set best: found, told and written, or nothing written."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.model_files import make_checkpoint
from helpers.runs import rows_of, write_corpus
from typer.testing import CliRunner

from nmt.checkpoints import averaging, model_file
from nmt.cli import app
from nmt.commands import average
from nmt.commands.validate import Validator
from nmt.config import schema, writer
from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import Config, Corpus
from nmt.data.prepare import ValidationSet
from nmt.errors import NmtError
from nmt.files.text import read_lines
from nmt.training.validation_key import recorded_text_key, text_key, validation_key

MakeConfig = Callable[..., Config]


@pytest.fixture
def trained(trained_run: Path) -> Path:
    """A run that has begun to learn, with six checkpoints and a moving average."""
    return trained_run


def run_of(folder: Path, of: Config, count: int) -> Path:
    """A run with this number of untrained, validated checkpoints."""
    for step in range(1, count + 1):
        made = make_checkpoint(of, step, step=step, best_metric="validation_loss", validation_loss=float(step))
        model_file.save(model_file.checkpoint_path(folder, step), made)
    (folder / "config.yaml").write_text(writer.to_yaml(of), encoding="utf-8")
    return folder


def names(run: Path) -> list[str]:
    return list(average.candidates(run))


def test_candidates_are_as_many_as_there_are(make_config: MakeConfig, tmp_path: Path) -> None:
    """The loss rises with the step: the best are the first."""
    assert names(run_of(tmp_path / "one", make_config(), 1)) == ["last 1, best 1"]
    run = run_of(tmp_path / "six", make_config(), 6)
    assert names(run) == ["last 1", "last 3", "last 5", "best 1", "best 3", "best 5"]
    found = {name: [path.name for path in paths] for name, paths in average.candidates(run).items()}
    assert found["last 3"] == [f"step-0000000{step}.safetensors" for step in (4, 5, 6)]
    assert found["best 3"] == [f"step-0000000{step}.safetensors" for step in (1, 2, 3)]
    model_file.save(run / model_file.EMA, make_checkpoint(make_config(), 9, step=5))
    assert "moving average" not in names(run), "it is from before the setting was switched off"
    model_file.save(run / model_file.EMA, make_checkpoint(make_config(), 9, step=6))
    assert names(run)[-1] == "moving average"
    only = average.candidates(run, last=(1, 6), best=(3, 6))
    assert list(only) == ["last 1", "last 6, best 6", "best 3", "moving average"]


def test_the_winner_is_the_mean_of_its_files_and_what_is_tried_is_what_validation_measured(
    trained: Path, tmp_path: Path
) -> None:
    measured = {row["step"]: row for row in rows_of(trained / "metrics.jsonl") if "bleu" in row}
    winner, tried = average.select(trained, "cpu")
    singles = [one for one in tried if len(one.paths) == 1 and one.name != "moving average"]
    assert singles
    for one in singles:
        row = measured[model_file.load_provenance(one.paths[0])["step"]]
        assert (one.scores["bleu"], one.scores["chrf"]) == (row["bleu"], row["chrf"])
        assert one.scores["validation_loss"] == pytest.approx(row["validation_loss"], rel=1e-5)
    best = next(one for one in tried if one.name == winner.provenance["selected"])
    assert best.scores["bleu"] == max(one.scores["bleu"] for one in tried) > 0
    assert winner.provenance.items() >= best.scores.items()
    mean = averaging.average(best.paths)
    assert all(torch.equal(weight, winner.weights[name]) for name, weight in mean.weights.items())
    newest = model_file.load(model_file.checkpoint_path(trained, 120))
    [held_out] = average._validation(trained, schema.load(trained / "config.yaml").data, newest)
    validator = Validator(held_out, winner.vocabulary, winner.config)
    assert validator.score(validator.engine(winner.build()))[0].scores["bleu"] == best.scores["bleu"]
    [text] = winner.provenance["translated"]
    assert (text["source_language"], text["target_language"], text["sentences"]) == ("en", "de", len(validator.sources))
    assert {"last 1", "moving average"} <= {name for one in tried for name in one.name.split(", ")}
    output = tmp_path / "one.safetensors"
    done = CliRunner().invoke(app.app, ["average-checkpoints", str(trained), "--select", "--output", str(output)])
    assert done.exit_code == 0, done.output
    head, *rows, path = done.stdout.removesuffix("\n").split("\n")
    assert head.split() == ["candidate", "files", "validation_loss", "BLEU", "chrF"] and path == str(output)
    [marked] = [row for row in rows if row.startswith("* ")]
    written = model_file.load(output)
    assert written.provenance == winner.provenance and winner.provenance["selected"] in marked
    assert all(torch.equal(weight, written.weights[name]) for name, weight in winner.weights.items())


# ------------------------------------------------------------------------ what is refused


def test_a_validation_text_that_is_not_there(make_config: MakeConfig, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", make_config("data.validation={source: gone.en, target: gone.de}"), 1)
    with pytest.raises(NmtError, match=r"config\.yaml: data\.validation: gone\.en: no such file"):
        average.select(run, "cpu")


def with_relative_paths(run: Path, of: Config) -> None:
    """Make RUN/config.yaml say `validation.en` and `validation.de`."""
    validation = Corpus(source="validation.en", target="validation.de")
    relative = dataclasses.replace(of, data=dataclasses.replace(of.data, validation=validation))
    (run / "config.yaml").write_text(writer.to_yaml(relative), encoding="utf-8")


def held_out(pairs: list[tuple[str, str]], tags: tuple[str, ...] = ()) -> ValidationSet:
    """As much of a validation set as its key needs."""
    return ValidationSet("en-de", LanguagePair("en", "de"), tags, pairs, ids=None)  # type: ignore[arg-type]


def test_another_text_of_the_same_name_is_refused(
    make_config: MakeConfig, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative paths lead from the current folder: what is there must be what the run was validated on."""
    of = make_config("training.best_metric=bleu")
    run = run_of(tmp_path / "run", of, 1)
    with_relative_paths(run, of)
    pairs = list(zip(*(read_lines(corpus / f"validation.{side}") for side in ("en", "de")), strict=True))
    key = validation_key([held_out(pairs)], of.training, of.decoding)
    model_file.save(model_file.checkpoint_path(run, 2), make_checkpoint(of, 2, step=2, validation_key=key))
    sessions = ({"event": "started", "step": step, "folder": folder} for step, folder in ((0, "/"), (1, str(corpus))))
    (run / "sessions.jsonl").write_text("".join(f"{json.dumps(session)}\n" for session in sessions))
    monkeypatch.chdir(corpus)
    average.select(run, "cpu")
    other = tmp_path / "elsewhere"
    write_corpus(other, "validation", 20, seed=99)
    monkeypatch.chdir(other)
    with pytest.raises(NmtError, match=r"read in .*/elsewhere, differs from the text .* validated on") as refused:
        average.select(run, "cpu")
    assert f"in the folder {corpus}, in which training was started" in str(refused.value)
    (run / "sessions.jsonl").write_text(json.dumps({"event": "started", "step": 0, "folder": str(other)}) + "\n")
    with pytest.raises(NmtError, match="validated on: put the text back, or correct the path there"):
        average.select(run, "cpu")


def test_other_settings_of_the_search_are_no_other_text(make_config: MakeConfig) -> None:
    pairs = [("one", "eins")]
    configs = (
        make_config(*overrides)
        for overrides in ([], ["training.best_metric=bleu"], ["training.best_metric=bleu", "decoding.beam_size=7"])
    )
    keys = {validation_key([held_out(pairs)], of.training, of.decoding) for of in configs}
    assert len(keys) == 3
    assert set(map(recorded_text_key, keys)) == {text_key([held_out(pairs)])}
    assert text_key([held_out(pairs)]) != text_key([held_out([("one", "zwei")])])


def test_a_damaged_checkpoint_is_no_candidate(
    make_config: MakeConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = run_of(tmp_path / "run", make_config(), 3)
    *whole, damaged = model_file.checkpoints(run)
    damaged.write_bytes(damaged.read_bytes()[:-100])
    found = average.candidates(run, last=(1, 2), best=(2,))
    assert list(found.values()) == [whole[1:], whole]
    assert f"{damaged}: " in caplog.text and "skipped" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["RUN", "--select", "--last", "2"],
            "RUN: for a run folder, give exactly one of --last N, --best N and --select",
        ),
        (
            ["RUN", "--last", "1", "--output", "RUN/best.safetensors"],
            "RUN/best.safetensors: is a file of the run itself: choose another --output",
        ),
    ],
)
def test_options_that_do_not_go_together(
    make_config: MakeConfig, tmp_path: Path, arguments: list[str], message: str
) -> None:
    run = run_of(tmp_path / "run", make_config(), 1)
    given = [one.replace("RUN", str(run)) for one in arguments]
    given += [] if "--output" in given else ["--output", str(tmp_path / "x")]
    done = CliRunner().invoke(app.app, ["average-checkpoints", *given])
    assert done.exit_code == 1 and message in done.stderr.replace(str(run), "RUN")
