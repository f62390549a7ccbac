"""The course: its solutions are what nmt computes, its commands run, and its position encoding works as described."""

import dataclasses
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from pydoc import locate

import pytest
import torch
from helpers.page_commands import run_page
from helpers.scripts import load
from typer.testing import CliRunner

from nmt.cli import app
from nmt.commands import demo_corpus
from nmt.config import schema
from nmt.config.schema import DecodingConfig, RecurrentConfig, TrainingConfig, TransformerConfig
from nmt.decoding.search.options import length_penalties
from nmt.models.build import build_on_meta
from nmt.models.transformer.positions import sinusoids
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.schedule import learning_rate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
GRID = ROOT / "configs" / "grids" / "demo-ablations.yaml"
DEMO = ROOT / "configs" / "demo.yaml"
# A corpus of 1,500 pairs, and models that train in a second.
TINY = ("vocabulary.size=350", "training.max_steps=10", "training.checkpoint_every=2", "training.validate_every=5")
TINY += ("training.warmup_steps=2", "training.batch_tokens=512")


@cache
def solutions() -> dict[int, str]:
    """The text of each solution by the number of its exercise."""
    text = PAGE.partition("## Solutions\n")[2]
    found = re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return {int(number): " ".join(solution.split()) for number, solution in found}


def assert_says(exercise: int, *values: object) -> None:
    """The solution contains these numbers or words."""
    missing = [
        str(value)
        for value in values
        if not re.search(rf"(?<![\w.]){re.escape(str(value))}(?!\.?\d)", solutions()[exercise])
    ]
    assert not missing, f"exercise {exercise}: {missing} not in {solutions()[exercise]!r}"


def parameters(*changes: str) -> int:
    config = schema.load(DEMO, list(changes))
    model = build_on_meta(config.model, config.vocabulary.size, config.vocabulary.size, padding=0)
    return model.parameter_counts()["total"]


# ------------------------------------------------------------------------ calculations by hand


def test_there_is_a_solution_for_every_exercise() -> None:
    exercises = re.findall(r"^(\d+)\. ", PAGE.partition("## Solutions\n")[0], re.MULTILINE)
    assert [int(number) for number in exercises] == list(solutions()) == list(range(1, len(exercises) + 1))


def test_the_functions_of_the_paper_exist() -> None:
    table = PAGE.partition("## The paper and the code")[2].partition("\n1. ")[0]
    functions = re.findall(r"`(\w+(?:\.\w+)+)`", table)
    assert len(functions) > 12 and not [name for name in functions if not locate(f"nmt.{name}")]


def test_parameters() -> None:
    d, inner, subwords = 128, 256, 1500
    attention = 4 * (d * d + d)
    feed_forward, norm = d * inner + inner + inner * d + d, 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    for layers in (2, 3):
        total = subwords * d + layers * (encoder_layer + decoder_layer)
        assert total == parameters(f"model.layers={layers}")
        assert_says(2, f"{total:,}")
    assert_says(2, f"{encoder_layer:,}", f"{decoder_layer:,}", f"{2 * 1024 * d:,}")
    assert parameters("model.layers=2", "model.positions=learned") == parameters("model.layers=2") + 2 * 1024 * d
    different = set()
    for run in load("grid").plan(GRID, DEMO, (), Path("runs"), None, None):
        model = build_on_meta(run.config.model, subwords, subwords, padding=0)
        if model.parameter_counts()["total"] != parameters("model.layers=2"):
            different.add(run.row.row)
    assert different == {"learned-positions", "layers-1", "pre-norm", "pre-norm-no-warmup"}
    assert parameters("model.layers=2", "model.norm=pre") == parameters("model.layers=2") + 2 * norm
    assert_says(2, 2 * norm, f"{parameters('model.layers=1'):,}")
    printed = load("grid").count(load("grid").plan(GRID, DEMO, (), Path("runs"), None, None))
    assert [line.split()[-1] for line in printed.splitlines() if line.startswith("base ")] == ["854,528"]


