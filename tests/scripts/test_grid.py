"""Grids of runs, Table 3 of the paper and ablations: what rows are, what is trained once, what is scored once."""

import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from helpers.runs import config_text, logged_rows, rows_of
from helpers.scripts import SCRIPTS, load
from typer.testing import CliRunner

from nmt.checkpoints import model_file
from nmt.cli import app as nmt_app
from nmt.config import schema, writer
from nmt.errors import NmtError

ROOT = Path(__file__).parents[2]
GRIDS = ROOT / "configs" / "grids"
TABLE_3 = (str(GRIDS / "table3.yaml"), str(ROOT / "configs" / "wmt14-en-de-base.yaml"))

# Table 3, typed in from the paper: N, d_model, d_ff, h, d_k, d_v, dropout, label smoothing, steps, and in millions.
BASE = (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000)
PAPERS_TABLE = {  # 0: the table gives no number
    "base": (*BASE, 65), "A1": (6, 512, 2048, 1, 512, 512, 0.1, 0.1, 100_000, 0),
    "A2": (6, 512, 2048, 4, 128, 128, 0.1, 0.1, 100_000, 0), "A3": (6, 512, 2048, 16, 32, 32, 0.1, 0.1, 100_000, 0),
    "A4": (6, 512, 2048, 32, 16, 16, 0.1, 0.1, 100_000, 0), "B1": (6, 512, 2048, 8, 16, 64, 0.1, 0.1, 100_000, 58),
    "B2": (6, 512, 2048, 8, 32, 64, 0.1, 0.1, 100_000, 60), "C1": (2, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 36),
    "C2": (4, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 50), "C3": (8, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 80),
    "C4": (6, 256, 2048, 8, 32, 32, 0.1, 0.1, 100_000, 28), "C5": (6, 1024, 2048, 8, 128, 128, 0.1, 0.1, 100_000, 168),
    "C6": (6, 512, 1024, 8, 64, 64, 0.1, 0.1, 100_000, 53), "C7": (6, 512, 4096, 8, 64, 64, 0.1, 0.1, 100_000, 90),
    "D1": (6, 512, 2048, 8, 64, 64, 0.0, 0.1, 100_000, 0), "D2": (6, 512, 2048, 8, 64, 64, 0.2, 0.1, 100_000, 0),
    "D3": (6, 512, 2048, 8, 64, 64, 0.1, 0.0, 100_000, 0), "D4": (6, 512, 2048, 8, 64, 64, 0.1, 0.2, 100_000, 0),
    "E": (*BASE, 0), "big": (6, 1024, 4096, 16, 64, 64, 0.3, 0.1, 300_000, 213),
}  # fmt: skip


@pytest.fixture(scope="module")
def grid() -> ModuleType:
    return load("grid")


