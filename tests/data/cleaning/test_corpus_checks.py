"""Warnings of corpora that look wrong: each mistake is seen, and nothing is said of a corpus that is right."""

import logging
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from nmt.config import schema
from nmt.config.schema import Config, Corpus, DataConfig
from nmt.data.cleaning import corpus_checks
from nmt.data.cleaning.rules.judge import MEANINGS
from nmt.data.cleaning.score_survey import survey
from nmt.data.cleaning.summary import CorpusCounts
from nmt.data.cleaning.tokenized_text import TokenizerTraces
from nmt.data.prepare import prepare
from nmt.data.sources.corpus import Pair
from nmt.errors import NmtError
from nmt.pages.prepare.page import to_data

TEXTS = (
    "the house of and to water is that for man with are stone on light under tree",
    "das Haus von und der Wasser ist nicht die Mann mit den Stein eine Licht ein Baum",
)
ENGLISH, GERMAN = (text.split() for text in TEXTS)


def pairs(count: int, seed: int = 1) -> list[Pair]:
    """Pairs of 3 to 20 words, word by word; every fourth with a number."""
    draw = random.Random(seed)
    found = []
    for line in range(count):
        words = draw.choices(range(len(ENGLISH)), k=draw.randint(3, 20))
        number = f" {draw.randint(1, 10**6)}" if line % 4 == 0 else ""
        found.append(tuple(" ".join(language[word] for word in words) + number for language in (ENGLISH, GERMAN)))
    return found


def turned(of: Sequence[Pair]) -> list[Pair]:
    return [(target, source) for source, target in of]


def shuffled(of: Sequence[Pair]) -> list[Pair]:
    targets = [target for _, target in of]
    random.Random(2).shuffle(targets)
    return list(zip([source for source, _ in of], targets, strict=True))


def shifted(of: Sequence[Pair], by: int) -> list[Pair]:
    """Each source beside the target of the pair that comes `by` pairs before."""
    sources, targets = zip(*of, strict=True)
    there = [(sources[line], targets[line - by]) for line in range(len(of)) if 0 <= line - by < len(of)]
    return list(there)


def said(of: Sequence[Pair], languages: tuple[str, str] = ("en", "de"), validation: Sequence[Pair] = ()) -> list[str]:
    return list(corpus_checks.text_problems("corpus", of, languages, validation))


UNKNOWN = ("qaa", "qab")  # codes for private use


@pytest.mark.parametrize("count", [2, 300])
@pytest.mark.parametrize("languages", [("EN_us", "de-AT"), UNKNOWN, ("en", "qab")])
def test_nothing_is_said_of_what_is_right(count: int, languages: tuple[str, str]) -> None:
    right, held_out = pairs(count), pairs(400, seed=2)
    assert said(right, languages, held_out) == []
    assert said(turned(right), languages[::-1], turned(held_out)) == []


@pytest.mark.parametrize("count", [5, 299])
def test_too_few_pairs_tell_nothing(count: int) -> None:
    few = pairs(count)
    for wrong in (shuffled(few), shifted(few, 1), turned(few)):
        assert said(wrong, validation=pairs(400, seed=2)) == []
    assert said(turned(pairs(400)), UNKNOWN, pairs(count)) == []


def test_unrelated_files() -> None:
    for count in (300, 5000):
        [warning] = said(shuffled(pairs(count)))
        assert warning.startswith("corpus: the sides do not look like translations of each other: the correlation")


@pytest.mark.parametrize(("by", "lines"), [(1, (1, 2)), (-3, (4, 1))])
def test_files_that_are_shifted_against_each_other(by: int, lines: tuple[int, int]) -> None:
    [warning] = said(shifted(pairs(600), by))
    assert warning.endswith(f"line {lines[0]} of the source belongs to line {lines[1]} of the target")


def test_swapped_files_by_their_scripts() -> None:
    cyrillic = str.maketrans("abdehimnorstuvw", "абдехимнорстувв")
    right = [(source, target.lower().translate(cyrillic)) for source, target in pairs(300)]
    assert said(right, ("en", "ru")) == said(turned(right), ("ru", "en")) == said(right, ("ru", "uk")) == []
    for languages in (("ru", "en"), ("ru", "qaa"), ("uk", "en")):
        [warning] = said(right, languages)
        assert "seem to be swapped" in warning


def test_swapped_files_by_the_validation_text() -> None:
    [warning] = said(turned(pairs(300)), UNKNOWN, pairs(300, seed=2))
    assert warning.startswith("corpus: the sides seem to be swapped, here or in data.validation")


