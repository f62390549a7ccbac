"""How `nmt init` reads options with several values."""

import re
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from nmt.cli import app

INIT = typer.main.get_command(app.app).commands["init"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "train", "validation"),
    [
        ("my.yaml --train a.en a.fi", ["a.en a.fi"], []),
        ("--train a.en a.fi my.yaml --validation v.en v.fi", ["a.en a.fi"], ["v.en v.fi"]),
        ("--train=a.en a.fi --slurm my.yaml", ["a.en a.fi"], []),
        ("my.yaml --train memory.TMX", ["memory.TMX"], []),
        ("--train memory.tmx.gz my.yaml --validation v.jsonl", ["memory.tmx.gz"], ["v.jsonl"]),
        ("--train=pairs.tsv my.yaml", ["pairs.tsv"], []),
        ("my.yaml --train a.csv --train b.en b.fi --train c.parquet", ["a.csv", "b.en b.fi", "c.parquet"], []),
        (
            "--train a b --validation c d --validation e.tmx --train f.tmx -- my.yaml",
            ["a b", "f.tmx"],
            ["c d", "e.tmx"],
        ),
    ],
)
def test_a_corpus_is_one_file_with_both_sides_or_two_files(line: str, train: list[str], validation: list[str]) -> None:
    given = INIT.make_context("init", line.split()).params
    assert given["config"] == Path("my.yaml")
    for name, expected in (("train", train), ("validation", validation)):
        assert [each.split("\0") for each in given[name] or ()] == [each.split() for each in expected]


@pytest.mark.parametrize(
    "line", ["my.yaml --pairs en-de en-sw", "--pairs en-de en-sw my.yaml", "--pairs=en-de en-sw --preset small my.yaml"]
)
def test_language_pairs_end_before_the_next_argument(line: str) -> None:
    given = INIT.make_context("init", line.split()).params
    assert (given["config"], list(given["pairs"])) == (Path("my.yaml"), ["en-de\0en-sw"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("my.yaml --train a.en", "--train a.en: give two text files, or one file with both sides: .tmx, .tsv"),
        ("--train a.en my.yaml", "--train a.en: give two text files"),
        ("my.yaml --validation a.en --train b.en b.fi", "--validation a.en: give two text files"),
        ("my.yaml --train", "Option '--train' requires an argument"),
        ("b.tmx --train a.tmx", "CONFIG b.tmx: name a .yaml file; for several corpora, repeat --train"),
        (
            "my.yaml --train a.tmx b.tmx",
            "--train a.tmx has both sides: give it alone; for a second corpus, repeat --train",
        ),
        ("--train a.tmx", "Missing argument 'CONFIG'"),
        ("my.yaml --pairs ende", "--pairs ende: write a pair as en-de"),
        ("my.yaml --pairs en-pt-BR", "--pairs en-pt-BR: write a pair as en-de, and a code with a region as pt_BR"),
        ("my.yaml --pairs en-de --source-language en", "--pairs names the languages"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(line: str, message: str) -> None:
    done = CliRunner().invoke(app.app, ["init", *line.split()])
    assert done.exit_code == 2 and message in re.sub(r"\s+", " ", done.stderr), done.stderr
