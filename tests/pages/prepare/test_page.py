"""The page as text, with numbers counted by hand; page_in_chromium.py is the page in a browser."""

import dataclasses
import json
import re
from collections import Counter
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from helpers.html_elements import Elements
from helpers.noisy_corpora import FIRST, GOOD, HELD_OUT, HOSTILE, config_of, write
from typer.testing import CliRunner, Result

from nmt.cli import app
from nmt.config import schema, writer
from nmt.config.schema import Config, Corpus
from nmt.data.prepare import prepare
from nmt.pages.prepare.page import page, to_data

FOLDER = resources.files("nmt.pages.prepare")
SCRIPT = "".join(
    path.read_text(encoding="utf-8") for path in (FOLDER.parent.joinpath("html_page.js"), FOLDER.joinpath("page.js"))
)


@pytest.fixture
def one(tmp_path: Path) -> Config:
    clean = schema.CleaningConfig(**dict.fromkeys(("copies", "language", "repetition", "symbols", "encoding"), None))
    limits = {"max_length": 60, "max_length_ratio": 4.0, "drop_copies": True, "drop_duplicates": True}
    return config_of(tmp_path, write(tmp_path, "first", FIRST), clean=clean, **limits)


def shown(config: Config) -> dict[str, Any]:
    """The data in the page."""
    _, (kind, text), _ = Elements(page(config, prepare(config))).texts
    assert kind == "script"
    found: dict[str, Any] = json.loads(text)
    return found


def pairs_of(examples: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["source"], each["target"]) for each in examples]


def test_each_reason_has_its_count_and_its_examples(one: Config) -> None:
    (corpus,) = shown(one)["corpora"]
    assert (corpus["read"], corpus["kept"]) == (12, 5)
    drops = {drop["setting"]: drop for drop in corpus["drops"]}
    settings = ("–", "data.drop_copies", "data.drop_duplicates", "data.max_length", "data.max_length_ratio")
    expected = dict(zip(settings, (FIRST[i] for i in (5, 6, 7, 9, 10)), strict=True))
    for setting, pair in expected.items():
        assert (drops[setting]["pairs"], pairs_of(drops[setting]["dropped"])) == (1, [pair]), setting
    markup = drops["data.clean.markup"]
    assert sorted(pairs_of(markup["dropped"])) == sorted([FIRST[8], FIRST[11]]) and markup["pairs"] == 2
    assert (markup["reason"], markup["limit"], markup["off"]) == ("HTML", "0.5", False)
    assert drops["data.max_length"]["dropped"][0]["score"] > 60
    assert set(pairs_of(drops["data.max_length"]["near"])) == set(GOOD)
    assert "data.clean.language" not in drops


def test_lengths_languages_and_the_rest_of_a_corpus(one: Config) -> None:
    data = shown(one)
    (corpus,) = data["corpora"]
    assert [sum(times for _, times in side) for side in corpus["lengths"]] == [5, 5]
    assert sum(times for _, times in corpus["ratios"]) == 5
    assert corpus["sample"] == [list(pair) for pair in GOOD]
    assert [side["lines"] for side in corpus["guesses"]] == [0, 0]  # all lines are short
    heading, source, target = data["text"]
    words = [sum(len(pair[side].split()) for pair in GOOD) for side in (0, 1)]
    subwords = [sum(length * times for length, times in side) for side in corpus["lengths"]]
    for row, word, subword in zip((source, target), words, subwords, strict=True):
        assert row[1:4] == [f"{word:,}", f"{subword:,}", f"{subword / word:.2f}"]
    assert heading[1:4] == ["words", "subwords", "subwords per word"]
    assert (source[0], source[-2:]) == (f"en of {one.data.train[0].label}", ["0", "0"])


def test_statistics_are_of_the_text_as_it_is(tmp_path: Path) -> None:
    """Counted once, without tags and variation."""
    corpus = Corpus(file=write(tmp_path, "varied", GOOD).file, tag="<bt>")
    config = config_of(tmp_path, corpus, augment=schema.AugmentConfig(uppercase=1.0))
    assert config.versions > 1
    prepared = prepare(config)
    (found,) = to_data(config, prepared)["corpora"]
    lengths = [prepared.vocabulary.source.encode([pair[side] for pair in GOOD]) for side in (0, 1)]
    expected = [Counter(map(len, side)) for side in lengths]
    assert [dict(side) for side in found["lengths"]] == expected
    assert found["sample"] == [list(pair) for pair in GOOD]


