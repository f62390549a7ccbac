"""A shortlist is written into a model file, whole or not at all; an export learns what is missing."""

import itertools
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.export_models import LINES, make_model, make_settings, random_model, random_shortlist
from helpers.killed import killed_at_operation
from helpers.model_files import make_checkpoint, tokenizer
from helpers.runs import write_corpus
from typer.testing import CliRunner

import nmt.data.subwords.shortlist
from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.cli import app
from nmt.commands import shortlist
from nmt.commands.export import export
from nmt.data.subwords.shortlist import Shortlist
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.errors import NmtError
from nmt.interop.ctranslate2 import export as ctranslate2


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The training and the validation text of the model."""
    for name, count in (("train", 400), ("validation", 50)):
        write_corpus(tmp_path / "corpus", name, count, seed=count)
    return tmp_path / "corpus"


@pytest.fixture
def made(corpus: Path) -> Checkpoint:
    sides = "{{source: {0}/{1}.en, target: {0}/{1}.de}}"
    train, validation = (sides.format(corpus, name) for name in ("train", "validation"))
    settings = make_settings(f"data.train=[{train}]", f"data.validation={validation}")
    return replace(make_model(), config=settings, provenance={"step": 7})


@pytest.fixture
def model(made: Checkpoint, tmp_path: Path) -> Path:
    path = tmp_path / "models" / "model.safetensors"
    path.parent.mkdir()
    model_file.save(path, made)
    return path


def shortlist_of(path: Path) -> Shortlist | None:
    return model_file.load(path).shortlist


def test_the_training_text_or_two_files_give_it(model: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = model_file.load(model)
    done = CliRunner().invoke(app.app, ["shortlist", str(model)])
    assert (done.exit_code, done.stdout) == (0, f"{model}\n")
    learned_from, covers = done.stderr.splitlines()
    assert learned_from == "shortlist: learning from 400 of 400 pairs"
    assert "of 300 subwords per validation sentence, which cover 100.0% of its translation" in covers
    learned, after = shortlist_of(model), model_file.load(model)
    assert learned is not None
    assert after.config == before.config and after.provenance == before.provenance
    assert all(bool((weight == before.weights[name]).all()) for name, weight in after.weights.items())
    files = ["--source", str(corpus / "validation.en"), "--target", str(corpus / "validation.de")]
    monkeypatch.setattr(nmt.data.subwords.shortlist, "_FREQUENT", 1)
    done = CliRunner().invoke(app.app, ["shortlist", str(model), *files])
    assert done.exit_code == 0 and "shortlist: learning from 50 of 50 pairs\n" in done.stderr
    assert "this coverage is low: is there enough text" not in done.stderr
    monkeypatch.setattr(nmt.data.subwords.shortlist, "_BEST", 0)
    done = CliRunner().invoke(app.app, ["shortlist", str(model), *files])
    assert "this coverage is low: is there enough text, and is it in the languages of the model?" in done.stderr
    other = shortlist_of(model)
    assert other is not None and other.targets.tolist() != learned.targets.tolist()
    assert [path.name for path in model.parent.iterdir()] == ["model.safetensors"]


def test_a_kill_leaves_the_old_file_or_the_new(model: Path) -> None:
    old, left = model.read_bytes(), []
    for number in itertools.count(1):
        killed = killed_at_operation(number, model.parent, lambda: shortlist.write(model))
        left.append(model.read_bytes() == old or shortlist_of(model) is not None)
        if not killed:
            break
        model.write_bytes(old)
    assert number > 4 and all(left) and shortlist_of(model) is not None


def test_pairs_come_from_all_parts_of_a_large_text(
    made: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = list[tuple[str, str]]()
    monkeypatch.setattr(shortlist, "_MOST_PAIRS", 10)
    encode = shortlist.encode_pairs
    monkeypatch.setattr(shortlist, "encode_pairs", lambda pairs, of: chosen.extend(pairs) or encode(pairs, of))  # type: ignore[func-returns-value]
    empty = replace(made, config=make_settings("data.validation=null"))
    with caplog.at_level(logging.INFO, "nmt"):
        shortlist.learned(empty, [[(str(number), "eins") for number in range(1, 96)]])
    assert [int(source) for source, _ in chosen] == list(range(16, 96, 16))
    assert caplog.messages == ["shortlist: learning from 5 of 95 pairs"]
    chosen.clear()
    shortlist.learned(empty, [[("one", "eins")] * 1000, [("two", "zwei")] * 4])  # those of two language pairs
    assert chosen == [("one", "eins")] * 3 + [("two", "zwei")] * 4


def test_it_says_when_no_translation_will_use_the_shortlist(
    made: Checkpoint, model: Path, corpus: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A token before each target is a prefix, with which CTranslate2 cannot use a shortlist."""
    tagged = tokenizer().with_tags(["<en>", "<de>"])
    for tags, is_warned in (("target_always", False), ("sides", True)):
        data, model_settings = replace(made.config.data, language_tags=tags), replace(made.config.model, tie="none")
        vocabulary = Vocabulary(tagged.with_tags(["<2de>"]), tagged)
        given = random_model(0, replace(made.config, data=data, model=model_settings), vocabulary)
        model_file.save(model, given)
        caplog.clear()
        with caplog.at_level(logging.INFO, "nmt"):
            shortlist.write(model, corpus / "train.en", corpus / "train.de")
        assert ("nmt never uses a shortlist with this model: data.language_tags: sides" in caplog.text) == is_warned
        assert shortlist_of(model) is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training text", r"data\.train: .*train\.en.*: give a text: nmt shortlist MODEL --source FILE --target FILE"),
        ("one file", "--source, --target: give both files, or neither for the training text"),
        ("lines", r"validation\.en has 50 lines and .*train\.de has 400: each line needs its translation"),
        ("empty", "the text has no pair with words on both sides: give another one with --source and --target"),
        ("file", r"model\.safetensors: is read-only: make it writable"),
        ("recurrent", r"model\.architecture: recurrent: only a transformer uses a shortlist"),
        ("exported", "exported: an exported folder: change the model file, and export it again"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(
    made: Checkpoint, model: Path, corpus: Path, change: str, message: str
) -> None:
    path, source, target, kept = model, None, None, model.read_bytes()
    match change:
        case "training text":
            (corpus / "train.en").unlink()
        case "one file":
            source = corpus / "train.en"
        case "lines":
            source, target = corpus / "validation.en", corpus / "train.de"
        case "empty":
            source = target = corpus / "empty"
            source.write_text("\n \n")
        case "file":
            model.chmod(0o440)
        case "recurrent":
            config = make_settings("model={architecture: recurrent}")
            model_file.save(model, make_checkpoint(config))
            kept = model.read_bytes()
        case "exported":
            path = corpus / "exported"
            path.mkdir()
            ctranslate2.write(path, made)
    with pytest.raises(NmtError, match=message) as raised:
        shortlist.write(path, source, target)
    assert "\n" not in str(raised.value) and model.read_bytes() == kept


def test_an_export_has_the_shortlist_of_the_model_or_learns_one(
    made: Checkpoint,
    model: Path,
    corpus: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = model.read_bytes()
    export(model, "ctranslate2", tmp_path / "learned", lines=LINES)
    assert len((tmp_path / "learned" / "vmap.txt").read_text().splitlines()) > 20 and model.read_bytes() == kept
    (corpus / "train.de").unlink()
    with caplog.at_level(logging.INFO, "nmt"):
        export(model, "ctranslate2", tmp_path / "without", lines=LINES)
    assert not (tmp_path / "without" / "vmap.txt").exists()
    assert "no shortlist is exported, so translation is slower: data.train: " in caplog.text
    text = f"source: {corpus}/validation.en, target: {corpus}/validation.de"
    pairs = ", ".join(f"{{{text}, languages: [en, {language}]}}" for language in ("de", "fr"))
    both = tokenizer().with_tags(["<2de>", "<2fr>"])
    several = random_model(0, make_settings(f"data.train=[{pairs}]", "data.validation=null"), Vocabulary(both, both))
    model_file.save(model, several)
    export(model, "ctranslate2", tmp_path / "several", lines=LINES)
    assert not (tmp_path / "several" / "vmap.txt").exists()
    hub = make_settings("data.train=[{hub: some/dataset}]", "data.validation=null")
    model_file.save(model, replace(made, config=hub))
    monkeypatch.setattr(shortlist, "training_text", None)  # it would be downloaded
    export(model, "ctranslate2", tmp_path / "hub", lines=LINES)
    assert not (tmp_path / "hub" / "vmap.txt").exists()
    model_file.save(model, replace(made, shortlist=random_shortlist(made.vocabulary, 3)))
    export(model, "ctranslate2", tmp_path / "own", lines=LINES)
    lines = (tmp_path / "own" / "vmap.txt").read_text().split("\n")
    assert lines[3].startswith("\t<pad> <unk> <s> </s> ") and {len(line.split()) for line in lines[4:-1]} == {4}
