"""Sets of pairs that have no sentence in common, whatever the corpus repeats."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from nmt.cli import app
from nmt.commands.split import groups_of, split_pairs
from nmt.config import schema
from nmt.data.sources.corpus import read_pairs
from nmt.errors import NmtError

ALONE = [(f"source {n}", f"target {n}") for n in range(40)]
REPEATED = [("Go!", "Geh!"), ("go", "Geht!"), ("Leave.", "GEHT"), ("Go!", "Los!"), ("Run, go.", "Los")]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app.app, ["split", *map(str, arguments)])


def test_what_shares_a_sentence_is_a_group() -> None:
    """Through other pairs too; the sides are not mixed."""
    other = ("Geh", "Go")
    assert groups_of([*REPEATED, other]) == [REPEATED, [other]]


@pytest.mark.parametrize(
    ("text", "other", "same"),
    [
        ("don't go", "Dont go!", True), ("你好，世界。", "你好世界", True), ("की", "कि", False),
        ("naïve", "Naive", True), ("😀", "😎", False),
    ],
)  # fmt: skip
def test_letters_and_digits_make_a_sentence(text: str, other: str, same: bool) -> None:
    assert len(groups_of([(text, "x"), (other, "y")])) == (1 if same else 2)


words = st.sampled_from(["a", "b", "A.", " a", "c!", "d", "e f", "e, F", "ef", "?", "!", "दि", "दी"])


@given(st.lists(st.tuples(words, words), max_size=12), st.integers(1, 3), st.integers(0, 9))
def test_no_sentence_is_in_two_sets(pairs: list[tuple[str, str]], held_out: int, seed: int) -> None:
    pairs = pairs + ALONE[:8]
    sets = split_pairs(pairs, held_out, None, seed)
    assert [len(sets[name]) for name in ("validation", "test")] == [held_out] * 2
    assert set().union(*sets.values()) <= set(pairs) and len(set(sets["train"])) == len(sets["train"])
    for side in (0, 1):
        seen = [{re.sub("[ .,]|(?<=.)!", "", pair[side].lower()) for pair in of} for of in sets.values()]
        assert sum(map(len, seen)) == len(set().union(*seen))
    assert split_pairs(random.Random(seed).sample(pairs, len(pairs)), held_out, None, seed) == sets


SETS = ("train", "validation", "test")


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_one_file_of_both_sides(tmp_path: Path) -> None:
    lines = [f"{number}\t{source}\t{target}\tby somebody\n" for number, (source, target) in enumerate(ALONE)]
    same = lines[1].replace(" ", "  ").replace("s", "\u00ads", 1)  # to a model
    (tmp_path / "pairs.tsv").write_text(same + "".join(lines) + lines[0] + "40\t \tempty\tby somebody\n")
    folder = tmp_path / "new" / "sets"
    command = (tmp_path / "pairs.tsv", "--output", folder, "--languages", "en", "de", "--pairs", 4, "--most", 9)
    done = run(*command, "--columns", 2, 3)
    assert (done.exit_code, done.stdout) == (0, f"{folder}\n"), done.stderr
    assert "43 pairs: 9 train, 4 validation, 4 test, 23 left out, 2 duplicates, 1 with an empty side\n" in done.stderr
    files = contents(folder)
    assert files.keys() == {f"{name}.{side}" for name in SETS for side in ("en", "de")}
    for name in SETS:
        assert files[f"{name}.en"].replace("source", "target") == files[f"{name}.de"] != ""
    done = run(*command, "--columns", 2, 3)
    assert done.exit_code == 1
    assert done.stderr == f"error: {folder}: exists already and is not overwritten: choose another --output\n"
    assert files == contents(folder)


def test_a_translation_memory_names_its_two_languages(tmp_path: Path) -> None:
    side = '<tuv xml:lang="{}"><seg>{} {}</seg></tuv>'.format
    units = [side("en-GB", "text", n) + side("sw", "maandishi", n) for n in range(40)]
    memory, three = tmp_path / "my.tmx", tmp_path / "three.tmx"
    body = "".join(f"<tu>{unit}</tu>" for unit in units)
    memory.write_text(f'<tmx><header srclang="sw"/><body>{body}</body></tmx>')
    three.write_text(f"<tmx><body>{body}<tu>{side('fi', 'teksti', 1)}</tu></body></tmx>")
    done = run(memory, "--pairs", 5, "--output", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "--train" in done.stderr and (tmp_path / "out" / "test.sw").read_text().startswith("maandishi ")
    done = run(three, "--pairs", 5, "--output", tmp_path / "other")
    assert "three.tmx: its languages are en, sw, fi: choose two of them with --languages\n" in done.stderr


def test_a_memory_is_not_the_text_of_a_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my.tmx", "my.xml", "my.en"):
        Path(name).write_text("<?xml version='1.0'?>\n<tmx/>\n" if name != "my.en" else "text\n")
    for files, message in (
        (("my.tmx", "my.tmx"), "nmt split: my.tmx has both sides: give it alone: nmt split my.tmx\n"),
        (("my.en", "my.xml"), "my.xml: is XML, not plain text"),
        (("my.en", "my.en"), "nmt split my.en my.en: both sides are the same file"),
    ):
        done = run(*files, *LANGUAGES, "--output", "out")
        assert done.exit_code == 1 and f"error: {message}" in done.stderr
    corpus = schema.Corpus(source="my.en", target="my.xml")
    with pytest.raises(NmtError, match=r"my.xml: is XML, .* give it alone: file: my.tmx"):
        next(read_pairs(corpus, schema.DataConfig("en", "de", (corpus,)), "train"))


def test_few_training_pairs_and_pairs_left_out_are_said(tmp_path: Path) -> None:
    for side, ending in enumerate(("cs", "fr")):
        lines = [f"{pair[side]}\n" for pair in [*ALONE, *REPEATED]]
        (tmp_path / f"my.{ending}").write_text("".join(lines))
    files = tmp_path / "my.cs", tmp_path / "my.fr"
    assert "only 41 such groups: choose fewer, such as --pairs 10\n" in run(*files, "--output", tmp_path / "out").stderr
    log = run(*files, "--output", tmp_path / "out", "--pairs", 20).stderr
    assert "1 train, 20 validation, 20 test, 4 left out (they share a sentence with a held-out pair), 0 dup" in log
    assert "warning: fewer training pairs than validation pairs: choose a smaller --pairs" in log
    log = run(*files, "--output", tmp_path / "few", "--pairs", 4).stderr
    assert "warning" not in log and "next: " in log


def test_two_files_of_lines_and_the_command_that_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for side, ending in enumerate(("cs", "fr")):
        Path(f"my.{ending}").write_text("".join(f"{pair[side]}\n" for pair in ALONE))
    done = run("my.cs", "my.fr", "--output", "data/my", "--pairs", 3)
    assert done.exit_code == 0, done.stderr
    assert contents(Path("data/my")).keys() == {f"{name}.{ending}" for name in SETS for ending in ("cs", "fr")}
    (following,) = re.findall("next: nmt (.*)\n", done.stderr)
    assert CliRunner().invoke(app.app, following.split()).exit_code == 0
    data = schema.load(Path("my.yaml")).data
    assert data.validation == schema.Corpus(source="data/my/validation.cs", target="data/my/validation.fr")


LANGUAGES = ("--languages", "en", "de")


@pytest.mark.parametrize(
    ("text", "arguments", "status", "message"),
    [
        ("a\tb\nc\n", LANGUAGES, 1, "pairs.tsv"),
        ("a\tb\n", (*LANGUAGES, "--columns", 1, 1), 2, "--columns 1 1: the source and the target are two columns"),
        (
            "a\tb\n",
            (),
            1,
            "what are the languages? if it is text in one language, give the file of the other one too; else",
        ),
    ],
)
def test_mistakes_are_one_line(
    text: str, arguments: tuple[object, ...], status: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "pairs.tsv").write_text(text, encoding="cp1252")
    done = run(tmp_path / "pairs.tsv", "--output", tmp_path / "out", *arguments)
    assert done.exit_code == status and message in done.stderr.split("\n")[-2 if status == 1 else -3] + done.stderr
    assert status == 2 or done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