@pytest.mark.parametrize(
    ("count", "warned"),
    [
        (CorpusCounts(read=100, ratio=51), True), (CorpusCounts(read=100, ratio=50), False),
        (CorpusCounts(read=99, empty=99), False),
    ],
)  # fmt: skip
def test_more_than_half_dropped(count: CorpusCounts, warned: bool) -> None:
    assert bool(list(corpus_checks.mostly_dropped("corpus", count))) == warned


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (None, None), ((-6.0, -0.5), None), ((-4.0, -0.5), "no pair, as the scores are from -4 "),
        ((-9.0, -5.01), "every pair, as the scores are from -9 to -5.01: choose a limit between them"),
    ],
)  # fmt: skip
def test_scores_on_one_side_of_the_limit(scores: tuple[float, float] | None, said: str | None) -> None:
    found = survey(np.array(scores or [np.nan], np.float32).repeat(50))
    warnings = list(corpus_checks.scores_on_one_side("web", found, -5))
    assert len(warnings) == (said is not None)
    for warning in warnings:
        assert re.match(f"web: data.clean.score: -5 drops {said}", warning)
    assert list(corpus_checks.scores_on_one_side("web", found | {"pairs": 99}, -5)) == []
    assert list(corpus_checks.scores_on_one_side("web", found, None)) == []
    assert list(corpus_checks.scores_on_one_side("web", None, -5)) == []


URLS = [f"https://example.org/{i}?page={i}" for i in range(400)]


def test_sides_that_are_no_sentences() -> None:
    of = pairs(400)
    for side, source, target, kind, example in (
        ("source", URLS, None, "web or mail addresses", URLS[0]),
        ("target", None, [f"0.{i}" for i in range(400)], "text without letters", "0.0"),
    ):
        columns = zip(source or [a for a, _ in of], target or [b for _, b in of], strict=True)
        wrong = list(columns)
        assert said(wrong) == [
            f"corpus: the {side} is {kind} in 400 of the first 400 pairs, such as {example!r}: correct the files or "
            "columns"
        ]
        assert len(said(wrong[:201] + of[201:])) == 1 and said(wrong[:100] + of[100:]) == []


@pytest.mark.parametrize("count", [511, 513, 5000])
def test_a_sample_is_at_equal_distances(count: int) -> None:
    numbers = [int(source) for source, _ in corpus_checks.sample([(str(i), "") for i in range(count)])]
    steps = {after - before for before, after in pairwise([*numbers, count])}
    assert len(numbers) == min(count, 512) and numbers[:1] == [0][:count]
    assert steps <= {count // 512 or 1, -(-count // 512)}


def language_said(of: Sequence[Pair], languages: tuple[str, str]) -> list[str]:
    return list(corpus_checks.other_language("corpus", of, languages))


def test_a_side_in_another_language() -> None:
    of = pairs(400)
    [warning] = language_said(of, ("en", "fr"))
    assert re.match(
        r"corpus: the target is declared as fr, but of \d+ sampled lines \d+ \(\d+%\) are in de \(", warning
    )
    [warning] = language_said(of, ("sw", "de"))
    assert warning.startswith("corpus: the source is declared as sw") and "are in en (English)" in warning
    assert len(language_said(turned(of), ("fr", "sw"))) == 2
    assert len(language_said(of[:250] + turned(of[250:]), ("de", "qaa"))) == 1


def test_what_no_identifier_can_be_sure_of_is_not_said_to_be_another_language() -> None:
    of = pairs(400)
    for right in (
        ("en", "de"),
        ("en-GB", "de-AT"),
        ("qaa", "qab"),
        ("oc", "bs"),
        ("english", "??"),
        ("x-klingon", "zxx"),
    ):
        assert language_said(of, right) == []
    assert language_said(of[:180] + turned(of[180:300]), ("en", "de")) == []  # fewer than half
    assert language_said(turned(of), ("en", "de")) == []  # rule 3 says it
    short = [(source[:25], target[:25]) for source, target in of]
    numbers = [(f"{i:,} {i * 7919} / {i / 3:.9f} {'8' * 40}", "12:30, 3.5 % — 100 €" * 3) for i in range(400)]
    for unsure in (short, numbers, of[:90], []):
        assert language_said(unsure, ("fr", "sw")) == []
    norwegian = "Jeg vet ikke hvor han er, men jeg tror han kommer hjem i morgen og kjøper melk"
    serbian = "Ne znam gde je on, ali mislim da će sutra doći kući i kupiti mleko"
    malay = "Saya tidak tahu di mana dia berada, tetapi saya rasa dia akan pulang esok"
    mixed = [(malay, norwegian)] * 60 + [(norwegian, malay)] * 40
    assert language_said(mixed, ("ms", "nn")) == [] and len(language_said(mixed, ("nn", "qaa"))) == 1
    close = [(norwegian, serbian)] * 200, [(norwegian, malay)] * 200
    for source in ("no", "nb", "nn"):
        for sample, targets in zip(close, (("sr", "hr", "bs", "sr-Latn"), ("ms", "id")), strict=True):
            for target in targets:
                assert language_said(sample, (source, target)) == []


PLAIN = [(f"It's {i}, isn't it.", f"Es ist {i}, oder.") for i in range(200)]
TOKENIZED = [(source, target.replace(",", " ,").replace(".", " .")) for source, target in PLAIN]
ESCAPED = [(source.replace("'", "&apos;"), target) for source, target in PLAIN]
SUBWORDS = [(source, target.replace("oder", "od@@ er")) for source, target in PLAIN]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([PLAIN, PLAIN], ["", ""]),
        (
            [PLAIN, [(target, target) for _, target in TOKENIZED]],
            ["", "the source of this corpus looks tokenized and the source of 0 does not"],
        ),
        ([ESCAPED, PLAIN], ["the source is", "1: the source of 0 is escaped and the source of this corpus is not"]),
        ([PLAIN, SUBWORDS], ["", "the target is split into subwords and the source is not"]),
    ],
)  # fmt: skip
def test_text_as_tokenizers_write_it_beside_other_text(texts: list[list[Pair]], expected: list[str]) -> None:
    first: dict[str, tuple[str, TokenizerTraces]] = {}
    for number, (text, part) in enumerate(zip(texts, expected, strict=True)):
        found = list(corpus_checks.tokenized(str(number), text, ("en", "de"), first))
        assert len(found) == bool(part) and all(
            part in warning and warning.startswith(f"{number}: ") for warning in found
        )