@pytest.fixture
def recipe(corpus: Path, tmp_path: Path) -> Path:
    """The file of a tiny run's config."""
    path = tmp_path / "recipe.yaml"
    path.write_text(config_text(corpus, tmp_path / "unused"), encoding="utf-8")
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A grid of three rows."""
    path = tmp_path / "rows.yaml"
    path.write_text(
        "base: [model.heads=4]\nrows:\n- {row: first, paper: {bleu: 20, perplexity: 5.5}}\n"
        "- {row: wide, settings: [model.feed_forward=96]}\n- {row: long, settings: [model.norm=pre], steps: 2}\n"
    )
    return path


def plan(grid: Any, file: Path, recipe: Path, *given: str, rows: str | None = None, seeds: str | None = None) -> Any:
    return grid.plan(file, recipe, given, recipe.parent / "out", rows, seeds)


def test_a_row_is_the_config_the_base_the_row_and_the_command_line(grid: ModuleType, rows: Path, recipe: Path) -> None:
    runs = plan(grid, rows, recipe, "training.max_steps=8", "model.dropout=0.2", seeds="3,5")
    assert [run.folder.name for run in runs] == [f"{row}-seed{n}" for row in ("first", "wide", "long") for n in (3, 5)]
    first, wide, long = (run.config for run in runs[::2])
    assert [one.model.feed_forward for one in (first, wide, long)] == [64, 96, 64]
    assert [one.training.max_steps for one in (first, wide, long)] == [8, 8, 16]
    assert {(one.model.heads, one.model.dropout, one.seed) for one in (first, wide, long)} == {(4, 0.2, 3)}
    [over] = plan(grid, rows, recipe, "model.feed_forward=48", rows="wide")
    assert over.config.model.feed_forward == 48, "the command line comes last"
    runs = plan(grid, rows, recipe, "model.feed_forward=64", rows="wide,first", seeds="1,2")
    assert [run.folder.name for run in runs] == ["first-seed1", "first-seed2"], "equal settings are trained once"


@pytest.mark.parametrize(
    ("content", "names", "seeds", "words"),
    [
        ("rows: [{row: a}, {row: b}]", "a,c", None, "--rows: no row 'c': there are a, b"),
        ("rows: [{row: a, settings: [model.layer=2]}]", None, None, "row a: .* did you mean model.layers?"),
        ("rows: [{row: a}, {row: a, steps: 2}]", None, None, "several rows have the name a"),
        ("row: [{row: a}]", None, None, r"rows\.yaml: not a grid: give rows: "),
    ],
)
def test_what_is_wrong_is_said_before_any_work(
    grid: ModuleType, rows: Path, recipe: Path, content: str, names: str | None, seeds: str | None, words: str
) -> None:
    rows.write_text(content, encoding="utf-8")
    with pytest.raises(NmtError, match=words):
        plan(grid, rows, recipe, rows=names, seeds=seeds)


@pytest.mark.parametrize(
    "name", ["ablations", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("architectures", "small-data"))]
)
def test_each_grid_of_the_project_suits_its_recipe_and_changes_it(grid: ModuleType, name: str) -> None:
    file = GRIDS / f"{name}.yaml"
    recipe = re.search(r"configs/[\w-]+\.yaml", file.read_text(encoding="utf-8").replace(f"configs/grids/{name}", ""))
    assert recipe is not None
    runs = plan(grid, file, ROOT / recipe[0])
    whole = schema.load(ROOT / recipe[0])
    changed = {
        run.row.row: writer.differences(whole, run.config).keys() - {"run_dir", "data.store_dir"} for run in runs
    }
    assert len(runs) > 2 and sum(not rows for rows in changed.values()) == 1, "the first row is the recipe itself"
    assert name != "ablations" or max(map(len, changed.values())) == 1


def test_the_rows_of_table_3_are_the_papers(grid: ModuleType) -> None:
    runs = plan(grid, *map(Path, TABLE_3))
    assert [run.row.row for run in runs] == [*PAPERS_TABLE]
    for run, (*papers, millions) in zip(runs, PAPERS_TABLE.values(), strict=True):
        model, training = run.config.model, run.config.training
        assert [
            model.layers, model.d_model, model.feed_forward, model.heads,
            *model.head_widths, model.dropout, training.label_smoothing, training.max_steps,
        ] == papers, run.row.row  # fmt: skip
        assert run.row.paper.get("parameters", 0) == millions
        assert model.positions == ("learned" if run.row.row == "E" else "interleaved")


def invoke(grid: ModuleType, *arguments: str) -> Any:
    app = typer.Typer()
    app.command()(grid.main)
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.thorough
def test_the_count_of_parameters_is_documented_and_one_vocabulary_explains_the_papers(grid: ModuleType) -> None:
    shown = invoke(grid, *TABLE_3, "--count").stdout
    documented = (ROOT / "docs" / "reproducing.md").read_text(encoding="utf-8")
    assert f"```text\n{shown}```" in documented, "docs/reproducing.md shows what is printed"
    lines = {
        line.split()[0]: line.split()
        for line in invoke(grid, *TABLE_3, "--count", "vocabulary.size=41000").stdout.split("\n")[2:]
        if line
    }
    for name, (*_, millions) in PAPERS_TABLE.items():
        if millions and name != "big":
            assert lines[name][-2] == str(millions)
            assert abs(float(lines[name][-3]) - millions) <= 0.5, name
    assert round(float(lines["base"][-3]), 2) == 65.13


@pytest.fixture
def ran(grid: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of nmt that a grid runs, here in this process."""
    commands: list[str] = []

    def run(*arguments: str | Path) -> str:
        commands.append(f"{arguments[0]} {Path(arguments[1]).name}")
        done = CliRunner().invoke(nmt_app.app, list(map(str, arguments)))
        if done.exit_code:
            raise NmtError(f"nmt {arguments[0]} failed")
        return done.stdout

    monkeypatch.setattr(grid, "nmt", run)
    return commands


