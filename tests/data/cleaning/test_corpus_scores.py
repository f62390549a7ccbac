"""Pairs are chosen by scores that corpora name: what is kept equals what plain Python keeps."""

import dataclasses
import json
import logging
import random
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import pytest
from helpers.killed import killed_at_operation

from nmt.config import reader
from nmt.config.schema import CleaningConfig, Config, Corpus, DataConfig, ScoreBounds, ScoreColumn, VocabularyConfig
from nmt.data.cleaning import cleaned_text, same_side
from nmt.data.cleaning import cleaner as cleaning
from nmt.data.cleaning.cleaned_text import CleanedText
from nmt.data.cleaning.training_text import TrainingText
from nmt.data.prepare import prepare
from nmt.data.sources.corpus import Pair, fingerprint
from nmt.errors import NmtError
from nmt.files.text import content_key
from nmt.pages.prepare.page import to_data

Row = tuple[str, str, float, float, float]  # source, target, kiwi, mx, margin


def word(number: int) -> str:
    return "".join("bdfgklmnpr"[int(digit)] + "o" for digit in str(number))


def rows(count: int = 240) -> list[Row]:
    """Pairs with few sources and targets, and scores with ties and gaps. Some targets differ only for a computer."""
    dice, made = random.Random(7), list[Row]()
    for number in range(count):
        target = f"Ein schöner Satz mit dem Wort {word(dice.randrange(count // 4))} steht hier"
        if number % 3 == 0:
            target = unicodedata.normalize("NFD", target).replace(" ", "  ")
        source = f"A nice sentence with the word {word(dice.randrange(count // 3))} is here"
        kiwi = nan if number % 17 == 0 else dice.randrange(20) / 20
        made.append((source, target, kiwi, dice.randrange(250) / 10, dice.uniform(0.9, 1.3)))
    return made


def text_of(value: float) -> str:
    return "" if isnan(value) else repr(value)


