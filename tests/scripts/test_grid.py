"""Grids of runs, Table 3 of the paper and ablations: what rows are, what is trained once, what is measured once."""

import hashlib
import json
import logging
import math
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import typer
from helpers.model_files import make_checkpoint
from helpers.runs import config_text, rows_of, write_corpus
from pytest import approx
from typer.testing import CliRunner

from nmt.checkpoints import model_file, run_folder
from nmt.commands import train
from nmt.config import reader, schema, writer
from nmt.device import usable_cores
from nmt.errors import NmtError

ROOT = Path(__file__).parents[2]
CPU = SimpleNamespace(device="cpu", ranks=None, jobs=1)

# Table 3, typed in from the paper: N, d_model, d_ff, h, d_k, d_v, dropout, label smoothing, steps, and in millions.
BASE = (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000)
PAPERS_TABLE = {
    "base": (*BASE, 65),
    "A1": (6, 512, 2048, 1, 512, 512, 0.1, 0.1, 100_000, None),
    "A2": (6, 512, 2048, 4, 128, 128, 0.1, 0.1, 100_000, None),
    "A3": (6, 512, 2048, 16, 32, 32, 0.1, 0.1, 100_000, None),
    "A4": (6, 512, 2048, 32, 16, 16, 0.1, 0.1, 100_000, None),
    "B1": (6, 512, 2048, 8, 16, 64, 0.1, 0.1, 100_000, 58),
    "B2": (6, 512, 2048, 8, 32, 64, 0.1, 0.1, 100_000, 60),
    "C1": (2, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 36),
    "C2": (4, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 50),
    "C3": (8, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 80),
    "C4": (6, 256, 2048, 8, 32, 32, 0.1, 0.1, 100_000, 28),
    "C5": (6, 1024, 2048, 8, 128, 128, 0.1, 0.1, 100_000, 168),
    "C6": (6, 512, 1024, 8, 64, 64, 0.1, 0.1, 100_000, 53),
    "C7": (6, 512, 4096, 8, 64, 64, 0.1, 0.1, 100_000, 90),
    "D1": (6, 512, 2048, 8, 64, 64, 0.0, 0.1, 100_000, None),
    "D2": (6, 512, 2048, 8, 64, 64, 0.2, 0.1, 100_000, None),
    "D3": (6, 512, 2048, 8, 64, 64, 0.1, 0.0, 100_000, None),
    "D4": (6, 512, 2048, 8, 64, 64, 0.1, 0.2, 100_000, None),
    "E": (*BASE, None),
    "big": (6, 1024, 4096, 16, 64, 64, 0.3, 0.1, 300_000, 213),
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A function that imports one of the scripts."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return lambda name: __import__(name)


@pytest.fixture
def grid(script: Callable[[str], ModuleType]) -> Any:
    return script("grid")


@pytest.fixture
def recipe(corpus: Path, tmp_path: Path) -> Path:
    """The file of a tiny run's config."""
    path = tmp_path / "recipe.yaml"
    path.write_text(config_text(corpus, tmp_path / "unused"), encoding="utf-8")
    return path


def plan(grid: Any, recipe: Path, names: str | None, *overrides: str, scale: int = 1, seeds: str | None = None) -> Any:
    """The runs of a grid of three rows."""
    rows = [("first", ()), ("wide", ("model.feed_forward=96",)), ("long", ("model.norm=pre",))]
    made = grid.Grid(
        rows=tuple(grid.Row(row=name, settings=over, steps=2.0 if name == "long" else 1.0) for name, over in rows),
        base=("model.d_model=48", "model.heads=4"),
    )
    return grid.runs(made, made.chosen(names), recipe, overrides, recipe.parent / "out", seeds, scale)


def test_an_override_that_a_row_gives_way_to_is_said(grid: Any, recipe: Path, caplog: pytest.LogCaptureFixture) -> None:
    [wide] = plan(grid, recipe, "wide", "model.feed_forward=64", "model.heads=2")
    assert "model.feed_forward=64" in wide.overrides
    assert caplog.messages == [
        "row wide: its model.feed_forward=96 is overridden by model.feed_forward=64, so its name does not describe it"
    ]


@pytest.mark.parametrize("name", ["ablations", "architectures", "lengths", "small-data"])
def test_each_grid_that_comes_with_the_project_suits_the_recipe_that_it_names(grid: Any, name: str) -> None:
    file = ROOT / "configs" / "grids" / f"{name}.yaml"
    recipe = re.search(r"configs/[\w-]+\.yaml", file.read_text(encoding="utf-8"))
    assert recipe is not None
    table = grid.load(file)
    runs = grid.runs(table, table.rows, ROOT / recipe[0], (), Path("out"), None, 1)
    assert len(runs) > 2 and len({repr(run.settings) for run in runs}) == len(runs)


# ------------------------------------------------------------------------ Table 3


def test_the_rows_of_table_3_are_the_papers(grid: Any, script: Callable[[str], ModuleType]) -> None:
    table3 = script("reproduce_table3")
    table = grid.load(table3.ROWS)
    runs = grid.runs(table, table.rows, table3.PAPERS_CONFIG, (), Path("out"), None, 1)
    assert [run.row.row for run in runs] == [*PAPERS_TABLE]
    for run, (*papers, millions) in zip(runs, PAPERS_TABLE.values(), strict=True):
        model, training = run.config.model, run.config.training
        assert [
            model.layers, model.d_model, model.feed_forward, model.heads,
            *model.head_widths, model.dropout, training.label_smoothing, training.max_steps,
        ] == papers, run.row.row  # fmt: skip
        assert run.row.paper.parameters == millions
        assert model.positions == ("learned" if run.row.row == "E" else "interleaved")
    assert run.config == reader.parse(
        schema.Config, (ROOT / "configs" / "wmt14-en-de-big.yaml").read_text(), "big", list(changed_for_big(run))
    )


def changed_for_big(run: Any) -> list[str]:
    """What the row `big` takes from the base config rather than from wmt14-en-de-big.yaml: how it is run."""
    row = writer.flatten(run.config)
    ways = ("checkpoint_every", "validate_every", "keep_last", "micro_batch_tokens")
    return [f"training.{way}={row[f'training.{way}']}" for way in ways] + [
        f"run_dir={run.config.run_dir}", f"data.store_dir={run.config.data.store_dir}"
    ]  # fmt: skip


def test_each_count_is_within_5_percent_of_the_papers_or_explained(script: Callable[[str], ModuleType]) -> None:
    table3 = script("reproduce_table3")
    app = typer.Typer()
    app.command()(table3.main)
    shown = CliRunner().invoke(app, ["--count"]).stdout
    table, _, notes = shown.partition("\n\n")
    lines = {line.split()[0]: line for line in table.split("\n")[2:]}
    assert lines.keys() == PAPERS_TABLE.keys()
    explained = 0
    for name, line in lines.items():
        papers, differ = re.findall(r" \(?(\d+)\)? +([+-][0-9.]+%)", line)[0]
        assert int(papers) == (PAPERS_TABLE[name][-1] or 65)
        if abs(float(differ.rstrip("%"))) > 5:
            assert f"\n{name} differs by {differ}: " in notes
            explained += 1
    assert explained == 1  # with two layers, most of the parameters are the vocabulary's
    least, most = map(int, notes.partition("With ")[2].replace(",", "").partition(" subwords")[0].split(" to "))
    documented = (ROOT / "docs" / "reproducing.md").read_text(encoding="utf-8")
    assert f"```text\n{shown}```" in documented, "docs/reproducing.md shows what is printed"
    for size in (least, most):  # what the note says is so
        for name, (layers, d_model, inner, heads, key, value, *_, millions) in PAPERS_TABLE.items():
            if millions and name != "big":
                attention = 2 * d_model * heads * (key + value) + heads * (2 * key + value) + d_model
                inner_layers = 2 * d_model * inner + inner + d_model
                count = layers * (3 * attention + 2 * inner_layers + 5 * 2 * d_model) + size * d_model
                assert abs(count / 1e6 - millions) <= 0.5, (name, size)


def counted(script: Callable[[str], ModuleType], *arguments: str) -> tuple[dict[str, str], str]:
    """What --count prints: each row's line, and the notes."""
    app = typer.Typer()
    app.command()(script("reproduce_table3").main)
    shown = CliRunner().invoke(app, ["--count", *arguments])
    assert shown.exit_code == 0, shown.output
    table, _, notes = shown.stdout.partition("\n\n")
    return {line.split()[0]: line for line in table.split("\n")[2:]}, notes


@pytest.mark.parametrize("names", ["C1,D1,E", "A1"])
def test_rows_without_a_figure_are_compared_with_the_base_model_shown_or_not(
    script: Callable[[str], ModuleType], names: str
) -> None:
    lines, notes = counted(script, "--rows", names)
    bracketed = [line for row, line in lines.items() if PAPERS_TABLE[row][-1] is None]
    assert bracketed and all(re.search(r" \(65\)   -[13]\.[03]%$", line) for line in bracketed)
    assert "In brackets:\nthe base model's" in notes


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [(["--scale", "4"], "model.d_model, model.feed_forward."), (["model.layers=2"], "model.layers.")],
)
def test_models_that_are_not_the_papers_are_counted_and_not_compared(
    script: Callable[[str], ModuleType], arguments: list[str], changed: str
) -> None:
    lines, notes = counted(script, "--rows", "base,C6", *arguments)
    assert lines["base"].split()[-2] == "100,000", "the last but the millions"
    assert "%" not in "".join(lines.values()) + notes
    assert notes.endswith(f"Not compared with the paper: these models differ\nfrom the paper's in {changed}\n")


