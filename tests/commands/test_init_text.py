"""The config that `nmt init` writes fits the text: its formats, languages and size; and it fits other programs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.export_models import LINES, make_model, make_vocabulary, random_model
from helpers.model_files import make_checkpoint
from typer.testing import CliRunner

from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.commands import demo_corpus, export, init_size
from nmt.config import schema
from nmt.config.presets import PRESETS, PresetName
from nmt.config.schema import Config, Corpus, DataConfig, RecurrentConfig, TransformerConfig
from nmt.data.sources.corpus import read_pairs
from nmt.files import notes
from nmt.interop.exporter import Format
from nmt.training.schedule import problem

PROGRAMS: list[Format] = ["bergamot", "marian", "argos"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    notes.say_once.cache_clear()
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def init(*arguments: str) -> str:
    """The log of `nmt init my.yaml`."""
    done = CliRunner().invoke(app.app, ["init", "my.yaml", *arguments])
    assert done.exit_code == 0, done.stderr
    return done.stderr


def written() -> Config:
    return schema.load(Path("my.yaml"))


def refused(*arguments: str) -> str:
    """The message of a `nmt init my.yaml` that writes nothing."""
    before = sorted(Path().iterdir())
    done = CliRunner().invoke(app.app, ["init", "my.yaml", *arguments])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1) and sorted(Path().iterdir()) == before, done.stderr
    return done.stderr


def text(name: str, pairs: int, words: int = 10, languages: str = "en fi") -> list[str]:
    """Write two text files. Returns their names."""
    files = [f"{name}.{code}" for code in languages.split()]
    for file in files:
        Path(file).write_text(f"{'seven is ' * words}\n" * pairs)
    return files


def memory(name: str, pairs: int, *languages: str) -> str:
    unit = "".join(f'<tuv xml:lang="{code}"><seg>{"seven is " * 10}</seg></tuv>' for code in languages)
    Path(name).write_text(f"<tmx><header srclang='{languages[0]}'/><body>{f'<tu>{unit}</tu>' * pairs}</body></tmx>")
    return name


def test_one_file_with_both_sides_is_a_corpus() -> None:
    log = init("--train", memory("m.tmx", 20_000, "fi-FI", "en-US"), "--validation", memory("v.tmx", 5, "en", "fi"))
    data = written().data
    assert (data.source_language, data.target_language) == ("fi", "en")
    assert (data.train, data.held_out) == ((Corpus(file="m.tmx"),), (Corpus(file="v.tmx"),))
    assert "(languages: fi to en)" in log and "too few" not in log
    same = text("same", 20_000)
    Path("my.yaml").rename("tmx.yaml")
    init("--train", *same)
    assert schema.load(Path("tmx.yaml")).training == written().training  # the size of both is known, and equal


def test_each_corpus_has_its_languages_and_all_count() -> None:
    first, second = text("a", 600), text("b", 700, languages="eng swa")
    log = init("--train", *first, "--train", *second, "--validation", *text("v", 5), "--validation", *text("w", 5))
    data = written().data
    assert [corpus.languages for corpus in data.train] == [("en", "fi"), ("en", "swa")]
    assert [corpus.weight for corpus in data.train] == [None, None]
    assert data.held_out_names == ("v.en + v.fi", "w.en + w.fi")
    assert "1,300 pairs are too few to train from nothing: import a pretrained model with nmt import" in log
    assert "(languages: en to fi, en to swa)" in log


def test_files_that_are_no_corpus_are_refused() -> None:
    files, xml = text("a", 2), memory("memory.fi", 1, "en", "fi")
    assert "both sides are the same file" in refused("--train", files[0], files[0])
    assert "both sides are the same file" in refused("--train", *files, "--validation", files[0], files[0])
    assert "memory.fi: is XML" in refused("--train", files[0], xml)
    three = memory("three.tmx", 1, "en", "fi", "sv")
    assert "three.tmx: its languages are en, fi, sv: choose two" in refused("--train", three)
    assert "give the files of both in the same order, or set" in refused(
        "--train", *files, "--validation", *files[::-1]
    )


def test_the_next_step_depends_on_what_is_missing() -> None:
    assert "next: replace the file names at the top of my.yaml (languages: en to de)" in init()
    Path("my.yaml").unlink()
    assert "next: hold out validation text with nmt split, and name the new" in init("--train", *text("a", 2))


def test_unknown_languages_and_unclear_columns_are_said() -> None:
    Path("x.tsv").write_text("1\tone\tyksi\n2\ttwo\tkaksi\n")
    log = init("--train", "x.tsv")
    assert "warning: --train x.tsv: the file names do not say the languages, and en and de are written: correct" in log
    assert "x.tsv: 1 of 3 columns is not used as text: 3 ('yksi')\n" in log
    Path("my.yaml").unlink()
    Path("x.jsonl").write_text('{"english": "one", "finnish": "yksi"}\n')
    log = init("--train", "x.jsonl", "--source-language", "en", "--target-language", "fi")
    assert "there are 'english', 'finnish': give source_column: correct the text, or data.train in my.yaml\n" in log
    assert "do not say" not in log and written().data.train == (Corpus(file="x.jsonl"),)


def test_several_language_pairs() -> None:
    init("--pairs", "en-de", "en-pt_BR", "de-en", "--preset", "small")
    config = written()
    data = config.data
    assert list(map(str, data.language_pairs.pairs)) == ["en-de", "en-pt_BR", "de-en"]
    assert data.train[1] == Corpus(source="train.en-pt_BR.en", target="train.en-pt_BR.pt_BR", languages=("en", "pt_BR"))
    assert data.held_out_names == ("en-de", "en-pt_BR", "de-en") and data.language_tags == "target"
    assert config.model.width == 128 and "language_tags: target" in Path("my.yaml").read_text()


def test_a_text_is_used_for_each_pair_of_its_languages() -> None:
    files, both = text("a", 600), memory("m.tmx", 3, "en", "fi", "sv")
    pairs = ["--pairs", "fi-en", "en-fi", "en-sv"]
    log = init(*pairs, "--train", *files, "--train", both, "--validation", *text("v", 5))
    data = written().data
    a, m = Corpus(source="a.en", target="a.fi"), Corpus(file="m.tmx")
    expected = [(a, "fi-en"), (a, "en-fi"), (m, "fi-en"), (m, "en-fi"), (m, "en-sv")]
    assert [
        (replace(corpus, languages=None, reversed=False), str(data.pair_of(corpus))) for corpus in data.train
    ] == expected
    assert [corpus.reversed for corpus in data.train] == [True, False, False, True, False]
    assert list(map(str, map(data.pair_of, data.held_out))) == ["fi-en", "en-fi"]
    assert all(next(read_pairs(corpus, data, "train")) for corpus in data.train)
    assert "603 pairs are too few" in log
    assert "warning: en-sv: no --validation has text in these languages: the run does not score them" in log
    Path("my.yaml").unlink()
    init("--pairs", "en-fi", "fi-en", "--train", *files, "--validation", *text("v", 5))
    data = written().data
    assert data.train == (a, replace(a, reversed=True)) and data.held_out_names == ("en-fi", "fi-en")


def test_pairs_and_texts_that_do_not_fit_are_refused() -> None:
    files = text("a", 2)
    message = refused("--pairs", "en-sv", "--train", *files)
    assert "--train a.en a.fi: its languages are en, fi, which are no pair" in message
    assert "--pairs en-sv: no --train has text" in refused("--pairs", "en-fi", "en-sv", "--train", *files)


# --------------------------------------------------------------------------- old text


@pytest.fixture
def start() -> str:
    model_file.save(Path("m.safetensors"), make_model())
    return "m.safetensors"


def test_half_of_the_pairs_are_new(start: str) -> None:
    new, old, older = (
        text("new", 5000, languages="en de"),
        text("old", 3000, languages="en de"),
        memory("o.tmx", 5, "de", "en"),
    )
    sets = ["--validation", *text("v", 5, languages="en de"), "--validation", *text("w", 5, languages="en de")]
    log = init("--start-from", start, "--train", *new, "--train", *old, "--train", older, *sets)
    config = written()
    weights = [corpus.weight for corpus in config.data.train]
    assert weights[0] == sum(weights[1:]) and len(set(weights[1:])) == 1  # type: ignore[arg-type]
    assert len(config.data.held_out) == 2 and config.data.language_pairs.pairs == (("en", "de"),)
    assert (
        "too few" not in log and "# The first text is new, and the others are old text." in Path("my.yaml").read_text()
    )
    # 40 passes over the new text, which is half of the pairs.
    assert config.training.max_steps == pytest.approx(2 * 40 * 5000 * 22.5 / 4096, abs=50)
    Path("my.yaml").unlink()
    init("--start-from", start, "--pairs", "en-de", "de-en", "--train", *new, "--train", *old, "--train", older)
    assert [corpus.weight for corpus in written().data.train] == [2, 2, 1, 1, 1, 1]
    assert written().training.max_steps == pytest.approx(4 * 40 * 5000 * 22.5 / 4096, abs=50)
    Path("my.yaml").unlink()
    init("--start-from", start, "--train", *text("little", 10, languages="en de"))
    assert written().training.max_steps == 400 and written().data.train[0].weight is None


@pytest.mark.parametrize("preset", ["base", "big"])
def test_the_length_of_a_run_follows_the_text_with_every_preset(preset: PresetName) -> None:
    files, steps = text("a", 20_000), []
    log = init("--preset", preset, "--train", *files)
    training = written().training
    steps.append(training.max_steps)
    assert problem(training, 512, training.max_steps) is None and "too few" not in log
    assert training.validate_every <= training.max_steps / 10
    Path("my.yaml").unlink()
    init("--preset", preset, "--train", *files, "--train", *text("b", 20_000))
    assert written().training.max_steps == pytest.approx(2 * steps[0], abs=50)
    Path("my.yaml").unlink()
    init("--preset", preset)
    assert written().training.max_steps == PRESETS[preset].settings.get("training.max_steps", 100_000)


# --------------------------------------------------------------------------- other programs


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_model_of_each_preset_can_be_exported(
    preset: PresetName, program: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random weights, with one layer, because the number of layers does not matter."""
    monkeypatch.setitem(demo_corpus.SIZES, "train", 10)
    init("--preset", preset, "--for", program)
    assert f"For nmt export --format {program}." in Path("my.yaml").read_text()
    config = schema.load(Path("my.yaml"), ["model.layers=1", "model.feed_forward=128", "decoding.max_extra_tokens=5"])
    assert isinstance(config.model, TransformerConfig)
    assert config.model.d_model == PRESETS[preset].settings.get("model.d_model", 512)
    model_file.save(Path("m.safetensors"), random_model(1, config, make_vocabulary(config)))
    export.export(Path("m.safetensors"), program, Path("exported"), lines=LINES[:3])
    assert any(Path("exported").iterdir())