def test_a_sentence_that_many_pairs_share() -> None:
    for counts, kept, sides in (
        ([("Yes.", 21), ("Ja.", 20)], 400, ["source"]), ([None, ("Ja.", 267)], 400, ["target"]),
        ([None, None], 400, []), ([("Yes.", 100), None], 299, []), ([], 400, []),
    ):  # fmt: skip
        found = list(corpus_checks.repeated("corpus", counts, kept))
        assert [warning.partition(" have the same ")[2].partition(",")[0] for warning in found] == sides
    [warning] = corpus_checks.repeated("corpus", [None, ("x" * 99, 267)], 400)
    assert warning == (
        f"corpus: 267 of 400 pairs (67%) have the same target, '{'x' * 60}…': if it is not a translation, remove them"
    )


# ------------------------------------------------------------------------ as `nmt prepare` says it


def write(folder: Path, name: str, of: Sequence[Pair]) -> Corpus:
    for side, suffix in enumerate(("en", "de")):
        (folder / f"{name}.{suffix}").write_text("".join(f"{pair[side]}\n" for pair in of), encoding="utf-8")
    return Corpus(source=str(folder / f"{name}.en"), target=str(folder / f"{name}.de"))


def test_prepare_says_each_on_a_line_of_its_own_and_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    right, held_out = write(tmp_path, "right", pairs(400)), write(tmp_path, "held-out", pairs(300, seed=2))
    swapped = write(tmp_path, "swapped", turned(pairs(400, seed=3)))
    repeated = write(tmp_path, "repeated", pairs(400)[:40] * 10)
    unrelated = write(tmp_path, "unrelated", shuffled(pairs(300, seed=4)))
    data = DataConfig("en", "de", (right, swapped, repeated), validation=unrelated, drop_duplicates=True)
    run = Config(run_dir=str(tmp_path / "run"), data=data, vocabulary=schema.VocabularyConfig(size=300))
    for _ in ("built", "found again"):
        caplog.clear()
        prepare(run)
        warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert [warning.split(": ")[0] for warning in warnings] == [
            repeated.label, f"data.validation, {unrelated.label}", swapped.label
        ]  # fmt: skip
    few = Config(run_dir=str(tmp_path / "few"), data=replace(data, train=(repeated, swapped)))
    for size, error in ((5000, "vocabulary.size: 5000 is too large"), (20, "vocabulary.size: 20 is too small")):
        caplog.clear()
        with pytest.raises(NmtError, match=error):
            prepare(replace(few, vocabulary=schema.VocabularyConfig(size=size)))
        warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert [warning.split(": ")[0] for warning in warnings] == [
            repeated.label, f"data.validation, {unrelated.label}", swapped.label
        ]  # fmt: skip
    caplog.clear()
    prepare(replace(run, data=replace(data, train=(right,), validation=held_out)))
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]