def test_other_vocabularies_are_compared(script: Callable[[str], ModuleType]) -> None:
    lines, notes = counted(script, "--rows", "base", "vocabulary.size=8000", "training.max_steps=5")
    assert lines["base"].endswith("  65  -25.8%  39,769-41,721")
    assert "base differs by -25.8%: 32,745 more subwords" in notes
    assert (
        "base differs by +7.3%: 9,255 fewer subwords" in counted(script, "--rows", "base", "vocabulary.size=50000")[1]
    )


def test_only_vocabularies_that_the_paper_may_mean_explain(script: Callable[[str], ModuleType]) -> None:
    """Figures of the paper's that ask for some 10,000 and 110,000 subwords, had it any."""
    table3 = script("reproduce_table3")
    table = table3.grid.load(table3.ROWS)
    few, many, base = (
        replace(run, row=replace(run.row, row=name, paper=replace(run.row.paper, parameters=millions)))
        for run in table3.grid.runs(table, table.rows[:1], table3.PAPERS_CONFIG, (), Path("out"), None, 1)
        for name, millions in (("few", 50.0), ("many", 100.0), ("base", 65.0))
    )
    notes = table3.count(table, [few, many, replace(many, row=replace(many.row, row="more"))])
    assert re.search(
        r'few differs by \+26\.\d%: not explained: [0-9,]+ to [0-9,]+ subwords are not "about 37000"', notes
    )
    assert "many differs by -36.9%: not explained: 1" in notes
    assert "With " not in notes, "though one vocabulary makes two rows round to the figures"
    assert "not explained" not in table3.count(table, [base])


# ------------------------------------------------------------------------ rows


def test_a_row_is_the_config_the_base_the_row_the_scale_and_the_overrides(grid: Any, recipe: Path) -> None:
    first, wide, long = plan(grid, recipe, None, "training.max_steps=8", "model.dropout=0.2", scale=2)
    assert (first.config.model.d_model, first.config.model.feed_forward) == (24, 32)
    assert (wide.config.model.d_model, wide.config.model.feed_forward) == (24, 48)
    assert [run.config.model.dropout for run in (first, wide, long)] == [0.2] * 3
    assert [run.config.training.max_steps for run in (first, wide, long)] == [8, 8, 16]
    assert long.folder == recipe.parent / "out" / "long-seed1"
    key_size = plan(grid, recipe, "first", "model.d_model=32", scale=2)[0]
    assert key_size.config.model.d_model == 32, "the command line comes last"
    keys = [override.partition("=")[0] for override in wide.overrides]
    assert len(keys) == len(set(keys))


def test_a_row_may_be_complete_only_with_the_command_line(grid: Any, recipe: Path) -> None:
    table = grid.Grid(rows=(grid.Row(row="five", settings=("model.heads=5",)),))  # d_model is 32
    with pytest.raises(NmtError, match=r"row five: .*heads"):
        grid.runs(table, table.rows, recipe, (), recipe.parent / "out", None, 1)
    [run] = grid.runs(table, table.rows, recipe, ("model.d_model=40",), recipe.parent / "out", None, 1)
    assert (run.config.model.d_model, run.config.model.heads) == (40, 5)


def test_seeds_are_runs_of_their_own(grid: Any, recipe: Path) -> None:
    runs = plan(grid, recipe, "wide,first", seeds="3,5")
    assert [(run.row.row, run.config.seed) for run in runs] == [("first", 3), ("first", 5), ("wide", 3), ("wide", 5)]
    assert len({run.folder for run in runs}) == 4