def as_csv(path: Path, table: list[Row]) -> None:
    lines = ["English;German;kiwi;MetricX;margin", *(";".join([*row[:2], *map(text_of, row[2:])]) for row in table)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def run_of(folder: Path, table: list[Row], **clean: Any) -> Config:
    """A table with two scores in columns, by heading and by number, and one in a file. No other rule is applied."""
    as_csv(folder / "web.csv", table)
    (folder / "web.kiwi").write_text("".join(f"x\t{text_of(row[2])}\n" for row in table))
    scores: dict[str, str | ScoreColumn] = {
        "kiwi": str(folder / "web.kiwi"),
        "mx": ScoreColumn("metricx"),
        "margin": ScoreColumn(5),
    }
    rules = CleaningConfig(**{"rules": "none"} | clean)
    data = DataConfig("en", "de", (Corpus(file=str(folder / "web.csv"), scores=scores),), clean=rules, workers=1)
    return Config(run_dir=str(folder / "run"), data=data, vocabulary=VocabularyConfig(size=300))


def cleaned(config: Config, store: Path | None = None) -> CleanedText:
    data = config.data
    keys = [fingerprint(corpus, data, "train") for corpus in data.train]
    return TrainingText(data, keys, store or Path(config.run_dir) / "data").cleaned


def pairs_of(text: CleanedText) -> list[Pair]:
    return [pair for _, pairs in text.chunks() for pair in pairs]


def kept(table: list[Row], keeps: Callable[[Row], bool]) -> list[Pair]:
    return [(row[0], row[1]) for row in table if keeps(row)]


def chosen(table: list[Row], side: int, most: int, key: Callable[[Row], float]) -> list[Row]:
    """At most so many rows with the same text on a side: a plain sort by quality, then by place."""
    groups = defaultdict(list)
    for place, row in enumerate(table):
        same = " ".join(unicodedata.normalize("NFC", row[:2][side]).split())
        groups[same].append((-inf if isnan(key(row)) else key(row), -place))
    best = {-place for group in groups.values() for _, place in sorted(group, reverse=True)[:most]}
    return [row for place, row in enumerate(table) if place in best]


def test_three_scores_of_different_scales_and_directions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = rows()
    bounds = {"kiwi": ScoreBounds(min=0.3), "mx": ScoreBounds(max=20), "margin": ScoreBounds(min=0.95, max=1.25)}
    text = cleaned(run_of(tmp_path, table, scores=bounds))
    assert pairs_of(text) == kept(table, lambda row: not row[2] < 0.3 and row[3] <= 20 and 0.95 <= row[4] <= 1.25)
    by_rule = text.counts[0].rules
    assert list(by_rule) == ["kiwi below 0.3", "mx above 20", "margin below 0.95", "margin above 1.25"]
    assert by_rule["kiwi below 0.3"] == sum(row[2] < 0.3 for row in table)
    assert sum(by_rule.values()) == len(table) - len(pairs_of(text))
    assert [reason.setting for reason in text.counts[0].dropped if "kiwi" in reason.reason] == [
        "data.clean.scores.kiwi"
    ]
    for rule, (low, high) in {"kiwi below 0.3": (0.3, 1), "mx above 20": (0, 20)}.items():
        found = text.examples[0].rules[rule]
        near = [one.score for one in found.nearly_dropped if one.score is not None]
        assert len(near) == 10 and low - 1e-6 <= min(near) and max(near) <= high
        away = [one.score for one in found.dropped_examples if one.score is not None]
        assert away and all(score < low or score > high for score in away)
    assert "kiwi: " in caplog.text and f"as their score is nan: {sum(isnan(row[2]) for row in table)}" in caplog.text


def test_the_best_share_of_a_corpus(tmp_path: Path) -> None:
    table = rows()
    for index, name, bound in ((3, "mx", ScoreBounds(keep_best=0.3, lower_is_better=True)),
                               (4, "margin", ScoreBounds(keep_best=0.3)),
                               (2, "kiwi", ScoreBounds(keep_best=0.25))):  # fmt: skip
        values = sorted((row[2:][index - 2] for row in table if not isnan(row[2:][index - 2])), reverse=name != "mx")
        assert bound.keep_best
        last = values[round(bound.keep_best * len(values)) - 1]
        folder = tmp_path / name
        folder.mkdir()
        expected = kept(table, lambda row, i=index, x=last, low=name == "mx": not (row[i] > x if low else row[i] < x))  # type: ignore[misc]
        assert pairs_of(cleaned(run_of(folder, table, scores={name: bound}))) == expected


@pytest.mark.parametrize("sides", [{"same_target": 1}, {"same_source": 2}, {"same_source": 1, "same_target": 2}])
def test_pairs_that_share_a_side_are_chosen_as_by_a_plain_sort(tmp_path: Path, sides: dict[str, int]) -> None:
    """Among the pairs that the bounds keep; by a score that is better high or low, or by their order."""
    table = rows()
    ways: list[tuple[dict[str, Any], Callable[[Row], float]]] = [
        ({"kiwi": ScoreBounds(min=0.2), "mx": ScoreBounds(max=22)}, lambda row: row[2]),
        ({"mx": ScoreBounds(max=22), "kiwi": ScoreBounds(min=0.2)}, lambda row: -row[3]),
    ]
    for number, (bounds, key) in enumerate(ways):
        folder = tmp_path / str(number)
        folder.mkdir()
        expected = [row for row in table if not row[2] < 0.2 and row[3] <= 22]
        for side, rule in enumerate(("same_source", "same_target")):
            expected = chosen(expected, side, sides[rule], key) if rule in sides else expected
        text = cleaned(run_of(folder, table, scores=bounds, **sides))
        assert pairs_of(text) == [row[:2] for row in expected]
        counts = text.counts[0].rules
        assert sum(counts[rule] for rule in sides) == len(
            kept(table, lambda row: not row[2] < 0.2 and row[3] <= 22)
        ) - len(expected)
        assert len(text.examples[0].rules[next(iter(sides))].dropped_examples) == 10
    folder = tmp_path / "order"
    folder.mkdir()
    run = run_of(folder, table, same_target=1)
    plain = dataclasses.replace(run.data.train[0], scores=None)
    run = dataclasses.replace(run, data=dataclasses.replace(run.data, train=(plain,)))
    assert pairs_of(cleaned(run)) == [row[:2] for row in chosen(table, 1, 1, lambda row: 0)]


def test_pairs_that_share_a_side_are_chosen_after_near_duplicates_are_dropped(tmp_path: Path) -> None:
    table = [more for row in rows() for more in (row, (row[0].upper(), row[1], 1.0, *row[3:]))]
    run = run_of(tmp_path, table, rules=("near_duplicates",), scores={"kiwi": ScoreBounds()}, same_target=1)

    def same(pair: Pair) -> str:
        return unicodedata.normalize("NFC", "".join("".join(pair).casefold().split()))

    folded = {same(row[:2]): row for row in table[::-1]}
    first = [row for row in table if any(row is one for one in folded.values())]
    assert 100 < len(first) <= 240
    assert pairs_of(cleaned(run)) == [row[:2] for row in chosen(first, 1, 1, lambda row: row[2])]


def test_corpora_of_the_same_languages_are_compared(tmp_path: Path) -> None:
    """A pair of a corpus without scores comes after those with one."""
    table = rows(40)
    run = run_of(tmp_path, table, scores={"kiwi": ScoreBounds()}, same_target=1)
    first = run.data.train[0]
    (tmp_path / "other").mkdir()
    as_csv(tmp_path / "other" / "web.csv", [*table[:5], ("new", "neu", 1, 1, 1)])
    other = Corpus(file=str(tmp_path / "other" / "web.csv"))
    alone = len(chosen([*table[:5], ("new", "neu", 1, 1, 1)], 1, 1, lambda row: 0))
    other_languages: dict[str, Any] = {"languages": ("en", "nl"), "source_column": "English", "target_column": "German"}
    for more, expected in (({}, 1), (other_languages, alone)):
        train = (dataclasses.replace(other, **more), first)
        text = cleaned(dataclasses.replace(run, data=dataclasses.replace(run.data, train=train)))
        assert text.counts[0].kept == expected


# --------------------------------------------------------------------------- continued, in other processes


def everything(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def chosen_run(tmp_path: Path) -> Config:
    bounds = {"mx": ScoreBounds(keep_best=0.8, max=24), "kiwi": ScoreBounds(min=0.1)}
    return run_of(tmp_path, rows(), scores=bounds, same_source=2, same_target=1, rules="all")


def test_processes_and_chunks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = chosen_run(tmp_path)
    expected = pairs_of(cleaned(run, tmp_path / "one"))
    assert 10 < len(expected) < 200
    monkeypatch.setattr(cleaned_text, "CHUNK_PAIRS", 7)
    monkeypatch.setattr(cleaned_text, "SHARD_CHUNKS", 3)
    monkeypatch.setattr(same_side, "SHARD_CHUNKS", 3)
    text = cleaned(run, tmp_path / "chunks")
    assert pairs_of(text) == expected
    monkeypatch.setattr(cleaning, "FIRST_CHUNKS", 4)
    two = dataclasses.replace(run, data=dataclasses.replace(run.data, workers=2))
    assert everything(cleaned(two, tmp_path / "two").folder) == everything(text.folder)


def test_a_killed_cleaning_continues_with_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaned_text, "CHUNK_PAIRS", 20)
    monkeypatch.setattr(cleaned_text, "SHARD_CHUNKS", 2)
    monkeypatch.setattr(same_side, "SHARD_CHUNKS", 2)
    run = chosen_run(tmp_path)
    expected = everything(cleaned(run, tmp_path / "whole").folder.parent)
    killed = 0
    for number in (4, 9, 17, 30, 45, 60, 75, 90):
        store = tmp_path / f"store{number}"
        killed += killed_at_operation(number, store, lambda store=store: cleaned(run, store))
        cleaned(run, store)
        assert everything(store) == expected, number
    assert killed >= 5


# --------------------------------------------------------------------------- where scores stand, and the key


def test_scores_of_json_lines_and_parquet(tmp_path: Path) -> None:
    table = rows(60)
    expected = kept(table, lambda row: not row[2] < 0.5)
    made = [{"en": row[0], "de": row[1], "by": {"kiwi": None if isnan(row[2]) else row[2]}} for row in table]
    made[1]["by"] = {"kiwi": str(table[1][2])}
    (tmp_path / "web.jsonl").write_text("".join(f"{json.dumps(row)}\n\n" for row in made), encoding="utf-8")
    files = ["web.jsonl"]
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    made[1]["by"] = {"kiwi": table[1][2]}
    parquet.write_table(pyarrow.Table.from_pylist(made), tmp_path / "web.parquet")
    for name in (*files, "web.parquet"):
        run = run_of(tmp_path, table, scores={"kiwi": ScoreBounds(min=0.5)})
        corpus = Corpus(file=str(tmp_path / name), scores={"kiwi": ScoreColumn("by.kiwi")})
        run = dataclasses.replace(run, data=dataclasses.replace(run.data, train=(corpus,)))
        assert pairs_of(cleaned(run, tmp_path / name.replace(".", "-"))) == expected
        wrong = dataclasses.replace(corpus, scores={"kiwi": ScoreColumn("kiwi")})
        with pytest.raises(NmtError, match=r"no column 'kiwi'; there are 'en', 'de', 'by\.kiwi'"):
            cleaned(dataclasses.replace(run, data=dataclasses.replace(run.data, train=(wrong,))))


def test_the_key_is_of_the_scores_and_not_of_the_files_name(tmp_path: Path) -> None:
    """And of the order of the bounds, as the first one chooses among pairs with one target."""
    run = run_of(tmp_path, rows(20))
    (corpus,), before = run.data.train, fingerprint(run.data.train[0], run.data, "train")
    assert isinstance(corpus.scores, dict)
    moved = (tmp_path / "web.kiwi").rename(tmp_path / "moved")
    other = dataclasses.replace(corpus, scores=corpus.scores | {"kiwi": str(moved)})
    assert fingerprint(other, run.data, "train") == before
    moved.write_text(moved.read_text() + " ")
    assert fingerprint(other, run.data, "train") != before
    column = dataclasses.replace(other, scores=other.scores | {"mx": ScoreColumn(5)})  # type: ignore[operator]
    assert fingerprint(column, run.data, "train") != fingerprint(other, run.data, "train")
    keys = set()
    for names in (("kiwi", "mx"), ("mx", "kiwi")):
        clean = CleaningConfig(scores={name: ScoreBounds() for name in names}, same_target=1)
        keys.add(content_key(TrainingText(dataclasses.replace(run.data, clean=clean), [], tmp_path).key))
    assert len(keys) == 2


def test_wrong_scores_are_one_line_before_any_work(tmp_path: Path) -> None:
    table = rows(30)
    path = tmp_path / "web.kiwi"

    def of(scores: dict[str, str | ScoreColumn]) -> Config:
        run = run_of(tmp_path, table, scores={name: ScoreBounds(min=0) for name in scores})
        return dataclasses.replace(
            run, data=dataclasses.replace(run.data, train=(dataclasses.replace(run.data.train[0], scores=scores),))
        )

    def wrong() -> Iterator[tuple[Config, str]]:
        yield of({"a": ScoreColumn("kiwy")}), r"web.csv: no column 'kiwy': columns of a .csv file are numbered"
        yield of({"a": ScoreColumn(6)}), "no column 6: the first row has 5"
        yield of({"a": ScoreColumn("German")}), "pair 1: expected a score in the column German; found 'Ein"
        run = of({"kiwi": str(path)})
        for text, message in (
            ("0.5\n" * 29, "web.kiwi: has fewer lines than .*web.csv has pairs"),
            ("0.5\n" * 31, "web.kiwi: has more lines than .*web.csv has pairs"),
            ("0.5\n0,5\n" * 15, "web.kiwi:2: expected a score in the last column; found '0,5'"),
            ("0.5\n1e39\n" * 15, "web.kiwi:2: expected a score in the last column; found '1e39'"),
        ):
            path.write_text(text)
            yield run, message
        long = tmp_path / "long"
        long.write_text("0.5\n" * 31)
        right = tmp_path / "right"
        right.write_text("0.5\n" * 30)
        for scores in ({"a": str(long), "b": str(right)}, {"a": str(right), "b": str(long)}):
            yield of(dict(scores)), "long: has more lines than .*web.csv has pairs"

    for run, message in wrong():
        with pytest.raises(NmtError, match=message) as error:
            prepare(run)
        assert "\n" not in str(error.value)
        assert not list((Path(run.run_dir) / "data").glob("text-*")), message


# --------------------------------------------------------------------------- rules alone, and the page


@pytest.mark.parametrize(("written", "on"), [("none", []), ("all", None), ("[digits, near_duplicates]", ["digits"])])
def test_rules_are_applied_alone(written: str, on: list[str] | None) -> None:
    applied = reader.parse(CleaningConfig, f"{{rules: {written}, same_target: 1}}", "clean").applied
    assert applied.same_target == 1
    if on is None:
        assert applied == CleaningConfig(same_target=1)
        return
    assert [name for name in ("digits", "script", "language", "encoding") if getattr(applied, name) is not None] == on
    assert applied.near_duplicates == bool(on)


@pytest.mark.parametrize("value", [0.0, 0.5, -7.0, 1e30])
def test_the_page_shows_a_score_with_one_value(tmp_path: Path, value: float) -> None:
    run = run_of(tmp_path, [(*row[:3], value, row[4]) for row in rows(60)])
    (corpus,) = to_data(run, prepare(run))["corpora"]
    mx = corpus["scores"][1]
    assert sum(mx["bars"]) == 1001 and mx["range"] == pytest.approx([value] * 3) and mx["edges"][0] < mx["edges"][-1]


def test_the_page_shows_each_score(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="nmt")
    table = rows()
    run = run_of(
        tmp_path, table, scores={"mx": ScoreBounds(max=20), "margin": ScoreBounds(keep_best=0.9)}, same_target=3
    )
    prepared = prepare(run)
    (corpus,) = to_data(run, prepared)["corpora"]
    assert [score["name"] for score in corpus["scores"]] == ["kiwi", "mx", "margin"]
    kiwi, mx, _ = corpus["scores"]
    assert (kiwi["pairs"], kiwi["missing"]) == (240, sum(isnan(row[2]) for row in table))
    assert sum(mx["bars"]) == 1001 and mx["range"][0] == pytest.approx(min(row[3] for row in table))
    for bound, above, below in mx["table"][1:]:
        shares = [
            sum(row[3] >= float(bound) for row in table) / 240,
            sum(row[3] <= float(bound) for row in table) / 240,
        ]
        assert [float(above[:-1]) / 100, float(below[:-1]) / 100] == pytest.approx(shares, abs=0.006)
    drops = {drop["reason"]: drop for drop in corpus["drops"]}
    assert drops["mx above 20"]["limit"] == "{max: 20}" or drops["mx above 20"]["limit"] == "{max: 20.0}"
    assert drops["mx above 20"]["dropped"] and drops["mx above 20"]["near"]
    assert "margin not in the best 90%" in drops and drops["more pairs with the same target"]["dropped"]
    assert re.search("mx above 20", str(prepared.summary))
