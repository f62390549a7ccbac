"""The files in configs/: they load, their headers show commands that work, and the paper's have its numbers."""

import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest
import torch
import typer
from helpers import scripts
from pytest import approx

from nmt.cli import app
from nmt.config import schema, writer
from nmt.config.schema import Config
from nmt.interop.bergamot import export as bergamot
from nmt.models.transformer.model import Transformer

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
WMT = [path for path in CONFIGS if path.name.startswith("wmt14-")]


def name_of(path: Path) -> str:
    return path.stem


def load(name: str) -> Config:
    return schema.load(ROOT / "configs" / f"{name}.yaml")


def header(path: Path) -> str:
    """The comment at the top, without its number signs."""
    lines = path.read_text(encoding="utf-8").split("\n")
    comment = lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in comment)


def commands(path: Path) -> list[list[str]]:
    """The commands in the header: its lines indented by two blanks, joined where they end in a backslash."""
    joined = re.sub(r"\\\n *", "", header(path))
    return [shlex.split(line) for line in re.findall("^  ([a-z]+ .*)", joined, re.MULTILINE)]


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_a_config_loads_and_resolves_to_itself(path: Path) -> None:
    """And its header says what it is for and what it costs."""
    assert re.findall(r"^(For|Corpus|Costs): +\w", header(path), re.MULTILINE) == ["For", "Corpus", "Costs"]
    loaded = schema.load(path)
    assert schema.parse(writer.to_yaml(loaded), "resolved") == loaded
    assert loaded.run_dir == f"runs/{path.stem}"
    assert loaded.data.validation is not None
    training = loaded.training  # whose checkpoints are evenly spaced, so that they can be averaged
    assert training.validate_every % training.checkpoint_every == 0
    assert training.keep_last * training.checkpoint_every <= training.max_steps


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_the_commands_in_the_header_are_right(path: Path) -> None:
    program = typer.main.get_command(app.app)
    trained = []
    for name, *arguments in commands(path):
        if name == "python":
            assert (ROOT / arguments[0]).is_file()
        elif name == "nmt":
            command, *rest = arguments
            given = program.commands[command].make_context(command, rest).params  # type: ignore[attr-defined]
            if command == "train":
                assert ROOT / given["config"] == path
                trained.append(schema.load(path, given["overrides"] or ()))
            else:
                of_run = given.get("sources") or given.get("models") or [given["model"]]
                assert str(of_run[0]).startswith(f"runs/{path.stem}")
            if command == "average-checkpoints":
                assert given["last"] <= schema.load(path).training.keep_last
        else:
            assert name == "sacrebleu"
    assert trained[0] == schema.load(path)
    assert len(trained) > 1, "the header shows overrides too"
    assert all(other != trained[0] for other in trained[1:])


# --------------------------------------------------------------------------- the paper's


@pytest.mark.parametrize("path", WMT, ids=name_of)
def test_what_all_models_of_the_paper_share(path: Path) -> None:
    run = schema.load(path)
    assert run.model.layers == 6
    assert run.model.d_model // run.model.heads == 64  # d_k = d_v
    assert run.model.feed_forward == 4 * run.model.d_model
    assert (run.model.norm, run.model.positions, run.model.activation) == ("post", "interleaved", "relu")
    assert run.vocabulary.shared and run.model.tie == "all"
    assert run.training.batch_tokens == 25_000
    assert (run.training.schedule, run.training.warmup_steps) == ("paper", 4000)
    assert (run.training.adam_betas, run.training.adam_epsilon) == ((0.9, 0.98), 1e-9)
    assert (run.training.weight_decay, run.training.clip_norm) == (0.0, None)
    assert run.training.label_smoothing == 0.1
    assert (run.model.attention_dropout, run.model.activation_dropout) == (0.0, 0.0)
    assert (run.decoding.beam_size, run.decoding.length_penalty, run.decoding.max_extra_tokens) == (4, 0.6, 50)


@pytest.mark.parametrize(
    ("name", "d_model", "dropout", "steps", "averaged", "vocabulary"),
    [
        ("wmt14-en-de-base", 512, 0.1, 100_000, 5, 37_000),
        ("wmt14-en-de-big", 1024, 0.3, 300_000, 20, 37_000),
        ("wmt14-en-fr-big", 1024, 0.1, 300_000, 20, 32_000),
    ],
)
def test_table_3_and_sections_5_and_6(
    name: str, d_model: int, dropout: float, steps: int, averaged: int, vocabulary: int
) -> None:
    run = load(name)
    assert (run.model.d_model, run.model.dropout) == (d_model, dropout)
    assert (run.training.max_steps, run.training.keep_last) == (steps, averaged)
    assert run.vocabulary.size == vocabulary