def test_rows_that_overrides_make_equal_are_trained_once(grid: Any, recipe: Path) -> None:
    runs = plan(grid, recipe, "first,wide", "model.feed_forward=64", seeds="1,2")
    assert [(run.row.row, run.seed) for run in runs] == [("first", 1), ("first", 2)]


@pytest.mark.parametrize(
    ("names", "overrides", "scale", "words"),
    [
        ("first,other", [], 1, "--rows: other: no such row; there are first, wide, long"),
        ("first", [], 5, "row first: model.d_model: 48 is not a multiple of --scale 5"),
        ("wide", ["model.layer=2"], 1, "row wide: .* did you mean model.layers?"),
    ],
)
def test_what_is_wrong_is_said(
    grid: Any, recipe: Path, names: str, overrides: list[str], scale: int, words: str
) -> None:
    with pytest.raises(NmtError, match=words):
        plan(grid, recipe, names, *overrides, scale=scale)


def test_a_wrong_setting_of_a_row_is_said_with_its_name(grid: Any, recipe: Path) -> None:
    table = grid.Grid(rows=(grid.Row(row="a"), grid.Row(row="b", settings=("model.hidden_size=4",))))
    with pytest.raises(
        NmtError, match=r"row b: .*model\.hidden_size: unknown setting of model\.architecture: transformer"
    ):
        grid.runs(table, table.rows, recipe, (), recipe.parent / "out", None, 1)


