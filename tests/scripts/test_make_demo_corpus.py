"""The demonstration corpus: exact numbers, times and grammar, and three files that share nothing."""

import re
import subprocess
import sys
from collections import Counter
from datetime import date
from itertools import islice
from pathlib import Path

import pytest
from helpers.scripts import SCRIPTS, load
from hypothesis import given
from hypothesis import strategies as st

SCRIPT = SCRIPTS / "make_demo_corpus.py"
corpus = load("make_demo_corpus")
SAMPLE: list[tuple[str, str]] = list(islice(corpus.sentences(seed=11), 10_000))


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


# ---- Numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "english", "german"),
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (20, "twenty", "zwanzig"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (66, "sixty-six", "sechsundsechzig"),
        (77, "seventy-seven", "siebenundsiebzig"),
        (100, "one hundred", "einhundert"),
        (101, "one hundred and one", "einhunderteins"),
        (111, "one hundred and eleven", "einhundertelf"),
        (999, "nine hundred and ninety-nine", "neunhundertneunundneunzig"),
        (1000, "one thousand", "eintausend"),
        (1001, "one thousand and one", "eintausendeins"),
        (1100, "one thousand one hundred", "eintausendeinhundert"),
        (2016, "two thousand and sixteen", "zweitausendsechzehn"),
        (21_021, "twenty-one thousand and twenty-one", "einundzwanzigtausendeinundzwanzig"),
        (101_000, "one hundred and one thousand", "einhunderteintausend"),
        (342_000, "three hundred and forty-two thousand", "dreihundertzweiundvierzigtausend"),
        (
            701_730,
            "seven hundred and one thousand seven hundred and thirty",
            "siebenhunderteintausendsiebenhundertdreißig",
        ),
        (
            999_999,
            "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
            "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
        ),
    ],
)
def test_numbers(n: int, english: str, german: str) -> None:
    assert corpus.english_number(n) == english
    assert corpus.german_number(n) == german


GERMAN_TENS = ("zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")
GERMAN_SMALL = {"": 0, "null": 0, "ein": 1, "eins": 1, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6,
                "sieben": 7, "acht": 8, "neun": 9, "zehn": 10, "elf": 11, "zwölf": 12, "dreizehn": 13,
                "vierzehn": 14, "fünfzehn": 15, "sechzehn": 16, "siebzehn": 17, "achtzehn": 18,
                "neunzehn": 19}  # fmt: skip


def read_german(word: str) -> int:
    """Read a German number word, by taking it apart rather than by building it."""
    for name, size in (("tausend", 1000), ("hundert", 100)):
        if name in word:
            head, tail = word.split(name)
            return size * read_german(head) + read_german(tail)
    for ten, name in enumerate(GERMAN_TENS, 2):
        if word.endswith(name):
            return 10 * ten + read_german(word.removesuffix(name).removesuffix("und"))
    return GERMAN_SMALL[word]


@given(st.integers(0, 999_999))
def test_german_numbers_read_back(n: int) -> None:
    assert read_german(corpus.german_number(n)) == n


def test_numbers_are_all_different() -> None:
    sample = [*range(2000), *range(2000, 1_000_000, 997)]
    for name in (corpus.english_number, corpus.german_number):
        assert len({name(n) for n in sample}) == len(sample)


# ---- Times, dates, prices ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hour", "minute", "english", "german"),
    [
        (1, 0, "one o'clock", "ein Uhr"),
        (3, 0, "three o'clock", "drei Uhr"),
        (12, 0, "twelve o'clock", "zwölf Uhr"),
        (1, 5, "five past one", "fünf nach eins"),
        (4, 10, "ten past four", "zehn nach vier"),
        (8, 15, "quarter past eight", "Viertel nach acht"),
        (5, 20, "twenty past five", "zwanzig nach fünf"),
        (6, 25, "twenty-five past six", "fünf vor halb sieben"),
        (3, 30, "half past three", "halb vier"),
        (12, 30, "half past twelve", "halb eins"),
        (6, 35, "twenty-five to seven", "fünf nach halb sieben"),
        (10, 40, "twenty to eleven", "zwanzig vor elf"),
        (8, 45, "quarter to nine", "Viertel vor neun"),
        (12, 45, "quarter to one", "Viertel vor eins"),
        (11, 50, "ten to twelve", "zehn vor zwölf"),
        (12, 55, "five to one", "fünf vor eins"),
    ],
)
def test_clock(hour: int, minute: int, english: str, german: str) -> None:
    assert corpus.clock(hour, minute) == (english, german)


def test_every_clock_time_is_told_differently() -> None:
    told = [corpus.clock(hour, minute) for hour in range(1, 13) for minute in range(0, 60, 5)]
    for side in zip(*told, strict=True):
        assert len(set(side)) == 144


@pytest.mark.parametrize(
    ("year", "english", "german"),
    [
        (1700, "seventeen hundred", "siebzehnhundert"),
        (1805, "eighteen oh five", "achtzehnhundertfünf"),
        (1984, "nineteen eighty-four", "neunzehnhundertvierundachtzig"),
        (2000, "two thousand", "zweitausend"),
        (2007, "two thousand and seven", "zweitausendsieben"),
        (2019, "twenty nineteen", "zweitausendneunzehn"),
    ],
)
def test_years(year: int, english: str, german: str) -> None:
    assert corpus.year_name(year) == (english, german)