def test_positions_and_attention() -> None:
    angles = [1 / 10_000 ** (2 * i / 4) for i in (0, 1)]
    by_hand = [math.sin(angles[0]), math.cos(angles[0]), math.sin(angles[1]), math.cos(angles[1])]
    assert sinusoids(2, 4, "interleaved")[1].tolist() == pytest.approx(by_hand, abs=1e-7)
    assert_says(3, *(f"{number:.4f}" for number in by_hand))
    query, keys = torch.tensor([2.0, 0, 0, 0]), torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0]])
    for visible in (3, 2):
        exponentials = [math.exp(float(query @ key) / math.sqrt(4)) for key in keys[:visible]]
        weights = torch.tensor(exponentials) / sum(exponentials)
        mask = torch.arange(3) < visible
        fused = torch.nn.functional.scaled_dot_product_attention(query[None], keys, torch.eye(3), attn_mask=mask[None])
        torch.testing.assert_close(fused[0, :visible], weights)
        assert_says(4, *(f"{weight:.3f}" for weight in weights.tolist()))


def test_learning_rates() -> None:
    paper = TrainingConfig()
    assert (paper.schedule, paper.warmup_steps) == ("paper", 4000)
    for step, written in ((100, "0.0000175"), (4000, "0.000699"), (16_000, "0.000349")):
        by_hand = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert learning_rate(step, paper, 512) == pytest.approx(by_hand) == pytest.approx(float(written), rel=2e-3)
        assert_says(5, written)
    config = schema.load(DEMO).training
    for warmup, written in ((100, "0.004"), (1, "0.0004")):
        short = dataclasses.replace(config, warmup_steps=warmup)
        assert short.schedule == "inverse_sqrt" and learning_rate(100, short, 128) == pytest.approx(float(written))
        assert_says(5, written)


def test_rows_without_warmup_have_the_mean_rate_of_the_first() -> None:
    """Otherwise they would show the effect of lower rates."""
    means = {}
    for run in load("grid").plan(GRID, DEMO, (), Path("runs"), None, None):
        steps = range(1, run.config.training.max_steps + 1)
        means[run.row.row] = sum(learning_rate(step, run.config.training, 128) for step in steps) / len(steps)
    assert max(means.values()) < 1.1 * min(means.values()), means


def test_label_smoothing() -> None:
    logits = torch.tensor([0.7, 0.1, 0.1, 0.1]).log()
    for smoothing in (0.0, 0.1):
        correct = 1 - smoothing + smoothing / 4
        by_hand = -correct * math.log(0.7) - 3 * smoothing / 4 * math.log(0.1)
        loss, _ = smoothed_cross_entropy(torch.ones(1, 1), logits[:, None], torch.tensor([0]), smoothing)
        assert float(loss) == pytest.approx(by_hand, abs=1e-5)
        assert_says(6, f"{by_hand:.3f}")
    for subwords in (4, 1500):
        q = torch.full((subwords,), 0.1 / subwords)
        q[0] += 0.9
        lowest, _ = smoothed_cross_entropy(torch.ones(1, 1), q.log()[:, None], torch.tensor([0]), 0.1)
        assert float(lowest) == pytest.approx(float(-(q * q.log()).sum()), abs=1e-5)
        assert_says(6, f"{lowest:.3f}", f"{q[0]:.3f}", f"{-math.log(q[0]):.3f}")


def test_length_penalty() -> None:
    for alpha in (0.6, 1.0):
        penalties = length_penalties(8, DecodingConfig(length_penalty=alpha))
        scores = [-2.0 / penalties[4], -2.6 / penalties[8]]
        assert (scores[0] > scores[1]) == (alpha == 0.6)
        assert_says(7, *(f"{score:.2f}" for score in scores))
    equal = math.log(2.6 / 2.0) / math.log(13 / 9)
    penalties = length_penalties(8, DecodingConfig(length_penalty=equal))
    assert -2.0 / penalties[4] == pytest.approx(-2.6 / penalties[8])
    assert_says(7, f"{equal:.2f}")


def test_what_a_recurrent_decoder_reads() -> None:
    config = schema.load(ROOT / "configs" / "demo-recurrent.yaml").model
    assert isinstance(config, RecurrentConfig) and config.source_width == 128
    model = build_on_meta(config, 1500, 1500, padding=0)
    assert dict(model.named_parameters())["decoder.first.weight"].shape[1] == 128
    assert_says(10, 128)


# ------------------------------------------------------------------------ commands