def test_a_model_or_settings_that_cannot_be_exported_are_refused(start: str) -> None:
    message = refused("--start-from", start, "--for", "bergamot")
    assert message.startswith("error: --for bergamot: m.safetensors cannot be exported: model.positions: interleaved: ")
    message = refused("--pairs", "en-de", "de-en", "--for", "bergamot")
    assert message.startswith("error: data.train: languages en-de, de-en: Bergamot has no language tokens")
    assert "Argos Translate needs the code" in refused("--source-language", "a_b.c", "--for", "argos")
    init("--start-from", start, "--for", "marian")
    assert written().training.start_from == start


def test_a_recurrent_model_is_refused() -> None:
    recurrent = replace(make_model().config, model=RecurrentConfig(embedding_size=8, hidden_size=8))
    model_file.save(Path("r.safetensors"), make_checkpoint(recurrent))
    assert "only a transformer can be exported" in refused("--start-from", "r.safetensors", "--for", "argos")


# --------------------------------------------------------------------------- sizes


def test_the_size_is_counted_up_to_a_limit_without_keeping_the_text() -> None:
    unit = '<tu><tuv xml:lang="en"><seg>text</seg></tuv><tuv xml:lang="fi"><seg>text</seg></tuv></tu>'
    Path("m.tmx").write_text(f"<tmx><body>{unit * 700}</body></tmx>")
    corpora = Corpus(file="m.tmx"), Corpus(source="a", target="b")
    data = DataConfig(source_language="en", target_language="fi", train=corpora)
    Path("a").write_text("four\n" * 300)
    Path("b").write_text("eightfor\n" * 300)
    config, both = Path("my.yaml"), (*corpora, replace(corpora[1], reversed=True))
    assert init_size.size_of_text(data, corpora, config, 10**6) == (1000, (700 * 4 + 300 * 8) // 4)
    assert init_size.size_of_text(data, both, config, 10**6) == (1000, (700 * 4 + 300 * 12) // 4)
    assert init_size.size_of_text(data, corpora, config, 10) == (10, 10)
    Path("b").unlink()
    assert init_size.size_of_text(data, corpora, config, 10**6) is None