@pytest.mark.parametrize(
    ("n", "english", "german"),
    [
        (1, "first", "erst"),
        (2, "second", "zweit"),
        (3, "third", "dritt"),
        (4, "fourth", "viert"),
        (5, "fifth", "fünft"),
        (6, "sixth", "sechst"),
        (7, "seventh", "siebt"),
        (8, "eighth", "acht"),
        (9, "ninth", "neunt"),
        (11, "eleventh", "elft"),
        (12, "twelfth", "zwölft"),
        (17, "seventeenth", "siebzehnt"),
        (20, "twentieth", "zwanzigst"),
        (21, "twenty-first", "einundzwanzigst"),
        (30, "thirtieth", "dreißigst"),
        (31, "thirty-first", "einunddreißigst"),
    ],
)
def test_ordinals(n: int, english: str, german: str) -> None:
    assert corpus.english_ordinal(n) == english
    assert corpus.german_ordinal(n) == german


def test_dates() -> None:
    day = date(1984, 5, 3)  # a Thursday
    assert corpus.calendar(day, weekday=False, year=False, on=True) == (
        "on the third of May",
        "am dritten Mai",
    )
    assert corpus.calendar(day, weekday=True, year=False, on=True) == (
        "on Thursday, the third of May,",
        "am Donnerstag, dem dritten Mai,",
    )
    assert corpus.calendar(day, weekday=True, year=True, on=False) == (
        "Thursday, the third of May nineteen eighty-four,",
        "Donnerstag, der dritte Mai neunzehnhundertvierundachtzig,",
    )


@pytest.mark.parametrize(
    ("euros", "cents", "english", "german"),
    [
        (1, 0, "one euro", "ein Euro"),
        (1, 1, "one euro and one cent", "ein Euro und ein Cent"),
        (12, 50, "twelve euros and fifty cents", "zwölf Euro und fünfzig Cent"),
        (101, 0, "one hundred and one euros", "einhundertein Euro"),
        (342_000, 0, "three hundred and forty-two thousand euros", "dreihundertzweiundvierzigtausend Euro"),
    ],
)
def test_prices(euros: int, cents: int, english: str, german: str) -> None:
    assert corpus.price(euros, cents) == (english, german)


# ---- Grammar -------------------------------------------------------------------------------------------

NOUN = {noun.en: noun for nouns in corpus.NOUNS.values() for noun in nouns}
VERB = {verb.en: verb for verb in reversed(corpus.VERBS)}
MY = corpus.POSSESSIVES["I"]


@pytest.mark.parametrize(
    ("determiner", "noun", "plural", "english", "cases"),
    [
        (corpus.THE, "man", False, "the old man", ["der alte Mann", "den alten Mann", "dem alten Mann"]),
        (corpus.A, "man", False, "an old man", ["ein alter Mann", "einen alten Mann", "einem alten Mann"]),
        (corpus.A, "woman", False, "an old woman", ["eine alte Frau", "eine alte Frau", "einer alten Frau"]),
        (corpus.A, "child", False, "an old child", ["ein altes Kind", "ein altes Kind", "einem alten Kind"]),
        (corpus.THE, "boy", False, "the old boy", ["der alte Junge", "den alten Jungen", "dem alten Jungen"]),
        (
            corpus.THE,
            "child",
            True,
            "the old children",
            ["die alten Kinder", "die alten Kinder", "den alten Kindern"],
        ),
        (corpus.NOTHING, "car", True, "old cars", ["alte Autos", "alte Autos", "alten Autos"]),
        (MY, "aunt", False, "my old aunt", ["meine alte Tante", "meine alte Tante", "meiner alten Tante"]),
        (
            MY,
            "brother",
            True,
            "my old brothers",
            ["meine alten Brüder", "meine alten Brüder", "meinen alten Brüdern"],
        ),
    ],
)
def test_declension(determiner: object, noun: str, plural: bool, english: str, cases: list[str]) -> None:
    phrase = corpus.NounPhrase(determiner, NOUN[noun], "old", plural)
    assert phrase.english == english
    assert [phrase.german(case) for case in ("nom", "acc", "dat")] == cases


def test_negated_noun_phrases() -> None:
    assert corpus.NounPhrase(corpus.A, NOUN["car"], "red").german("acc", negated=True) == "kein rotes Auto"
    assert corpus.NounPhrase(corpus.NOTHING, NOUN["hat"], "red", True).german("acc", negated=True) == "keine roten Hüte"
    assert corpus.NounPhrase(corpus.THE, NOUN["hat"]).german("acc", negated=True) == "den Hut"


