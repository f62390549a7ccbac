"""data.clean from the settings to the prepared data: what the rules drop is counted, shown, and dropped once."""

import dataclasses
import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.killed import killed_at_call, killed_at_operation

import nmt
from nmt.config import schema
from nmt.config.schema import CleaningConfig, Config, Corpus, DataConfig
from nmt.data.batches import token_store
from nmt.data.cleaning import cleaned_text, training_text
from nmt.data.cleaning import cleaner as cleaning
from nmt.data.cleaning.rules import judge
from nmt.data.prepare import PreparedData, prepare
from nmt.data.sources.corpus import Pair, read_pairs
from nmt.data.subwords import encoding
from nmt.errors import NmtError

ROWS = (Path(__file__).parents[2] / "helpers" / "cleaning_sentences.tsv").read_text(encoding="utf-8").split("\n")
GOOD = [(row.split("\t")[0], row.split("\t")[1]) for row in ROWS[1:] if row]  # English and German
FAULTS: dict[str, list[Pair]] = {
    "encoding": [(GOOD[1][0], GOOD[1][1].replace("ß", "ÃŸ").replace("ö", "Ã¶"))],
    "markup": [(f"<p>{GOOD[3][0]}</p>", GOOD[3][1]), (f"{GOOD[4][0]}<br/>", f"{GOOD[4][1]}<br/>")],
    "addresses": [("https://www.example.com/news/index.html", "https://www.example.com/aktuelles/index.html")],
    "symbols": [("| * ~ # = _ ^ / | * ~ # = _ ^ / one", "| * ~ # = _ ^ / | * ~ # = _ ^ / eins")],
    "repetition": [(f"{GOOD[5][0]} {'ha ' * 30}", GOOD[5][1])],
    "script": [("Привет, как у вас сегодня дела?", "Hallo, wie geht es Ihnen denn heute?")],
    "copies": [("Home News Shop Contact Login About", "Home News Shop Contact Login About us")],
    "digits": [(f"{GOOD[3][0]} 4711", f"{GOOD[3][1]} 815")],
    "language": [GOOD[2][::-1], GOOD[4][::-1], GOOD[7][::-1]],
    "near_duplicates": [(GOOD[3][0].upper(), GOOD[3][1]), (f"- {GOOD[4][0]}!", GOOD[4][1])],
}
COUNTS = {rule: len(pairs) for rule, pairs in FAULTS.items()}
PLANTED = [("", "leer"), *GOOD, *(pair for pairs in FAULTS.values() for pair in pairs)]


def write_corpus(folder: Path, name: str, pairs: list[Pair]) -> Corpus:
    folder.mkdir(exist_ok=True)
    files = [folder / f"{name}.{side}" for side in ("en", "de")]
    for side, file in enumerate(files):
        file.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return Corpus(source=str(files[0]), target=str(files[1]))


@pytest.fixture
def run(tmp_path: Path) -> Config:
    """A run on a corpus with planted faults and one that has nothing new."""
    train = (write_corpus(tmp_path, "faulty", PLANTED), write_corpus(tmp_path, "again", [("", "leer"), *GOOD[:5]]))
    data = DataConfig("en", "de", train, clean=CleaningConfig(), workers=1)
    return Config(run_dir=str(tmp_path / "run"), data=data, vocabulary=schema.VocabularyConfig(size=400))


def changed(run: Config, **data: Any) -> Config:
    return dataclasses.replace(run, data=dataclasses.replace(run.data, **data))


def with_rules(run: Config, **rules: Any) -> Config:
    assert run.data.clean
    return changed(run, clean=dataclasses.replace(run.data.clean, **rules))


def texts(prepared: PreparedData) -> list[Pair]:
    sides = prepared.train.pairs(np.arange(len(prepared.train)))
    both = (prepared.vocabulary.source, prepared.vocabulary.target)
    lines = [model.decode([ids.tolist() for ids in side]) for model, side in zip(both, sides, strict=True)]
    return list(zip(*lines, strict=True))


def stored(run: Config, prepared: PreparedData) -> dict[str, Any]:
    """Everything in the folder of the token store."""
    folder = Path(run.run_dir) / "data" / prepared.data_key
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="nmt")


# --------------------------------------------------------------------------- what is dropped