def test_rows_are_trained_scored_compared_and_not_done_again(
    grid: ModuleType, rows: Path, recipe: Path, corpus: Path, tmp_path: Path, ran: list[str]
) -> None:
    command = [str(rows), str(recipe), "--rows", "first,wide", "--output", str(tmp_path / "out"), "--device", "cpu"]
    command += ["--test", str(corpus / "validation.en"), str(corpus / "validation.de")]
    command += ["--average", "2", "training.max_steps=10"]
    done = invoke(grid, *command)
    assert done.exit_code == 0, done.stderr
    results = {one["row"]: one for one in rows_of(tmp_path / "out" / "results.jsonl")}
    assert [*results] == ["first", "wide"] and (tmp_path / "out" / "report.html").exists()
    first = results["first"]
    assert first["validation"] == first["test"] and first["step"] == 10
    weights = model_file.load(tmp_path / "out" / "first-seed1" / "averaged-2.safetensors").weights
    assert first["parameters"] == sum(weight.numel() for weight in weights.values())
    line = done.stdout.split("\n")[2]
    assert line.split()[0] == "first" and line.endswith(" 5.5    20")
    assert line.split()[3] == f"{math.exp(first['curve'][-1]['validation_loss']):.2f}"

    os.utime(tmp_path / "out" / "wide-seed1" / "averaged-2-test.json", ns=(0, 0))
    ran.clear()
    assert invoke(grid, *command).stdout == done.stdout
    trained = "train recipe.yaml"
    scored = "evaluate averaged-2.safetensors"
    assert ran == [trained, trained, scored, "report first-seed1"], "what is older"
    assert rows_of(tmp_path / "out" / "results.jsonl") == [*results.values()]
    ran.clear()
    assert invoke(grid, *command, "decoding.beam_size=3").exit_code == 1 and not any("evaluate" in one for one in ran)


def test_the_table_has_means_ranges_and_differences_to_the_first_row(grid: ModuleType) -> None:
    common = {"parameters": 2e6, "target_tokens": 900, "seconds": 3, "curve": [{"validation_loss": 0}]}
    signed = {"signature": "s", "compared": "in NFC"}
    results = [
        {"row": row, **common, "validation": {"BLEU": {"value": bleu, **signed}, "chrF2": {"value": 50}}}
        for row, bleu in (("a", 20), ("a", 22), ("b", 30), ("b", 31))
    ]
    _, _, first, second, *_, last = grid.compare([], results).split("\n")
    assert last == "BLEU: s; texts compared in NFC"
    assert first.split()[:5] == ["a", "2.00", "300", "1.00", "(1.00-1.00)"]
    assert first.split()[5:] == ["21.00", "(20.00-22.00)", "50.00", "(50.00-50.00)"]
    assert second.split()[5:8] == ["30.50", "(30.00-31.00)", "+9.50"]


def test_a_row_that_fails_does_not_end_the_grid_and_what_cannot_be_scored_is_not_trained(
    grid: ModuleType, rows: Path, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    def fail(*arguments: str | Path) -> str:
        ran.append(arguments[0])
        raise NmtError("it fails")

    monkeypatch.setattr(grid, "nmt", fail)
    command = [str(rows), str(recipe), "--output", str(tmp_path / "out")]
    for option in (["--average", "11"], ["--test", str(tmp_path / "no.en"), str(tmp_path / "no.de")]):
        assert invoke(grid, *command, *option).exit_code == 1 and not ran
    done = invoke(grid, *command)
    assert done.exit_code == 1 and ran == ["train", "train", "train"]
    assert "no result of first-seed1, wide-seed1, long-seed1" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_signal_is_passed_on_and_the_run_is_saved(
    rows: Path, recipe: Path, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    """Also where the program is killed: the run's standard error, which is read to its end, closes when it ends."""
    command = [sys.executable, SCRIPTS / "grid.py", rows, recipe, "--rows", "first", "--output", tmp_path / "out"]
    slow = "training.max_steps=3000"
    with subprocess.Popen([*command, slow, "--device", "cpu"], stderr=subprocess.PIPE, text=True) as process:
        run = tmp_path / "out" / "first-seed1"
        while not logged_rows(run) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert [*(run / "state").iterdir()], "it was saved"