@pytest.mark.parametrize(
    ("tense", "negated", "english", "second", "last"),
    [
        ("present", False, "calls my aunt", "ruft meine Tante an", "meine Tante anruft"),
        ("present", True, "does not call my aunt", "ruft meine Tante nicht an", "meine Tante nicht anruft"),
        ("past", False, "called my aunt", "hat meine Tante angerufen", "meine Tante angerufen hat"),
        (
            "can",
            True,
            "cannot call my aunt",
            "kann meine Tante nicht anrufen",
            "meine Tante nicht anrufen kann",
        ),
    ],
)
def test_word_order(tense: str, negated: bool, english: str, second: str, last: str) -> None:
    aunt = corpus.NounPhrase(MY, NOUN["aunt"])
    clause = corpus.Clause(corpus.PRONOUNS["she"], VERB["call"], tense, negated, thing=aunt)
    verb, rest = second.split(maxsplit=1)
    assert corpus.english_clause(clause) == f"she {english}"
    assert corpus.german_clause(clause, "second") == f"sie {second}"
    assert corpus.german_clause(clause, "first") == f"{verb} sie {rest}"
    assert corpus.german_clause(clause, "last") == f"sie {last}"


# ---- Sentences and files -------------------------------------------------------------------------------


def test_each_sentence_has_one_translation() -> None:
    forward: dict[str, str] = {}
    backward: dict[str, str] = {}
    for english, german in SAMPLE:
        assert forward.setdefault(english, german) == german
        assert backward.setdefault(german, english) == english
    assert len(forward) > 0.8 * len(SAMPLE)  # the space is far larger than the sample


def test_sentences_are_normally_written() -> None:
    for english, german in SAMPLE:
        for text in (english, german):
            assert text[0].isupper() and text[-1] in ".?"
            assert re.fullmatch(r"[A-Za-zÄÖÜäöüß' ,-]+[.?]", text)
            assert not re.search(r" [ ,.?]|,[^ ]", text)
        assert english[-1] == german[-1]
        assert len(english.split()) <= corpus.MOST_WORDS


def test_pairs_repeat_nothing_and_follow_the_seed() -> None:
    first, again, other = (list(islice(corpus.pairs(seed), 2000)) for seed in (1, 1, 2))
    assert first == again != other
    for side in zip(*first, strict=True):
        assert len(set(side)) == 2000


def test_lines_of_several_sentences() -> None:
    lines = list(islice(corpus.pairs(3, most=4), 400))
    counts = Counter(len(re.findall(r"[.?]", english)) for english, _ in lines)
    assert sorted(counts) == [1, 2, 3, 4] and min(counts.values()) > 60
    for english, german in lines:
        assert len(re.findall(r"[.?]", english)) == len(re.findall(r"[.?]", german))
        for text in (english, german):
            assert re.fullmatch(r"[A-ZÄÖÜ][^.?]*[.?]( [A-ZÄÖÜ][^.?]*[.?])*", text)
    assert len(set(lines)) == 400


def test_command_line(tmp_path: Path) -> None:
    sizes = {"train": 300, "validation": 20, "test": 30}
    for name in ("a", "b"):
        options = [text for split, size in sizes.items() for text in (f"--{split}", str(size))]
        done = run(tmp_path / "new" / name, *options, "--seed", "5", "--sentences", "2")
        assert done.returncode == 0 and done.stdout == "" and done.stderr.count("\n") == 1
    files = sorted((tmp_path / "new" / "a").iterdir())
    assert [path.name for path in files] == sorted(f"{split}.{side}" for split in sizes for side in ("en", "de"))
    for side in ("en", "de"):
        lines: list[str] = []
        for split, size in sizes.items():
            content = (tmp_path / "new" / "a" / f"{split}.{side}").read_bytes()
            assert content == (tmp_path / "new" / "b" / f"{split}.{side}").read_bytes()
            assert content.endswith(b"\n") and b"\r" not in content
            assert content.count(b"\n") == size
            lines += content.decode("utf-8").removesuffix("\n").split("\n")
        assert len(set(lines)) == len(lines) == 350  # no sentence twice, in one file or in two


@pytest.mark.parametrize(
    "options", [["--train", "0"], ["--test", "-3"], ["--validation", "many"], ["--sentences", "0"]]
)
def test_a_bad_size_is_one_clear_line(tmp_path: Path, options: list[str]) -> None:
    done = run(tmp_path / "never", *options)
    assert done.returncode == 2
    assert "error: " in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "never").exists()


def test_files_of_the_user_stay_as_they_are(tmp_path: Path) -> None:
    """One that would be overwritten is refused before any is written; names that look unfinished are left alone."""
    options = ("--train", "30", "--validation", "5", "--test", "5")
    (tmp_path / "validation.de").write_text("my own\n")
    done = run(tmp_path, *options)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.endswith("validation.de exists with other content: delete it or choose another folder")
    assert [path.name for path in tmp_path.iterdir()] == ["validation.de"]
    (tmp_path / "validation.de").rename(tmp_path / "train.en.tmp")
    for _ in range(2):  # the second time everything is there already
        assert run(tmp_path, *options).returncode == 0
    assert (tmp_path / "train.en.tmp").read_text() == "my own\n"
    assert len(list(tmp_path.iterdir())) == 7