def test_each_row_of_the_grid_changes_the_first() -> None:
    runs = load("grid").plan(GRID, DEMO, (), Path("runs"), None, None)
    assert isinstance(runs[0].config.model, TransformerConfig) and runs[0].row.row == "base"
    named = re.findall(r"`([a-z]+[a-z0-9-]*)`", solutions()[13])
    assert set(named) == {run.row.row for run in runs} and len(runs) == 8, "a row that changes nothing is left out"


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for folder in ("configs", "scripts"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    demo_corpus.write(Path("data/demo"), {"train": 1500, "validation": 20, "test": 20})
    trained = CliRunner().invoke(app.app, ["train", "configs/demo.yaml", *TINY])
    assert trained.exit_code == 0, trained.stderr
    averaged = CliRunner().invoke(
        app.app, ["average-checkpoints", "runs/demo", "--last", "5", "--output", "runs/demo/averaged.safetensors"]
    )
    assert averaged.exit_code == 0, averaged.stderr
    longest = "decoding.max_length=20"  # of an output, because models of ten steps do not stop
    added = {"train": [*TINY, longest], "inspect": [longest], "evaluate": [longest], "translate": [longest]}
    skipped = ("scripts/test.sh", "python scripts/make", "scripts/grid.py")
    run_page("docs/course.md", added, skipped)
    assert all(Path("runs", file).exists() for file in ("inside/index.html", "beam.de", "greedy.de"))
    nodes = json.loads(Path("runs/inside/inspection.json").read_text(encoding="utf-8"))["beam"]["nodes"]
    assert max(Counter(node["step"] for node in nodes).values()) == 2 * 4  # exercise 11
    created = {path.name for path in tmp_path.iterdir()}
    assert created == {"configs", "scripts", "data", "runs"}, "git ignores what the commands write"


# ------------------------------------------------------------------------ the position encoding


def edits() -> list[tuple[str, str, str]]:
    """The file, the old and the new lines of each place that the page changes."""
    places = []
    for diff in re.findall(r"```diff\n(.*?)```", PAGE, re.DOTALL):
        for part in diff.split("--- ")[1:]:
            file, _, changes = part.partition("\n")
            for place in changes.split("@@\n"):
                lines = place.splitlines(keepends=True)
                old, new = ("".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
                places.append((file, old, new))
    return places


def test_the_position_encoding_is_a_model_setting_after_the_steps(tmp_path: Path) -> None:
    """Applied to a copy, the tests of the model pass with it, and `nmt train` and `nmt translate` take it. The new test
    fails if the encodings are rotary."""
    for folder in ("nmt", "tests/helpers", "tests/models/transformer", "configs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    assert len(edits()) > 8
    for file, old, new in edits():
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file}: once in the file: {old}"
        (tmp_path / file).write_text(text.replace(old, new), encoding="utf-8")
        assert max(map(len, new.splitlines())) <= 120, file
    program = f"""
from pathlib import Path
import nmt, pytest
from typer.testing import CliRunner
from nmt.cli import app
from helpers.runs import config_text, write_corpus
assert nmt.__file__.startswith({str(tmp_path)!r})
for name, count in (("train", 300), ("validation", 20)):
    write_corpus(Path("corpus"), name, count, seed=count)
Path("config.yaml").write_text(config_text(Path("corpus"), Path("run")))
for words in (["train", "config.yaml", "model.positions=every_layer"], ["translate", "run", "corpus/validation.en"]):
    done = CliRunner().invoke(app.app, words)
    assert done.exit_code == 0, done.stderr
"""
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{tmp_path / 'tests'}", "OMP_NUM_THREADS": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, check=False)

    done = run("-c", program)
    assert done.returncode == 0, done.stdout + done.stderr
    files = ("test_model.py", "test_attention_weights.py")
    tests = ["-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-k", "every_layer"]
    tests += [f"tests/models/transformer/{file}" for file in files]
    passed = run(*tests)
    assert passed.returncode == 0 and re.search(r"([2-9]|\d\d) passed", passed.stdout), passed.stdout
    model = tmp_path / "nmt" / "models" / "transformer" / "model.py"
    rotary, changed = re.subn(
        r"(case \"every_layer\":\n +rotation = )Rotation\(.*\)",
        r"\1Rotation.from_encodings(encoding)",
        model.read_text(encoding="utf-8"),
    )
    assert changed == 1
    model.write_text(rotary, encoding="utf-8")
    failed = run(*tests)
    assert re.search(r"FAILED \S+::test_every_layer_adds_sinusoids", failed.stdout) and "1 failed" in failed.stdout