def warnings_of(run: Config, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    prepare(run)
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_prepare_warns_of_what_a_sample_shows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In a model of several directions too; again from what is stored; and the page has it."""
    right, wrong = write(tmp_path, "right", pairs(400)), write(tmp_path, "wrong", pairs(400, seed=2))
    echo = write(
        tmp_path, "echo", [(source, "Ja." if i % 3 else target) for i, (source, target) in enumerate(pairs(600))]
    )
    (tmp_path / "scores").write_text("0.5\n" * 399 + "nan\n")
    train = (
        replace(right, scores=str(tmp_path / "scores")), replace(wrong, languages=("en", "sv")),
        replace(echo, reversed=True)
    )  # fmt: skip
    rules = schema.CleaningConfig(**dict.fromkeys(MEANINGS) | {"score": -5.0, "near_duplicates": False})
    data = DataConfig("en", "de", train, validation=replace(wrong, languages=("en", "sv")), clean=rules)
    run = Config(run_dir=str(tmp_path / "run"), vocabulary=schema.VocabularyConfig(size=320), data=data)
    run = replace(run, data=replace(data, validation_in_training="warn", max_length_ratio=None))
    for _ in ("built", "found again"):
        found = warnings_of(run, caplog)
        for start in (
            f"{right.label}: data.clean.score: -5 drops no pair, as the scores are from 0.5 to 0.5: ",
            f"{wrong.label}: the target is declared as sv, but of ",
            f"data.validation, {wrong.label}: the target is declared as sv, but of ",
            f"{replace(echo, reversed=True).label}: 400 of 600 pairs (67%) have the same source, 'Ja.': ",
        ):
            assert len([warning for warning in found if warning.startswith(start)]) == 1, (start, found)
    shown = to_data(run, prepare(run))
    assert shown["corpora"][2]["commonest"][0] == ["Ja.", 400]
    assert sum("declared as sv" in problem for problem in shown["problems"]) == 2


@pytest.mark.parametrize(
    ("codes", "same"),
    [
        (("de", "deu"), True), (("de", "de-AT"), False), (("xx", "x1"), False),
    ],
)  # fmt: skip
def test_two_codes_of_one_language(codes: tuple[str, str], same: bool) -> None:
    train = tuple(Corpus(file=f"{code}.tsv", languages=("en", code)) for code in codes)
    found = list(corpus_checks.language_problems(DataConfig("en", "de", train)))
    said = f"data: {codes[0]} and {codes[1]} are the same language, but two to the model: use one code everywhere"
    assert [problem for problem in found if "no language has this code" not in problem] == ([said] if same else [])


def test_a_code_that_is_no_language() -> None:
    train = (Corpus(file="a.tsv"), Corpus(file="b.tsv", languages=("pt-BR", "zh_TW")))
    found = list(corpus_checks.language_problems(DataConfig("english", "de", train)))
    assert found == ["data: english: no language has this code: write it as in BCP 47, such as en, pt-BR or sr-Latn"]


def test_copies_are_no_translations() -> None:
    of = pairs(400)
    copied = [(source, source) for source, _ in of]
    same = "corpus: source and target are the same text in {} of the first 400 pairs: correct the files or columns"
    assert said(copied) == [same.format(400)]
    assert said(copied[:201] + of[201:]) == [same.format(201)]
    assert said(copied[:200] + of[200:]) == []
    for rewritten in (("en", "en"), ("en", "EN"), ("en-GB", "en_US")):
        assert said(copied, rewritten) == []


def test_all_missing_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "there.en").write_text("a\n")
    train = (Corpus(source=str(tmp_path / "there.en"), target=str(tmp_path / "x.de")), Corpus(file="y.tsv"))
    run = Config(run_dir=str(tmp_path / "run"), data=DataConfig("en", "de", train))
    with pytest.raises(NmtError, match=rf"^data\.train: 2 files are missing in .*: {tmp_path}/x\.de, y\.tsv$"):
        prepare(run)
    with pytest.raises(NmtError, match=rf"^data\.train: {tmp_path}/x\.de: no such file$"):
        prepare(replace(run, data=replace(run.data, train=train[:1])))
    assert not (tmp_path / "run").exists()