def test_planted_faults_are_dropped_counted_and_shown(run: Config) -> None:
    prepared = prepare(run)
    first, second = prepared.summary.counts
    assert first.rules == COUNTS
    assert (first.read, first.kept, first.empty) == (len(PLANTED), len(GOOD), 1)
    assert second.rules == {**dict.fromkeys(COUNTS, 0), "near_duplicates": 5}
    assert (second.read, second.kept, second.empty) == (6, 0, 1)
    assert texts(prepared) == GOOD
    heading, *rows = prepared.summary.tables()[1]
    assert [heading[1:], [int(cell) for cell in rows[0][1:]]] == [list(COUNTS), list(COUNTS.values())]
    assert [row[0] for row in rows] == [*prepared.summary.labels, "all"]
    examples, second_examples = token_store.examples(prepared.folder)
    dropped = {
        rule: {(one.source, one.target) for one in found.dropped_examples} for rule, found in examples.rules.items()
    }
    assert len(dropped.pop("empty")) == 1 and dropped == {rule: set(pairs) for rule, pairs in FAULTS.items()}
    assert {rule: found.dropped for rule, found in examples.rules.items()} == {"empty": 1, **COUNTS}
    assert len(second_examples.rules["near_duplicates"].dropped_examples) == 5
    for found in examples.rules.values():
        near = [one.score for one in found.nearly_dropped]
        assert near == sorted(near, reverse=True) and len(near) <= 10
        assert {(one.source, one.target) for one in found.nearly_dropped} <= set(GOOD) | set(FAULTS["near_duplicates"])
    assert examples.rules["symbols"].nearly_dropped and examples.rules["copies"].nearly_dropped
    assert "Ã¶" in (prepared.folder / "meta.json").read_text(encoding="utf-8")  # readable as it is


# --------------------------------------------------------------------------- decided once