def parameters(run: Config) -> int:
    with torch.device("meta"):
        model = Transformer(run.model, run.vocabulary.size, run.vocabulary.size, padding=0)
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_models_are_as_large_as_the_papers() -> None:
    # Table 3 says 65 and 213 million, of a vocabulary of "about 37000" subwords, each of which takes d_model
    # parameters: 3,000 more or fewer of them are 2.4% of the base model and 1.4% of the big one.
    assert parameters(load("wmt14-en-de-base")) == approx(65e6, rel=0.03)
    assert parameters(load("wmt14-en-de-big")) == approx(213e6, rel=0.015)


# --------------------------------------------------------------------------- the student's


def test_a_student_is_as_large_as_its_header_says_and_fits_its_engine() -> None:
    path = ROOT / "configs" / "student.yaml"
    program = typer.main.get_command(app.app)
    runs, formats = dict[str, Config](), dict[str, str]()
    for _, command, *rest in commands(path):
        given = program.commands[command].make_context(command, rest).params  # type: ignore[attr-defined]
        if command == "train":
            run = schema.load(path, given["overrides"] or ())
            runs[run.run_dir] = run
        elif command == "export":
            formats[str(given["model"])] = given["format"]
    assert formats == dict(zip(runs, ["bergamot", "bergamot", "ctranslate2"], strict=True))
    sizes = [float(size) for size in re.findall(r"(\d+) MB", header(path))]  # 8-bit numbers: a byte for a parameter
    assert [parameters(run) / 1e6 for run in runs.values()] == approx(sizes, abs=0.5)
    for run, target in zip(runs.values(), formats.values(), strict=True):
        assert (run.model.encoder_layers, run.model.decoder_layers, run.model.dropout) == (6, 2, 0.0)
        if target == "bergamot":
            bergamot.check(run)
    assert runs["runs/student"].vocabulary.size == 32_000


def test_the_students_settings_in_comments_can_be_uncommented() -> None:
    text = (ROOT / "configs" / "student.yaml").read_text(encoding="utf-8")
    text = re.sub("^  clean: {}.*\n", "", text, flags=re.MULTILINE)
    text = re.sub("^( +)# (clean: |- )", r"\1\2", text, flags=re.MULTILINE)
    text = text.replace("mono.sw}", "mono.sw, weight: 4, scores: {kiwi: data/student/mono.kiwi}}")
    run = schema.parse(text, "uncommented")
    assert [corpus.weight for corpus in run.data.train] == [4, 1]
    assert run.data.clean and run.data.clean.same_target == 1 and run.data.clean.scores


# --------------------------------------------------------------------------- configs/README.md


@pytest.fixture
def script() -> ModuleType:
    return scripts.load("make_settings_reference")


def test_the_reference_is_current(script: ModuleType) -> None:
    current = script.PAGE.read_text(encoding="utf-8") == script.page()
    assert current, "run python scripts/make_settings_reference.py"


def test_the_examples_in_the_reference_work(script: ModuleType) -> None:
    (example,) = re.findall("```yaml\n(.*?)```", script.page(), re.DOTALL)
    least = schema.parse(example, "example")
    assert least == Config(run_dir="runs/mine", data=least.data)
    (shell,) = re.findall("```sh\n(.*?)```", script.page(), re.DOTALL)
    _, _, _, *overrides = shlex.split(shell.replace("\\\n", ""))
    assert len(schema.load(ROOT / "configs" / "demo.yaml", overrides).data.train) == 2
    entries = re.findall(r"^    (\{.*\})$", script.page(), re.MULTILINE)
    stages = [entry for entry in entries if re.match(r"\{(weights|temperature)", entry)]
    corpora = [entry for entry in entries if entry not in stages]
    before = example.partition("  train:")[0]
    loaded = schema.parse(before + f"  train: [{', '.join(corpora)}]\n", "entries")
    named = "[{file: a.tsv, name: europarl}, {file: b.tsv, name: crawled}]"
    text = f"{before}  train: {named}\n  validation: {{file: c.tsv}}\n  stages: [{', '.join(stages)}]\n"
    assert len(schema.parse(text, "stages").data.stages) == 4
    kinds = [corpus.source or corpus.file or corpus.hub or corpus.opus for corpus in loaded.data.train]
    assert kinds == ["train.en", "train.tsv.gz", "memory.tmx", "wmt/wmt14", "Tatoeba", "train.en", "train.en"]