def test_validation_text_in_training_text(one: Config) -> None:
    data = shown(one)
    (overlap,) = data["overlaps"]
    assert (overlap["total"], overlap["pairs"], overlap["sources"]) == (4, 2, 1)
    assert overlap["table"][1][1:] == ["2", "3"]
    assert pairs_of(overlap["pair_examples"]) == HELD_OUT[:2]
    (other,) = overlap["source_examples"]
    assert (other["source"], other["target"], other["trained"]) == (*HELD_OUT[2], GOOD[2][1])
    assert len(data["problems"]) == 1 and "2 of 4 pairs (50.0%) are training pairs too" in data["problems"][0]


def test_what_the_rules_do_not_judge_is_a_warning(tmp_path: Path) -> None:
    run = config_of(tmp_path, write(tmp_path, "first", GOOD), clean=schema.CleaningConfig())
    data = shown(dataclasses.replace(run, data=dataclasses.replace(run.data, source_language="mey")))
    assert [line for line in data["problems"] if line.startswith("data.clean")] == [
        "data.clean.language: mey is not among the languages that are identified reliably: not checked",
        "data.clean.script: the script of mey is not known: it is not checked",
    ]


def test_languages_are_guessed(tmp_path: Path) -> None:
    german = "Heute scheint die Sonne, und wir gehen mit den Kindern in den Park."
    english = "The sun is shining today, and we are going to the park with the children."
    pairs = [(f"{english} {i}", f"{german} {i}") for i in range(30)] + [(f"{german} {i}", "kurz") for i in range(10)]
    (corpus,) = shown(config_of(tmp_path, write(tmp_path, "mixed", pairs), max_length_ratio=None))["corpora"]
    source, target = corpus["guesses"]
    assert (source["lines"], dict(source["names"])) == (40, {"en": 30, "de": 10})
    assert (target["lines"], dict(target["names"])) == (30, {"de": 30})


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    """The page around it is what it was, and no character is lost."""
    config = config_of(tmp_path, write(tmp_path, "hostile", [(HOSTILE, f"{HOSTILE} {i}") for i in range(3)]))
    html = page(config, prepare(config))
    assert html.count("</script>") == 2 and "\x07" not in html and "☃" not in html
    elements = Elements(html)
    elements.check_nothing_from_elsewhere("b", "form")
    assert json.loads(elements.texts[1][1])["corpora"][0]["sample"][0] == [HOSTILE, f"{HOSTILE} 0"]


@pytest.mark.parametrize("mixed", ["weights", "nothing"])
def test_ten_corpora_and_their_mix(tmp_path: Path, mixed: str) -> None:
    corpora = []
    for number in range(10):
        pairs = [(f"{source} {number} {i}", f"{target} {number} {i}") for source, target in GOOD for i in range(6)]
        corpus = write(tmp_path, f"corpus{number}", pairs[: 10 + 2 * number])
        weight = {"weight": float(number + 1), "tag": "<bt>" if number else None} if mixed == "weights" else {}
        corpora.append(Corpus(file=corpus.file, **weight))
    config = config_of(tmp_path, *corpora)
    data = shown(config)
    assert [corpus["kept"] for corpus in data["corpora"]] == list(range(10, 30, 2))
    assert len(data["text"]) == 21
    (mix,) = data["mixes"]
    heading, *rows = mix["table"]
    assert heading[:-1] == ["corpus", "pairs", "weight", "share", "pairs per epoch", "passes per epoch"]
    epoch = sum(range(10, 30, 2))
    for number, row in enumerate(rows):
        size = 10 + 2 * number
        share = (number + 1) / 55 if mixed == "weights" else size / epoch
        weight, tag = (f"{number + 1}", "<bt>" if number else "–") if mixed == "weights" else ("–", "–")
        numbers = [f"{share:.1%}", f"{share * epoch:,.0f}", f"{share * epoch / size:.2f}"]
        assert row == [corpora[number].label, str(size), weight, *numbers, tag]