def test_processes_and_shards_change_nothing(run: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(1)
    many = [dice.choice(PLANTED) for _ in range(150)]
    run = changed(run, train=(write_corpus(tmp_path, "many", many), *run.data.train), drop_duplicates=True)
    run = changed(run, augment=schema.AugmentConfig(typos=0.5))
    monkeypatch.setattr(cleaned_text, "CHUNK_PAIRS", 16)
    content = stored(run, prepare(run))
    monkeypatch.setattr(cleaned_text, "SHARD_CHUNKS", 2)
    monkeypatch.setattr(cleaning, "FIRST_CHUNKS", 3)
    monkeypatch.setattr(encoding, "FIRST_CHUNKS", 3)
    other = dataclasses.replace(changed(run, workers=2), run_dir=str(tmp_path / "other"))
    assert stored(other, prepare(other)) == content


def test_text_is_read_and_judged_once(run: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    judged, passes, real, reading = Counter[Pair](), list[str](), judge.judge, read_pairs

    def count(pairs: list[Pair], *more: Any) -> judge.Judgement:
        judged.update(pairs)
        return real(pairs, *more)

    def read(corpus: Corpus, *more: Any) -> Any:
        passes.append(corpus.label)
        return reading(corpus, *more)

    monkeypatch.setattr(judge, "judge", count)
    monkeypatch.setattr(training_text, "read_pairs", read)
    dropout = dataclasses.replace(run.vocabulary, bpe_dropout=0.1, bpe_dropout_samples=2, shared=False, size=330)
    prepared = prepare(dataclasses.replace(run, vocabulary=dropout))
    assert judged == Counter([*PLANTED[1:], *GOOD[:5]])
    assert passes == [one.label for one in run.data.train]
    assert texts(prepared) == [pair for pair in GOOD for _ in range(2)]


def test_the_cleaned_text_can_be_opened_and_trained_on(run: Config, tmp_path: Path) -> None:
    prepared = prepare(run)
    [folder] = (Path(run.run_dir) / "data").glob("text-*")
    corpus = Corpus(source=str(folder / "0-00000.source"), target=str(folder / "0-00000.target"))
    assert list(read_pairs(corpus, run.data, "train")) == GOOD
    again = prepare(dataclasses.replace(changed(run, train=(corpus,), clean=None), run_dir=str(tmp_path / "again")))
    assert texts(again) == texts(prepared)


@pytest.mark.parametrize("damage", [lambda text: text[: len(text) // 2], None])
def test_damaged_cleaned_text_is_one_line(run: Config, damage: Callable[[bytes], bytes] | None) -> None:
    prepare(run)
    [path] = (Path(run.run_dir) / "data").glob("text-*/0-00000.target")
    path.write_bytes(damage(path.read_bytes())) if damage else path.unlink()
    with pytest.raises(NmtError, match=r"text-\w+: damaged cleaned text \(0-00000.target.*: delete the folder to make"):
        prepare(changed(run, max_length=100))


# --------------------------------------------------------------------------- interrupted


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaned_text, "CHUNK_PAIRS", 4)
    monkeypatch.setattr(cleaned_text, "SHARD_CHUNKS", 2)


def repeated(run: Config, tmp_path: Path, first: Pair = GOOD[0]) -> Config:
    """A corpus with a pair that is dropped because it is the first one too."""
    pairs = [first, *GOOD[1:8], GOOD[0], *GOOD[8:]]
    return changed(run, train=(write_corpus(tmp_path, "repeated", pairs),), drop_duplicates=True)


def test_shards_of_text_that_has_changed_are_not_reused(
    run: Config, tmp_path: Path, small_shards: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor those after them, of which what was dropped depends on it."""
    monkeypatch.setattr(cleaned_text, "SHARD_CHUNKS", 1)

    def change(*arguments: Any) -> Any:
        repeated(run, tmp_path, first=("another", "ein anderer"))
        return read_pairs(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training_text, "read_pairs", change)
        with pytest.raises(NmtError, match="has changed while it was read: run the command again"):
            prepare(repeated(run, tmp_path))
    [unfinished] = (Path(run.run_dir) / "data").glob("text-*.unfinished")
    assert GOOD[0][0] in (unfinished / "0-00002.source").read_text(encoding="utf-8").split("\n")
    assert texts(prepare(repeated(run, tmp_path))) == GOOD


def files(run: Config) -> dict[str, bytes]:
    """All in the store, but for its lock."""
    store = Path(run.run_dir) / "data"
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in store.rglob("*")
        if path.is_file() and path.name != ".nmt-lock"
    }


def kill_at(operations: Iterable[int], run: Config, tmp_path: Path) -> None:
    """A preparation that is killed at its file operations of these numbers leaves nothing that changes the next."""
    run = changed(
        run,
        augment=schema.AugmentConfig(joined=0.3),
        drop_duplicates=True,
        validation=run.data.train[1:],
        validation_in_training="warn",
        workers=1,
    )
    run = dataclasses.replace(
        run, vocabulary=dataclasses.replace(run.vocabulary, bpe_dropout=0.1, bpe_dropout_samples=2)
    )
    prepare(undisturbed := dataclasses.replace(run, run_dir=str(tmp_path / "undisturbed")))
    for number in operations:
        mine = dataclasses.replace(run, run_dir=str(tmp_path / f"killed{number}"))
        if not killed_at_operation(number, Path(mine.run_dir) / "data", lambda mine=mine: prepare(mine)):
            break
        prepare(mine)
        assert files(mine) == files(undisturbed), number


@pytest.mark.usefixtures("small_shards")
def test_a_killed_preparation_leaves_nothing_half_done(run: Config, tmp_path: Path) -> None:
    kill_at((3, 37, 90), run, tmp_path)


@pytest.mark.usefixtures("small_shards")
def test_what_was_done_before_a_kill_is_not_done_again(
    run: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, calls = encoding.ChunkEncoder.__call__, Counter[str]()

    def counted(*arguments: Any) -> Any:
        calls["all"] += 1
        return real(*arguments)

    assert killed_at_call(6, encoding.ChunkEncoder, "__call__", lambda: prepare(run))
    prepare(changed(run, drop_copies=True))
    assert "is from an interrupted preparation with other settings: delete it if unused" in caplog.text
    caplog.clear()
    monkeypatch.setattr(encoding.ChunkEncoder, "__call__", counted)
    prepare(run)
    assert re.search("(cleaned|encoded) before is reused from", caplog.text)
    continued, calls["all"] = calls["all"], 0
    prepare(dataclasses.replace(run, run_dir=str(tmp_path / "undisturbed")))
    assert continued == calls["all"] - 4  # two shards were finished


# --------------------------------------------------------------------------- found again


def prepared_anew(run: Config, caplog: pytest.LogCaptureFixture) -> bool:
    caplog.clear()
    prepare(run)
    assert ("token store: " in caplog.text) and ("learned" in caplog.text) == ("kept in" in caplog.text)
    return "kept in" in caplog.text


def test_the_rules_are_a_part_of_what_prepared_data_is_found_by(
    run: Config, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepared_anew(run, caplog)
    assert not prepared_anew(run, caplog)
    for other in (
        with_rules(run, digits=None),
        with_rules(run, near_duplicates=False),
        changed(run, clean=None),
    ):
        assert prepared_anew(other, caplog), other.data.clean
        assert not prepared_anew(other, caplog)


# --------------------------------------------------------------------------- what cannot be checked


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [message for message in found if message.startswith("data.clean")]


def scored(run: Config, tmp_path: Path, lines: list[str], threshold: float | None = -5.0) -> Config:
    path = tmp_path / "faulty.scores"
    path.write_text("".join(f"{line}\n" for line in lines))
    first, second = run.data.train
    train = (dataclasses.replace(first, scores=str(path)), second)
    return with_rules(changed(run, train=train), score=threshold)


SCORES = [f"-9.5\t-20.25\t{-4 if number % 4 else -6 - number / 100:.6f}" for number in range(len(PLANTED))]


def test_scores_of_a_model_drop_pairs(run: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = scored(run, tmp_path, [SCORES[0], "", *SCORES[2:]])
    with pytest.raises(NmtError, match=r"faulty.scores:2: expected a score in the last column.*; found ''"):
        prepare(run)
    run = scored(run, tmp_path, [*SCORES[:4], "nan\tnan\tnan", *SCORES[5:]])
    prepared = prepare(run)
    expected = [pair for number, pair in enumerate(PLANTED) if pair in GOOD and (number % 4 or number == 4)]
    assert [pair for pair in texts(prepared) if pair in GOOD[5:]] == expected[5:]  # the first are in both corpora
    others = [pair for pair in PLANTED[8::4] if pair in [*GOOD, *FAULTS["near_duplicates"]]]
    assert prepared.summary.counts[0].rules["score"] == len(others) > 5
    assert warnings(caplog) == [
        f"data.clean.score: {tmp_path}/faulty.scores: pairs not checked, as their score is nan: 1",
        f"data.clean.score: {run.data.train[1].label} has no scores: it is not checked",
    ]
    found = token_store.examples(Path(run.run_dir) / "data" / prepared.data_key)[0].rules["score"]
    assert max(one.score for one in found.dropped_examples if one.score is not None) == pytest.approx(-6.08)
    assert {one.score for one in found.nearly_dropped} == {-4.0}  # as the setting is written


def test_scores_of_other_text(run: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaned_text, "CHUNK_PAIRS", 8)
    with pytest.raises(NmtError, match=r"faulty.scores: has fewer lines than .* has pairs: score the same text"):
        prepare(scored(run, tmp_path, SCORES[:-1]))


# --------------------------------------------------------------------------- cleaned by other programs


def test_rules_in_other_programs() -> None:
    kept = [*GOOD, *FAULTS["near_duplicates"]]
    for chunk in (PLANTED, PLANTED[::-1], PLANTED[:1], []):
        sources, targets = ([pair[side] for pair in chunk] for side in (0, 1))
        found = nmt.keeps(sources, targets, source_language="en", target_language="de")
        assert found == [pair in kept for pair in chunk]
    assert nmt.keeps([None, "a"], ["b", None], source_language="en", target_language="de") == [False, False]
    with pytest.raises(TypeError, match="takes lists of sources and of targets"):
        nmt.keeps("abc", "abc", source_language="en", target_language="de")
    [pair] = FAULTS["digits"]
    assert nmt.keeps([pair[0]], [pair[1]], source_language="en", target_language="de", clean="digits=null") == [True]
    for languages, clean, reason in (
        (("en", "de"), "digit=null", "did you mean digits"),
        (("en", "de"), "score=-5", "needs more than the text of a pair"),
        (("en", "xx"), "digits=null", r"the target language \(target_language, .*\): xx: no language has this code"),
    ):
        with pytest.raises(NmtError, match=reason):
            nmt.keeps(["a"], ["b"], source_language=languages[0], target_language=languages[1], clean=[clean])
