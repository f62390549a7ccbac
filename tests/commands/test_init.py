"""A config file to start from: it is valid, it says what the defaults are, and it is never written over another."""

import json
import re
from pathlib import Path

import pytest
from helpers.export_models import MARIAN, make_model
from typer.testing import CliRunner

from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.commands import demo_corpus
from nmt.config import schema
from nmt.config.json_schema import json_schema
from nmt.config.schema import Config
from nmt.config.writer import differences
from nmt.training.schedule import problem


def init(*arguments: str) -> "tuple[int, str, str]":
    done = CliRunner().invoke(app.app, ["init", *arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_names_what_is_given_and_leaves_the_rest_at_its_default() -> None:
    given = ["--source-language", "cs", "--target-language", "no", "--train", "a: b", "#c", "--validation", "d", "e"]
    status, out, log = init("my.yaml", *given)
    assert (status, out) == (0, "my.yaml\n")
    assert log.startswith("nmt.schema.json: with it, editors complete and check the config\n")
    log = log.partition("\n")[2]
    assert log.startswith("Preset base, because the training text cannot be read yet: the paper's base model, ")
    log = log.partition("\n")[2]
    assert log == "next: check the settings at the top of my.yaml (languages: cs to no), then run: nmt train my.yaml\n"
    config = schema.load(Path("my.yaml"))
    assert config.run_dir == "runs/my"
    assert (config.data.source_language, config.data.target_language) == ("cs", "no")
    assert config.data.train == (schema.Corpus(source="a: b", target="#c"),)
    assert config.data.validation == schema.Corpus(source="d", target="e")
    least = schema.parse(
        "{run_dir: r, data: {source_language: a, target_language: b, train: [{file: c.tsv}]}}", "the least config"
    )
    for section in ("vocabulary", "model", "training", "decoding"):
        assert getattr(config, section) == getattr(least, section)


def test_a_model_to_start_from_gives_its_settings() -> None:
    made = make_model(*MARIAN, "vocabulary.shared=false", "model.tie=none", "decoding.beam_size=7")
    model_file.save(Path("m.safetensors"), made)
    assert init("my.yaml", "--start-from", "m.safetensors")[0] == 0
    config = schema.load(Path("my.yaml"))
    assert config.training.start_from == "m.safetensors" and config.training.learning_rate == 0.0001
    assert schema.differences_of_models(made.config, config) == {} and not config.vocabulary.shared
    assert config.decoding == made.config.decoding


@pytest.mark.parametrize(
    ("arguments", "languages"),
    [
        (["--train", "tr.fr", "tr.pt_BR.gz"], ("fr", "pt_BR")),
        (["--train", "tr.yo", "tr.amh"], ("yo", "amh")),
        ([], ("en", "de")),
    ],
)
def test_languages_are_those_of_the_endings(arguments: list[str], languages: tuple[str, str]) -> None:
    status, _, log = init("my.yaml", *arguments)
    assert status == 0
    data = schema.load(Path("my.yaml")).data
    assert (data.source_language, data.target_language) == languages
    assert f"(languages: {languages[0]} to {languages[1]})" in log


def test_a_schedule_that_fits_the_corpus_is_written() -> None:
    """The larger the corpus, the longer the run, up to the defaults; a file that cannot be read changes nothing."""
    for side in "ab":
        Path(side).write_text("one sentence of about forty-four letters ...\n" * 10)
    status, _, log = init("my.yaml", "--train", "a", "b")
    assert status == 0
    training = schema.load(Path("my.yaml")).training
    assert problem(training, 512, training.max_steps) is None
    assert (training.warmup_steps, training.schedule, training.max_steps) == (400, "cosine", 2000)
    assert "\nPreset small, because the training text has about " in log


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo corpus that takes no seconds to make."""
    assert demo_corpus.SIZES["train"] == 40_000
    monkeypatch.setitem(demo_corpus.SIZES, "train", 400)


CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize(
    ("preset", "config", "also"),
    [
        ("demo", "demo", []),
        ("small", "multi30k", ["length_penalty"]),  # which is for captions
        ("base", "wmt14-en-de-base", None),
        ("big", "wmt14-en-de-big", None),
    ],
)
def test_a_preset_is_the_config_of_the_repository(
    preset: str, config: str, also: "list[str] | None", small_demo: None
) -> None:
    """All of it; of the paper's models those settings in which they differ from each other, by the model."""
    assert init("my.yaml", "--preset", preset)[0] == 0
    ours, theirs = schema.load(Path("my.yaml")), schema.load(CONFIGS / f"{config}.yaml")
    assert ours.model == theirs.model
    if also is None:
        assert ours.training.max_steps == theirs.training.max_steps
        assert ours.training.warmup_steps == theirs.training.warmup_steps
        return
    differing = {re.split(r"[\[.]", path, maxsplit=2)[1] for path in differences(ours, theirs) if path != "run_dir"}
    assert differing <= {"train", "validation", *also}


def test_the_demo_has_its_corpus_and_a_job_script(here: Path, small_demo: None) -> None:
    status, _, log = init("my.yaml", "--preset", "demo", "--slurm")
    assert status == 0 and "sbatch train.slurm my.yaml" in log
    assert sorted(path.name for path in here.iterdir()) == ["data", "my.yaml", "nmt.schema.json", "train.slurm"]
    assert Path("train.slurm").read_text().startswith("#!/bin/bash\n")
    corpus = schema.load(Path("my.yaml")).data.train[0]
    assert [len(Path(str(file)).read_text().splitlines()) for file in (corpus.source, corpus.target)] == [400] * 2
    assert init("other.yaml", "--preset", "demo")[0] == 0  # the same corpus may be there
    Path("data/demo/train.de").write_text("mine\n")
    status, _, log = init("third.yaml", "--preset", "demo")
    assert (status, log.count("\n")) == (1, 1) and "data/demo/train.de: exists with other content" in log
    assert not Path("third.yaml").exists() and Path("data/demo/train.de").read_text() == "mine\n"
    assert init("third.yaml", "--slurm")[0] == 1 and not Path("third.yaml").exists()
    assert init("third.yaml", "--preset", "demo", "--train", "a", "b")[0] == 2
    assert init("third.yaml", "--preset", "small", "--start-from", "m.safetensors")[0] == 2


def test_an_existing_file_stays() -> None:
    Path("my.yaml").write_text("mine\n")
    assert init("my.yaml") == (1, "", "error: my.yaml: exists already and is not overwritten: choose another name\n")
    assert Path("my.yaml").read_text() == "mine\n"
    status, _, log = init("none/my.yaml")
    assert (status, log) == (1, "error: none/my.yaml: no folder none: make it first, or choose another CONFIG\n")


def test_what_no_config_can_hold_is_refused(here: Path) -> None:
    status, out, log = init("my.yaml", "--source-language", "")
    assert (status, out, list(here.iterdir())) == (1, "", [])
    assert log.startswith("error: ") and "data.source_language: expected text" in log


def test_the_file_names_a_schema_that_is_beside_it(here: Path) -> None:
    """Editors read the first line. A schema that is there already stays."""
    status, _, log = init("configs-of-mine.yaml", "--train", "a", "b")
    first = Path("configs-of-mine.yaml").read_text().split("\n")[0]
    assert (status, first) == (0, "# yaml-language-server: $schema=nmt.schema.json")
    assert json.loads(Path("nmt.schema.json").read_text()) == json_schema(Config)
    assert "nmt.schema.json" in log and "nmt.schema.json" not in init("other.yaml")[2]
    Path("nmt.schema.json").write_text("{}")
    assert "nmt schema writes the new one" in init("third.yaml")[2] and Path("nmt.schema.json").read_text() == "{}"