def test_each_stage_has_its_mix(tmp_path: Path) -> None:
    pairs = [(f"{source} {i}", f"{target} {i}") for source, target in GOOD for i in range(8)]
    first, second = (Corpus(file=write(tmp_path, name, pairs).file, name=name) for name in ("clean", "noisy"))
    stages = (schema.Stage(weights={"clean": 1, "noisy": 3}, steps=100), schema.Stage(temperature=2.0))
    mixes = shown(config_of(tmp_path, first, second, stages=stages))["mixes"]
    assert [mix["title"] for mix in mixes] == ["Stage 1, for 100 steps", "Stage 2, to the end"]
    assert [mix["note"] for mix in mixes] == ["Mixed: clean 25.0%, noisy 75.0%.", "Mixed: temperature 2."]
    assert [row[2:6] for row in mixes[0]["table"][1:]] == [["1", "25.0%", "20", "0.50"], ["3", "75.0%", "60", "1.50"]]
    assert [row[2:4] for row in mixes[1]["table"][1:]] == [["–", "50.0%"], ["–", "50.0%"]]


def test_corpora_of_several_languages(tmp_path: Path) -> None:
    """The same sources in another language are no validation sources."""
    german = Corpus(file=write(tmp_path, "german", GOOD).file)
    french = [(source, f"un deux {i}") for i, (source, _) in enumerate(GOOD)]
    other = Corpus(file=write(tmp_path, "french", french).file, languages=("en", "fr"))
    data = shown(config_of(tmp_path, german, other))
    assert [corpus["languages"] for corpus in data["corpora"]] == [["en", "de"], ["en", "fr"]]
    (overlap,) = data["overlaps"]
    assert overlap["languages"] == ["en", "de"]
    assert [row[1:] for row in overlap["table"][1:]] == [["2", "3"], ["0", "0"]]
    assert [row[0] for row in data["text"][1::2]] == [f"en of {german.label}", f"en of {other.label}"]
    assert data["text"][4][0] == f"fr of {other.label}"
    assert [row[-1] for row in data["mixes"][0]["table"][1:]] == ["<2de>", "<2fr>"]
    assert data["vocabularies"][0]["languages"] == "en, de, fr"
    assert [one["side"] for one in data["vocabularies"][0]["characters"]] == ["source (en)", "target (de, fr)"]


def test_the_vocabulary_of_augmented_text_is_marked(one: Config) -> None:
    augmented = replace(one, data=replace(one.data, augment=replace(one.data.augment, uppercase=0.5)))
    assert [shown(config)["vocabularies"][0]["augmented"] for config in (one, augmented)] == [False, True]


def test_it_needs_nothing_from_elsewhere(one: Config) -> None:
    html = page(one, prepare(one))
    Elements(html).check_nothing_from_elsewhere("form")
    source = SCRIPT + "".join(FOLDER.joinpath(f"page.{part}").read_text(encoding="utf-8") for part in ("html", "css"))
    source = source.replace("http://www.w3.org/2000/svg", "")  # a name
    assert not re.search(r"https?:|@import|url\(|import\(|fetch\(|XMLHttp|innerHTML|insertAdjacentHTML|eval\(", source)


def test_what_the_script_names_is_there(one: Config) -> None:
    prepared = prepare(one)
    elements = Elements(page(one, prepared))
    named = re.findall(r'\bat\("([a-z-]+)"\)', SCRIPT)
    assert len(named) > 10 and {*named, *elements.values("aria-labelledby")} <= elements.ids
    assert set(re.findall(r"\bdata\.([a-z]+)", SCRIPT)) - {"augment"} == to_data(one, prepared).keys()


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app.app, ["prepare", *map(str, arguments)])


def test_the_command_writes_the_page_and_says_where(one: Config, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(writer.to_yaml(one))
    plain = invoke(tmp_path / "config.yaml")
    done = invoke(tmp_path / "config.yaml", "--report", tmp_path / "data.html")
    assert (done.exit_code, done.stdout) == (0, f"{plain.stdout}{tmp_path / 'data.html'}\n")
    assert (tmp_path / "data.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("report", ["no/folder.html", "first.jsonl", "data.html.gz"])
def test_a_page_that_cannot_be_written_is_an_error_before_the_work(one: Config, tmp_path: Path, report: str) -> None:
    (tmp_path / "config.yaml").write_text(writer.to_yaml(one))
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    done = invoke(tmp_path / "config.yaml", "--report", tmp_path / report)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "another --report" in done.stderr or "output is not compressed" in done.stderr
    assert not (tmp_path / "run").exists()
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