def test_rows_of_one_name_are_refused(grid: Any, tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text("rows: [{row: a}, {row: b}, {row: b, settings: [model.norm=pre]}]", encoding="utf-8")
    with pytest.raises(NmtError, match=r"grid\.yaml: 2 rows have the name b: give each row its own"):
        grid.load(path)


def test_a_grid_without_rows_is_refused(grid: Any, tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text("rows: []", encoding="utf-8")
    with pytest.raises(NmtError, match=r"grid\.yaml: rows: there are none: give at least one"):
        grid.load(path)


def test_an_output_that_cannot_be_a_folder_is_refused(script: Callable[[str], ModuleType], recipe: Path) -> None:
    table3 = typer.Typer()
    table3.command()(script("reproduce_table3").main)
    ablations = script("ablations").app
    for app, command in (
        (ablations, ["train", str(recipe), "--rows", "recipe"]),
        (ablations, ["speed", str(recipe), "--rows", "recipe"]),
        (table3, ["--config", str(recipe), "--rows", "base"]),
    ):
        for output, what in ((recipe, "a file"), (recipe / "deeper" / "out", f"{recipe} is a file")):
            done = CliRunner().invoke(app, [*command, "--output", str(output)])
            assert done.exit_code == 1
            assert done.stderr == f"error: {output}: {what}, not a folder: choose another --output\n"


def test_a_config_may_leave_everything_to_the_defaults(grid: Any, tmp_path: Path) -> None:
    path = tmp_path / "least.yaml"
    path.write_text(
        "run_dir: r\ndata: {source_language: en, target_language: de, train: [{source: a, target: b}]}\n",
        encoding="utf-8",
    )
    [run] = grid.runs(grid.Grid(rows=(grid.Row(row="only"),)), [grid.Row(row="only")], path, (), Path("out"), None, 1)
    assert set(run.settings) == {"data"}


def test_the_rows_of_the_ablations_fit_the_recipe_and_change_it(grid: Any) -> None:
    table = grid.load(grid.GRIDS / "ablations.yaml")
    runs = grid.runs(table, table.rows, ROOT / "configs" / "multi30k.yaml", (), Path("out"), None, 1)
    whole = schema.load(ROOT / "configs" / "multi30k.yaml")
    changes = {run.row.row: writer.differences(whole, run.config) for run in runs}
    ours = ("run_dir", "data.store_dir")
    counts = {name: sum(not row.startswith(ours) for row in rows) for name, rows in changes.items()}
    assert counts.pop("recipe") == 0
    assert set(counts.values()) == {1}
    assert {"warmup-500", "label-smoothing-0", "pre-norm", "tie-none", "learned-positions", "bpe-4000"} <= counts.keys()


# ------------------------------------------------------------------------ train, score, resume


def test_rows_are_trained_scored_written_down_and_not_done_again(
    grid: Any, recipe: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = recipe.parent / "out"
    runs = plan(grid, recipe, "first", "training.checkpoint_every=2", "training.max_steps=8")
    test = (corpus / "validation.en", corpus / "validation.de")
    assert train.train(schema.load(recipe, [*runs[0].overrides, "training.max_seconds=0.01"]), "cpu").reason
    assert not (runs[0].folder / "best.safetensors").exists(), "stopped before the end"

    found = grid.train_and_score(runs, output, CPU, 1, test)
    [line] = map(json.loads, (output / "results.jsonl").read_text().split("\n")[:-1])
    assert found == {"first": [line]}
    assert (line["row"], line["seed"], line["step"]) == ("first", 1, 8)
    last = line["curve"][-1]
    assert line["validation"]["perplexity"] == approx(math.exp(last["validation_loss"]), rel=1e-5)
    assert line["validation"]["bleu"] == approx(last["bleu"]) == approx(line["test"]["bleu"])
    trained = model_file.load(model_file.checkpoint_path(runs[0].folder, 8))
    assert line["parameters"] == sum(weight.numel() for weight in trained.weights.values())

    def no(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(subprocess, "Popen", no)
    assert grid.train_and_score(runs, output, CPU, 1, test) == found
    with pytest.raises(
        NmtError, match=r"--average 11: row first keeps only its last 10 checkpoints: raise training\.keep_last"
    ):
        grid.train_and_score(runs, output, CPU, 11, test)
    other = plan(grid, recipe, "first", "training.checkpoint_every=2", "training.max_steps=9")
    with pytest.raises(NmtError, match=r"other settings \(training\.max_steps: 8 there, 9 here\): choose another"):
        grid.train_and_score(other, output, CPU, 1, test)


def test_a_row_is_done_anew_where_a_text_holds_something_else(
    grid: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """To stand-ins for training and scoring, which count."""
    caplog.set_level("INFO", "nmt")
    for name in ("train", "validation", "test"):
        write_corpus(tmp_path, name, 3, seed=1)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(config_text(tmp_path, tmp_path / "unused"), encoding="utf-8")
    runs, done = plan(grid, recipe, "first"), []

    def train_nothing(missing: list[Any], _: object) -> Iterator[Any]:
        for run in missing:
            run.folder.mkdir(parents=True, exist_ok=True)
            yield run

    monkeypatch.setattr(grid.training_runs, "train", train_nothing)
    monkeypatch.setattr(grid, "score", lambda *_: done.append(1) or {"number": len(done), "validation": {"bleu": 1.0}})

    def number() -> int:
        caplog.clear()
        test = tmp_path / "test.en", tmp_path / "test.de"
        of_first: list[dict[str, int]] = grid.train_and_score(runs, tmp_path / "out", CPU, 1, test)["first"]
        return of_first[0]["number"]

    def changed() -> list[str]:
        said = [message.removeprefix("first seed 1: ") for message in caplog.messages]
        assert said.pop() == "BLEU 1.00; 1 of 1 runs are finished"
        return said

    assert [number(), number()] == [1, 1]
    write_corpus(tmp_path, "test", 3, seed=2)
    assert number() == 2 and changed() == ["new content of --test: done again"]
    write_corpus(tmp_path, "validation", 3, seed=2)
    assert number() == 3 and changed() == ["new content of data.validation: done again"]
    write_corpus(tmp_path, "test", 3, seed=1)
    write_corpus(tmp_path, "validation", 3, seed=1)
    assert number() == 1, "a text that is back"

    write_corpus(tmp_path, "train", 3, seed=2)
    with pytest.raises(NmtError, match=r"first-seed1 has a run on other training data .*: choose another --output"):
        number()
    runs[0].folder.rmdir()
    assert number() == 4 and "new content of data.train" in changed()[0]
    results = tmp_path / "out" / "results.jsonl"
    lines = [{key: row[key] for key in row if key != "texts"} for row in rows_of(results)]
    results.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert number() == 5 and changed() == ["what it was made from is not recorded: done again"]

    start = tmp_path / "start.safetensors"
    start.write_bytes(b"one model")
    runs[:] = plan(grid, recipe, "first", f"training.start_from={start}")
    runs[0].folder.rmdir()
    assert [number(), number()] == [6, 6]
    start.write_bytes(b"another model")
    assert number() == 7 and changed() == ["new content of training.start_from: done again"]


def test_a_run_that_has_begun_started_from_the_same_model(grid: Any, recipe: Path, tmp_path: Path) -> None:
    start = tmp_path / "start.safetensors"
    start.write_bytes(b"one model")
    [run] = plan(grid, recipe, "first", f"training.start_from={start}")
    run.folder.mkdir(parents=True)
    one = hashlib.sha256(b"one model").hexdigest()
    sessions = [{"step": 0, "start_from": {"file": str(start), "sha256": one}}, {"step": 2}]
    (run.folder / "sessions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sessions), encoding="utf-8")
    assert grid.start_digest(run) == one
    start.write_bytes(b"another model")
    for check in (grid.check_unchanged, lambda run: grid.train_and_score([run], tmp_path / "out", CPU, 1, None)):
        with pytest.raises(NmtError, match=r"has a run that started from another model \(training\.start_from"):
            check(run)
    start.unlink()
    assert grid.start_digest(run) == one, "needed no more"
    (run.folder / "sessions.jsonl").unlink()
    with pytest.raises(NmtError, match=r"row first: training\.start_from: .*start\.safetensors: no such file"):
        grid.check([run], 1, None)


def test_a_run_that_cannot_be_scored_does_not_end_the_others(
    grid: Any, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def score(run: Any, *_: object) -> dict[str, Any]:
        if run.row.row == "wide":
            raise NmtError("its metrics are damaged")
        return {"validation": {"bleu": 1.0}}

    monkeypatch.setattr(grid.training_runs, "train", lambda missing, _: iter(missing))
    monkeypatch.setattr(grid, "score", score)
    found = grid.train_and_score(plan(grid, recipe, None), tmp_path / "out", CPU, 1, None)
    assert [*found] == ["first", "long"]
    assert "wide seed 1: cannot be scored: its metrics are damaged" in caplog.messages


def test_more_checkpoints_than_a_run_will_write_are_refused_before_it_is_trained(
    grid: Any, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Trained(Exception):
        """That it came to this."""

    def trained(*_: object) -> None:
        raise Trained

    monkeypatch.setattr(grid.training_runs, "train", trained)
    few = "training.max_steps=10", "training.checkpoint_every=10", "training.validate_every=4"  # at 4, 8 and 10
    runs = plan(grid, recipe, "first", *few)
    message = r"--average 4: row first writes only 3 checkpoints .*: lower training\.checkpoint_every: 10"
    with pytest.raises(NmtError, match=message):
        grid.train_and_score(runs, recipe.parent / "out", CPU, 4, None)
    with pytest.raises(Trained):
        grid.train_and_score(runs, recipe.parent / "out", CPU, 3, None)
    train.train(schema.load(recipe, [*runs[0].overrides]), "cpu")
    assert [path.stem[-2:] for path in model_file.checkpoints(runs[0].folder)] == ["04", "08", "10"]


STAND_IN = """#!{python}
import json, os, pathlib, signal, sys, time
settings = dict(argument.split("=", 1) for argument in sys.argv if "=" in argument)
run, quality = pathlib.Path(settings["run_dir"]), float(settings["training.label_smoothing"])
run.mkdir(parents=True, exist_ok=True)
with (run.parent / "starts").open("a") as starts:
    starts.write(run.name + " " + os.environ.get("OMP_NUM_THREADS", "") + chr(10))
assert os.environ["NMT_LAUNCHER"] == str(os.getppid())
if quality == 0.9:
    sys.exit("error: the disk is full")
metrics = run / "metrics.jsonl"
step = len(metrics.read_text().split(chr(10))) - 1 if metrics.exists() else 0
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
while step < 12:
    if ended:
        (run / "ended").touch()
        sys.exit(130)
    step += 1
    with metrics.open("a") as file:
        file.write(json.dumps({{"step": step, "validation_loss": 1.0, "bleu": quality * step}}) + chr(10))
    time.sleep(0.05)
print(run)
"""


@pytest.fixture
def stand_in(script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of `nmt train`: validates at each step, and BLEU grows with the step and label_smoothing."""
    script("benchmark")  # imported later, with this interpreter, it would start the stand-in in later tests too
    program = tmp_path / "program"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(program))


def rows_of_quality(grid: Any, recipe: Path, qualities: list[float]) -> Any:
    rows = tuple(
        grid.Row(row=f"row{i}", settings=(f"training.label_smoothing={one}",)) for i, one in enumerate(qualities)
    )
    made = grid.Grid(rows=rows, base=("training.max_steps=12", "training.validate_every=1"))
    return grid.runs(made, made.rows, recipe, (), recipe.parent / "out", None, 1)


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.usefixtures("stand_in")
def test_the_worse_half_is_stopped_early_and_not_started_again(grid: Any, recipe: Path, jobs: int) -> None:
    training_runs, means = grid.training_runs, SimpleNamespace(device="cpu", ranks=None, jobs=jobs)
    runs = rows_of_quality(grid, recipe, [0.1, 0.5, 0.3, 0.7, 0.2])
    left, stopped = training_runs.halved(runs, [3, 6], means)
    assert [run.row.row for run in left] == ["row0", "row3"]
    assert {row: (one.step, one.bleu) for row, one in stopped.items()} == {
        "row2": (3, approx(0.9)), "row4": (3, approx(0.6)), "row1": (6, approx(3.0))
    }  # fmt: skip
    starts = recipe.parent / "out" / "starts"
    before = starts.read_text()
    again, stopped_again = training_runs.halved(runs, [3, 6], means)
    assert ([run.row for run in again], stopped_again) == ([run.row for run in left], stopped)
    assert starts.read_text() == before
    assert not any(training_runs.reached(run, 12) for run in runs)
    done = list(training_runs.train(left, means))
    assert set(done) == set(left) and all(training_runs.reached(run, 12) for run in left)
    threads = {line.split(" ")[1] for line in starts.read_text().split("\n") if line}
    assert threads == {os.environ.get("OMP_NUM_THREADS", "" if jobs == 1 else str(max(1, usable_cores() // jobs)))}


@pytest.mark.usefixtures("stand_in")
def test_rows_that_another_command_trains_are_refused_before_any_is_trained(grid: Any, recipe: Path) -> None:
    runs = rows_of_quality(grid, recipe, [0.1, 0.5])
    with run_folder.locked(runs[1].folder), pytest.raises(NmtError, match="row row1: another command is training it"):
        list(grid.training_runs.train(runs, CPU))
    assert not (recipe.parent / "out" / "starts").exists()
    with run_folder.locked(runs[1].folder):  # other rows may be trained at the same time
        assert list(grid.training_runs.train(runs[:1], CPU)) == runs[:1]
    assert list(grid.training_runs.train(runs, CPU)) == runs


@pytest.mark.parametrize(("jobs", "reason"), [(1, "failed, see above"), (3, "failed: the disk is full")])
@pytest.mark.usefixtures("stand_in")
def test_a_run_that_fails_does_not_end_the_others(
    grid: Any, recipe: Path, caplog: pytest.LogCaptureFixture, jobs: int, reason: str
) -> None:
    runs = rows_of_quality(grid, recipe, [0.1, 0.9, 0.3, 0.2, 0.15])
    means = SimpleNamespace(device="cpu", ranks=None, jobs=jobs)
    left, stopped = grid.training_runs.halved(runs, [2], means)
    assert ([run.row.row for run in left], [*stopped]) == (["row0", "row2", "row3"], ["row4"])
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == [f"row1 seed 1: {reason}"]
    assert set(grid.training_runs.train(runs, means)) == {*runs} - {runs[1]}
    assert grid.training_runs.halved(runs[1:2], [2], means) == ([], {})
    left, stopped = grid.training_runs.halved([runs[1], runs[4], *runs[2:4]], [2], means)
    assert ([run.row.row for run in left], [*stopped]) == (["row2", "row3"], ["row4"]), "no other row becomes the first"


@pytest.mark.usefixtures("stand_in")
def test_the_model_that_rows_start_from_does_not_compare_them(grid: Any, recipe: Path) -> None:
    runs = rows_of_quality(grid, recipe, [0.1, 0.2, 0.3, 0.4])
    for run in runs:
        run.folder.mkdir(parents=True)
        rows = [{"step": 0, "validation_loss": 0.5, "bleu": 30.0}]
        rows += [{"step": 3, "validation_loss": 1.0, "bleu": 10 * float(run.config.training.label_smoothing)}]
        (run.folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    left, stopped = grid.training_runs.halved(runs, [3], CPU)
    assert [run.row.row for run in left] == ["row0", "row2", "row3"]
    assert stopped["row1"].bleu == approx(2.0)


def test_a_damaged_line_of_a_run_is_named(grid: Any, recipe: Path) -> None:
    [run] = rows_of_quality(grid, recipe, [0.1])
    run.folder.mkdir(parents=True)
    (run.folder / "metrics.jsonl").write_text('{"step": 1}\n{"step\n{"step": 3}\n{"st', encoding="utf-8")
    with pytest.raises(NmtError, match=r"metrics\.jsonl: line 2: not a row of metrics: delete .*row0-seed1, and"):
        grid.training_runs.reached(run, 2)


@pytest.mark.usefixtures("stand_in")
def test_the_command_halves_shows_what_it_stopped_and_what_failed(
    script: Callable[[str], ModuleType], recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-ins for training and scoring."""
    ablations, rows, output = script("ablations"), tmp_path / "rows.yaml", tmp_path / "out"
    qualities = {"first": 0.1, "good": 0.3, "fair": 0.2, "bad": 0.15, "broken": 0.9}
    rows.write_text(
        "rows:\n" + "".join(f"- {{row: {row}, settings: [training.label_smoothing={one}]}}\n" for row, one in
                            qualities.items()), encoding="utf-8"
    )  # fmt: skip
    monkeypatch.setattr(ablations.grid, "score", lambda run, *_: result(9.0, 100 * qualities[run.row.row], 1.0))
    command = ["train", str(recipe), "training.max_steps=12", "training.validate_every=1", "--grid", str(rows)]
    command += ["--output", str(output), "--jobs", "2", "--halve"]

    def invoke(halve: str, *overrides: str) -> Any:
        return CliRunner().invoke(ablations.app, [*command, halve, *overrides])

    for overrides, message in [
        (["data.validation=null"], "data.validation: null: rows are compared on a validation set"),
        (["data.validation=[]"], "data.validation: []: rows are compared on a validation set"),
        ([f"data.validation=[{{source: {recipe}, target: {recipe}}}, {{source: {rows}, target: {rows}}}]"],
         "data.validation: rows are compared on one validation set"),
    ]:  # fmt: skip
        failed = invoke("3", *overrides)
        assert (failed.exit_code, message in failed.stderr) == (1, True), failed.output
    assert "--halve: '': give whole numbers" in invoke("").stderr
    assert not output.exists(), "found before anything is trained"

    shown = invoke("3")
    assert shown.exit_code == 1
    assert [line.split()[0] for line in shown.stdout.split("\n")[2:5]] == ["first", "good", "fair"]
    assert [line.split() for line in shown.stdout.strip().split("\n")[-1:]] == [["bad", "3", "0.45"]]
    assert "broken seed 1: failed: the disk is full\n" in shown.stderr
    assert ": BLEU 20.00; 3 of 3 runs are finished\n" in shown.stderr
    assert shown.stderr.endswith(
        "error: 1 of 5 rows have no result, because a run failed (see above): broken: the same command tries these "
        "again; --rows leaves rows out\n"
    )
    without = CliRunner().invoke(ablations.app, [*command, "3", "--rows", "first,good,fair,bad"])
    assert (without.exit_code, without.stdout) == (0, shown.stdout)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.usefixtures("stand_in")
def test_a_signal_while_a_row_is_scored_ends_the_grid_and_the_other_rows(
    grid: Any, recipe: Path, number: signal.Signals
) -> None:
    runs, started = rows_of_quality(grid, recipe, [0.1, 0.2, 0.3]), []
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may ignore for what runs in the background
    left_out = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        for run in grid.training_runs.train(runs, SimpleNamespace(device="cpu", ranks=None, jobs=2), 2):
            started.append(run)
            os.kill(os.getpid(), number)
            time.sleep(5)
    assert len(started) == 1 and not runs[2].folder.exists()
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == left_out


@pytest.mark.usefixtures("stand_in")
def test_a_signal_while_a_run_is_started_reaches_it(
    grid: Any, recipe: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nmt")
    runs, start = rows_of_quality(grid, recipe, [0.1, 0.2]), grid.training_runs._start

    def signalled(run: Any, launch: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return start(run, launch)

    monkeypatch.setattr(grid.training_runs, "_start", signalled)
    with pytest.raises(typer.Exit) as status:
        list(grid.training_runs.train(runs, CPU))
    assert status.value.exit_code == 143
    assert not grid.training_runs.reached(runs[0], 12) and not runs[1].folder.exists()
    assert caplog.messages.count("SIGTERM: the runs save their states; the same command continues them") == 1
    both = ", ".join(f"{run.row.row} seed 1 (step 0 of 12)" for run in runs)
    assert caplog.messages[0] == caplog.messages[-1] == f"not finished: {both}"


@pytest.mark.usefixtures("stand_in")
def test_a_signal_to_a_run_that_has_come_far_enough_ends_the_grid(grid: Any, recipe: Path) -> None:
    runs = rows_of_quality(grid, recipe, [0.1, 0.2])
    stopping = threading.Timer(0.0, lambda: None)

    def reached(run: Any, step: int) -> bool:
        found: bool = real(run, step)
        if found and not stopping.finished.is_set():
            stopping.finished.set()
            os.kill(os.getpid(), signal.SIGINT)
        return found

    real, grid.training_runs.reached = grid.training_runs.reached, reached
    try:
        with pytest.raises(typer.Exit) as status:
            list(grid.training_runs.train(runs, CPU, 3))
    finally:
        grid.training_runs.reached = real
    assert status.value.exit_code == 130 and not runs[1].folder.exists()


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([6, 3], "--halve 6,3: give each step once, the smallest first"),
        ([3, 12], "--halve 12: row row0 has no validation then, or is finished"),
        ([0], "--halve 0: row row0 has no validation"),
    ],
)
def test_steps_of_halving_are_checked_first(grid: Any, recipe: Path, steps: list[int], problem: str) -> None:
    with pytest.raises(NmtError, match=problem):
        grid.training_runs.check_halving(rows_of_quality(grid, recipe, [0.1]), steps)


def test_rows_are_compared_only_after_steps_that_are_validated(grid: Any, recipe: Path) -> None:
    row = grid.Row(row="one", settings=("training.validate_every=4", "training.max_steps=12"))
    runs = grid.runs(grid.Grid(rows=(row,)), (row,), recipe, (), recipe.parent / "out", None, 1)
    grid.training_runs.check_halving(runs, [4, 8])
    said = (
        r"--halve 6: row one has no validation then, or is finished: give a multiple of training\.validate_every=4, b"
    )
    with pytest.raises(NmtError, match=said):
        grid.training_runs.check_halving(runs, [6])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_and_ends_the_grid(
    grid: Any, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """To a stand-in for `nmt train`, which says that it has started, waits, and notes what it hears."""
    program = tmp_path / "program"
    program.write_text(
        f"#!{sys.executable}\nimport pathlib, signal, sys, time\nfolder = pathlib.Path({str(tmp_path)!r})\n"
        "def heard(number, _):\n    (folder / 'heard').write_text(str(number))\n    sys.exit(130)\n"
        f"signal.signal({int(number)}, heard)\n(folder / 'started').touch()\ntime.sleep(20)\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(program))
    ended = threading.Event()

    def send() -> None:
        while not (tmp_path / "started").exists() and not ended.wait(0.01):
            pass
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(typer.Exit) as status:
            list(grid.training_runs.train(plan(grid, recipe, "first"), CPU))
    finally:
        ended.set()
        sender.join()
    assert status.value.exit_code == 128 + number
    assert (tmp_path / "heard").read_text() == str(int(number))


def test_perplexity_tells_of_pairs_that_are_too_long(
    script: Callable[[str], ModuleType],
    make_config: Callable[..., schema.Config],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    perplexity = script("scoring").perplexity
    model, pairs = tmp_path / "model.safetensors", [("one", "eins"), ("two " * 9, "zwei " * 9)]
    limits = "decoding.max_source_tokens=8", "decoding.max_extra_tokens=8"
    model_file.save(model, make_checkpoint(make_config(*limits), 1))
    assert perplexity(model, pairs, "cpu") == approx(perplexity(model, pairs[:1], "cpu"))
    [said] = [message for message in caplog.messages if not message.startswith("search: ")]
    assert "leaves out 1 of 2 pairs, longer than the model accepts: 8 subwords (decoding.max_source_tokens)" in said
    with pytest.raises(NmtError, match=r"each of 1 pairs is longer .*: raise it"):
        perplexity(model, pairs[1:], "cpu")


def test_results_survive_a_line_that_was_being_written(grid: Any, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results = grid.Results(path)
    for bleu in (1.0, 2.0):
        results.add({"row": "a", "settings": {"x": [1]}, "bleu": bleu})
    with path.open("a") as file:
        file.write('{"row": "b", "se')
    again = grid.Results(path)
    assert again.find({"row": "a", "settings": {"x": [1]}})["bleu"] == 2.0, "the last counts"
    assert again.find({"row": "b"}) is None and again.find({"row": "a", "settings": {}}) is None
    again.add({"row": "b"})
    assert [json.loads(line)["row"] for line in path.read_text().split("\n")[:-1]] == ["a", "a", "b"]
    path.write_text("not JSON\n")
    with pytest.raises(NmtError, match="line 1: not JSON"):
        grid.Results(path)


def result(perplexity: float, bleu: float, test: float) -> dict[str, Any]:
    validation = {"perplexity": perplexity, "bleu": bleu, "chrf": 50.0, "bleu_signature": "SIGNATURE"}
    return {"parameters": 1_234_567, "validation": validation, "test": {"bleu": test}}


def test_rows_are_compared_after_the_time_of_the_fastest(script: Callable[[str], ModuleType]) -> None:
    def timed(seconds: float, tokens: int, curve: list[tuple[int, float]]) -> list[dict[str, Any]]:
        one = result(9.0, 20.0, 10.0) | {"seconds": seconds, "target_tokens": tokens, "step": 40}
        one["validation"]["subwords_per_second"] = 500.4
        one["curve"] = [{"step": step, "validation_loss": loss, "bleu": 10 * loss} for step, loss in curve]
        return [one]

    found = {
        "slow": timed(200.0, 20_000, [(10, 3.0), (20, 2.5), (40, 2.0)]),
        "fast": timed(100.0, 40_000, [(40, 1.5)]),
        "slowest": timed(900.0, 9_000, [(40, 1.0)]),
        "old": [result(9.0, 20.0, 10.0)],
    }
    in_equal_time = script("ablations").in_equal_time
    lines = in_equal_time(found).split("\n")
    assert [line.split() for line in lines[2:5]] == [
        ["slow", "100", "500", "20", "2.50", "25.00"],
        ["fast", "400", "500", "40", "1.50", "15.00"],
        ["slowest", "10", "500"],
    ]
    assert "within 100 seconds" in lines[-1] and not any(line.startswith("old") for line in lines)
    # With speeds that were measured in turn, the seconds of the trainings do not count.
    lines = in_equal_time(found, {"slow": 50, "fast": 200, "slowest": 1000, "old": 1}).split("\n")
    assert [line.split() for line in lines[2:5]] == [
        ["slow", "50", "500"],
        ["fast", "200", "500"],
        ["slowest", "1,000", "500", "40", "1.00", "10.00"],
    ]
    assert "within 9 seconds" in lines[-1] and "measured in turn" in lines[-1]


@pytest.mark.parametrize("speed", [14_000.0 + 7 * i for i in range(150)])
def test_the_fastest_row_keeps_its_last_validation(script: Callable[[str], ModuleType], speed: float) -> None:
    """Whatever is lost by rounding."""
    one = result(9.0, 20.0, 10.0) | {"seconds": 9.0, "target_tokens": 8_866_499, "step": 2400}
    one["validation"]["subwords_per_second"] = 1.0
    one["curve"] = [{"step": step, "validation_loss": 1.0, "bleu": 1.0} for step in (2200, 2400)]
    assert " 2,400 " in script("ablations").in_equal_time({"fast": [one]}, {"fast": speed})


def test_a_row_of_which_a_seed_was_not_validated_in_time_has_no_mean(script: Callable[[str], ModuleType]) -> None:
    def seed(first: int, tokens: int) -> dict[str, Any]:
        one = result(9.0, 20.0, 10.0) | {"seconds": 9.0, "target_tokens": tokens, "step": 40}
        one["validation"]["subwords_per_second"] = 1.0
        return one | {"curve": [{"step": first, "validation_loss": 1.0, "bleu": 1.0}]}

    found = {"fast": [seed(10, 100)], "slow": [seed(10, 100), seed(40, 100)]}
    lines = script("ablations").in_equal_time(found, {"fast": 2.0, "slow": 1.0}).split("\n")
    assert [line.split() for line in lines[2:4]] == [["fast", "2", "1", "10", "1.00", "1.00"], ["slow", "1", "1"]]


def test_speeds_are_measured_in_turn_and_once(
    script: Callable[[str], ModuleType], recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a schedule that needs more steps than are timed."""
    rows = tmp_path / "rows.yaml"
    rows.write_text("rows: [{row: one}, {row: two, settings: [model.feed_forward=96]}]", encoding="utf-8")
    ablations, output = script("ablations"), tmp_path / "out"
    command = ["speed", str(recipe), "training.schedule=cosine", "training.warmup_steps=19", "--grid", str(rows)]
    command += ["training.final_learning_rate=0.0001", "--output", str(output), "--rounds", "1", "--steps", "10"]
    shown = CliRunner().invoke(ablations.app, [*command, "--rows", "one"])
    [line] = rows_of(output / "speeds.jsonl")
    assert (shown.exit_code, line["row"], line["round"]) == (0, "one", 1)
    speed = f"{line['target_tokens_per_second']:,.0f}"
    assert shown.stdout.split("\n")[2].split() == ["one", speed, "1.00", speed, "to", speed]
    assert not [path for path in output.iterdir() if path.name.startswith("one")], "the run of a speed is not a row's"

    measured: list[str] = []

    def stand_in(_: Path, overrides: tuple[str, ...], *__: object) -> Any:
        measured.append("two" if "model.feed_forward=96" in overrides else "one")
        return SimpleNamespace(speed=2 * line["target_tokens_per_second"])

    monkeypatch.setattr(ablations.benchmark, "run_nmt", stand_in)
    assert CliRunner().invoke(ablations.app, [*command, "--rows", "one"]).stdout == shown.stdout
    both = CliRunner().invoke(ablations.app, command)
    assert measured == ["two"], "the first row is not measured again"
    assert both.stdout.split("\n")[3].split()[2] == "2.00"
    for changed in (["--steps", "20"], ["--nproc-per-node", "2"], ["model.norm=pre"]):
        measured.clear()
        assert CliRunner().invoke(ablations.app, [*command, *changed]).exit_code == 0
        assert measured == ["one", "two"], changed
    wrong = CliRunner().invoke(ablations.app, [*command, "--steps", "15"])
    assert (wrong.exit_code, "--steps 15: give a multiple of 10" in wrong.stderr) == (1, True)


def test_a_failure_while_a_speed_is_measured_names_the_row(
    script: Callable[[str], ModuleType], recipe: Path, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.yaml"
    rows.write_text("rows: [{row: odd, settings: [training.batch_tokens=2]}]", encoding="utf-8")
    command = ["speed", str(recipe), "--grid", str(rows), "--output", str(tmp_path / "out")]
    failed = CliRunner().invoke(script("ablations").app, command)
    assert failed.exit_code == 1 and failed.stderr.startswith("error: row odd: ")
    assert "ended with status 1: error: " in failed.stderr and failed.stderr.count("\n") == 1


def test_a_run_that_is_timed_ends_with_the_command(script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    benchmark, number = script("benchmark"), tmp_path / "number"
    program = f"import os, pathlib, time; pathlib.Path({str(number)!r}).write_text(str(os.getpid())); time.sleep(60)"

    def stop() -> None:
        while not number.exists() or not number.read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(SystemExit) as status:
        benchmark.measured([sys.executable, "-c", program])
    thread.join()
    assert status.value.code == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(number.read_text()), 0)


def test_speeds_count_only_if_all_rows_have_one(
    grid: Any, script: Callable[[str], ModuleType], recipe: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ablations, runs = script("ablations"), plan(grid, recipe, "first,wide", seeds="1,2")
    output, launch = recipe.parent / "out", grid.Launch("cpu")
    results = grid.Results(output / "speeds.jsonl")
    for row, speed in [("first", 1.0), ("first", 9.0), ("first", 2.0), ("wide", 4.0)]:
        caplog.clear()
        assert ablations.speeds_for_comparison(output, runs, launch) == {}
        assert caplog.messages == [message for message in caplog.messages if ": no speed of " in message]
        assert len(caplog.messages) == results.path.exists(), "said once there are some"
        run = next(run for run in runs if run.row.row == row)
        results.add(ablations.speed_key(run, launch) | {"target_tokens_per_second": speed})
    assert caplog.messages[0].startswith(f"{output / 'speeds.jsonl'}: no speed of wide with these settings")
    assert ablations.speeds_for_comparison(output, runs, launch) == {"first": 2.0, "wide": 4.0}
    same = ["decoding.beam_size=2", "training.max_steps=40", "training.schedule=constant", "training.validate_every=7"]
    assert len(ablations.speeds_for_comparison(output, plan(grid, recipe, "first,wide", *same), launch)) == 2
    other = plan(grid, recipe, "first,wide", "model.norm=pre")
    assert ablations.speeds_for_comparison(output, other, launch) == {}
    assert ablations.speeds_for_comparison(output, runs, grid.Launch("cuda")) == {}


def test_tables_show_means_ranges_and_differences(grid: Any, script: Callable[[str], ModuleType], recipe: Path) -> None:
    found = {
        "first": [result(9.0, 20.0, 10.0), result(10.0, 22.0, 12.0)],
        "wide": [result(8.0, 23.0, 9.0), result(8.5, 24.0, 10.0)],
    }
    lines = script("ablations").trained(found).split("\n")
    assert lines[2].split() == ["first", "1.23", "9.50", "(9.00-10.00)", "21.00", "(20.00-22.00)", "50.00",
                                "(50.00-50.00)", "11.00", "(10.00-12.00)"]  # fmt: skip
    assert "23.50 (23.00-24.00)  +2.50" in lines[3] and lines[3].endswith("9.50 (9.00-10.00)  -1.50")
    assert lines[-1].endswith("SIGNATURE")
    table3 = script("reproduce_table3").scored(plan(grid, recipe, "first,wide", seeds="1,2"), found).split("\n")
    assert len(table3) == 2 + 2 + 3, "one line a row, whatever the seeds"
    assert table3[3].split()[:3] == ["wide", "96", "1.23"], "only what differs from the first row"
    assert "8.25 (8.00-8.50)" in table3[3] and "SIGNATURE" in table3[-1]


def test_searches_of_a_trained_run_are_measured_once(
    make_config: Callable[..., schema.Config],
    script: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    corpus: Path,
) -> None:
    run = Path(make_config().run_dir)
    train.train(make_config("training.checkpoint_every=2", "training.ema_decay=0.9"), "cpu")
    ablations = script("ablations")
    files = {path.name for path in run.iterdir()}
    command = ["search", str(run), "--beams", "1,2", "--alphas", "0.6,1"]
    command += ["--test", str(corpus / "train.en"), str(corpus / "train.de")]
    shown = CliRunner().invoke(ablations.app, command).stdout
    names = [line.split("  ")[0] for line in shown.split("\n\n")[0].split("\n")[2:]]
    assert names == ["last", "last 5", "last 10", "EMA"]  # and not the best 5 of two validations
    assert {path.name for path in run.iterdir()} == files | {"search.jsonl", ".nmt-lock"}
    lines = rows_of(run / "search.jsonl")
    assert len(lines) == 4 + 3 + 1  # one for a beam of 1, which has no use for α
    final = next(row for row in rows_of(run / "metrics.jsonl") if row.get("step") == 20 and "bleu" in row)
    assert lines[0]["bleu"] == approx(final["bleu"])
    monkeypatch.setattr(ablations.scoring, "scores", None)
    assert CliRunner().invoke(ablations.app, command).stdout == shown


def test_files_that_are_the_last_and_the_best_are_searched_once(
    make_config: Callable[..., schema.Config], script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for step in range(1, 6):
        made = make_checkpoint(make_config(), step, step=step, best_metric="validation_loss", validation_loss=1 / step)
        model_file.save(model_file.checkpoint_path(run, step), made)
    assert [weights.name for weights in script("ablations").weights_of(run)] == ["last", "last 5, best 5"]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("empty", "empty: the run has no checkpoint yet"),
        ("nowhere", "nowhere: no such folder: give the folder of a run"),
        ("config.yaml", "config.yaml: not a folder: give the folder of a run"),
    ],
)
def test_a_run_that_cannot_be_searched(
    script: Callable[[str], ModuleType], recipe: Path, run: str, message: str
) -> None:
    folder = recipe.parent
    (folder / "empty").mkdir()
    for place in (folder, folder / "empty"):
        (place / "config.yaml").write_text(recipe.read_text(encoding="utf-8"), encoding="utf-8")
    done = CliRunner().invoke(script("ablations").app, ["search", str(folder / run)])
    assert done.exit_code == 1 and message in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beams", "4,0"], "--beams: '0': give whole numbers of at least 1"),
        (["--beams", "2.5"], "--beams: '2.5': give whole numbers of at least 1"),
        (["--alphas", "0.6,nan"], "--alphas: 'nan': give numbers of at least 0"),
        (["--alphas", "-1"], "--alphas: '-1': give numbers of at least 0"),
        (["--alphas", "inf"], "--alphas: 'inf': give numbers of at least 0"),
        (["--alphas", "0.6,"], "--alphas: '': give numbers of at least 0"),
    ],
)
def test_beams_and_alphas_are_checked_before_anything_is_searched(
    script: Callable[[str], ModuleType], tmp_path: Path, options: list[str], message: str
) -> None:
    """Before the run is looked at, even."""
    done = CliRunner().invoke(script("ablations").app, ["search", str(tmp_path / "nowhere"), *options])
    assert done.exit_code == 1 and message in done.stderr
