"""The demo corpus: its numbers, times and grammar, and that pairs are exact, follow the seed and never repeat."""

import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from helpers.scripts import SCRIPTS

from nmt.commands import demo_corpus as corpus

SCRIPT = SCRIPTS / "make_demo_corpus.py"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


# ---- Numbers and times


@pytest.mark.parametrize(
    ("n", "english", "german"),
    [
        (0, "zero", "null"),
        (1001, "one thousand and one", "eintausendeins"),
        (1130, "one thousand one hundred and thirty", "eintausendeinhundertdreißig"),
        (21_021, "twenty-one thousand and twenty-one", "einundzwanzigtausendeinundzwanzig"),
        (
            701_776,
            "seven hundred and one thousand seven hundred and seventy-six",
            "siebenhunderteintausendsiebenhundertsechsundsiebzig",
        ),
    ],
)
def test_numbers(n: int, english: str, german: str) -> None:
    assert corpus.number(n) == (english, german)


@pytest.mark.parametrize(
    ("hour", "minute", "english", "german"),
    [
        (1, 0, "one o'clock", "ein Uhr"),
        (8, 15, "quarter past eight", "Viertel nach acht"),
        (6, 25, "twenty-five past six", "fünf vor halb sieben"),
        (6, 35, "twenty-five to seven", "fünf nach halb sieben"),
        (12, 45, "quarter to one", "Viertel vor eins"),
    ],
)
def test_clock(hour: int, minute: int, english: str, german: str) -> None:
    assert corpus.clock(12 * (hour - 1) + minute // 5) == (english, german)


# ---- Grammar

NOUN = {noun.en: noun for noun in (*corpus.PEOPLE, *corpus.THINGS, *corpus.PLACES)}
VERB = {verb.en: verb for verb in corpus.VERBS}
OLD = corpus.ADJECTIVES[0]


@pytest.mark.parametrize(
    ("determiner", "noun", "plural", "english", "cases"),
    [
        (corpus.THE, "man", False, "the old man", ["der alte Mann", "den alten Mann", "dem alten Mann"]),
        (corpus.A, "child", False, "an old child", ["ein altes Kind", "ein altes Kind", "einem alten Kind"]),
        (corpus.THE, "boy", False, "the old boy", ["der alte Junge", "den alten Jungen", "dem alten Jungen"]),
        (corpus.THE, "child", True, "the old children", ["die alten Kinder", "die alten Kinder", "den alten Kindern"]),
        (corpus.NOTHING, "car", True, "old cars", ["alte Autos", "alte Autos", "alten Autos"]),
        (corpus.MY, "man", True, "my old men", ["meine alten Männer", "meine alten Männer", "meinen alten Männern"]),
    ],
)
def test_declension(determiner: object, noun: str, plural: bool, english: str, cases: list[str]) -> None:
    phrase = corpus.NounPhrase(determiner, NOUN[noun], OLD, plural)
    assert phrase.en == english
    assert [phrase.de(case) for case in ("nom", "acc", "dat")] == cases


@pytest.mark.parametrize(
    ("tense", "negated", "english", "second", "last"),
    [
        ("present", True, "does not call my woman", "ruft meine Frau nicht an", "meine Frau nicht anruft"),
        ("past", False, "called my woman", "hat meine Frau angerufen", "meine Frau angerufen hat"),
        ("can", True, "cannot call my woman", "kann meine Frau nicht anrufen", "meine Frau nicht anrufen kann"),
    ],
)
def test_word_order(tense: str, negated: bool, english: str, second: str, last: str) -> None:
    woman = corpus.NounPhrase(corpus.MY, NOUN["woman"])
    clause = corpus.Clause(corpus.Phrase("he", "er"), corpus.THIRD, VERB["call"], tense, negated, woman)
    verb, rest = second.split(maxsplit=1)
    assert clause.en() == f"he {english}"
    assert [clause.de(order) for order in ("second", "first", "last")] == [
        f"er {second}",
        f"{verb} er {rest}",
        f"er {last}",
    ]


# ---- Sentences and files


def test_each_sentence_has_one_translation_and_is_normally_written() -> None:
    dice, forward, backward = corpus.Dice(11), dict[str, str](), dict[str, str]()
    for _ in range(10_000):
        english, german = dice.pick((dice.statement, dice.statement, dice.two_clauses, dice.short))()
        assert forward.setdefault(english, german) == german
        assert backward.setdefault(german, english) == english
    for english, german in islice(corpus.pairs(11), 5000):
        for text in (english, german):
            assert re.fullmatch(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß' ,-]+[.?]", text) and not re.search(r" [ ,.?]|,[^ ]", text)
        assert english[-1] == german[-1] and len(english.split()) <= 16


def test_pairs_repeat_nothing_and_follow_the_seed() -> None:
    first, again, other = (list(islice(corpus.pairs(seed), 2000)) for seed in (1, 1, 2))
    assert first == again != other
    for side in zip(*first, strict=True):
        assert len(set(side)) == 2000


def test_lines_of_several_sentences() -> None:
    lines = list(islice(corpus.pairs(3, most=4), 400))
    counts = [[len(re.findall(r"[.?]", text)) for text in line] for line in lines]
    assert all(english == german for english, german in counts)
    assert min(counts.count([number, number]) for number in range(1, 5)) > 60
    assert len(set(lines)) == 400


def test_files_are_complete_follow_the_seed_and_do_not_overlap(tmp_path: Path) -> None:
    sizes = {"train": 300, "validation": 20, "test": 30}
    options = [text for split, size in sizes.items() for text in (f"--{split}", str(size))]
    for name in ("a", "b"):
        done = run(tmp_path / "new" / name, *options, "--seed", "5", "--sentences", "2")
        assert done.returncode == 0 and done.stdout == "" and done.stderr.count("\n") == 1
    for side in ("en", "de"):
        lines: list[str] = []
        for split, size in sizes.items():
            content = (tmp_path / "new" / "a" / f"{split}.{side}").read_bytes()
            assert content == (tmp_path / "new" / "b" / f"{split}.{side}").read_bytes()
            assert content.endswith(b"\n") and content.count(b"\n") == size
            lines += content.decode("utf-8").removesuffix("\n").split("\n")
        assert len(set(lines)) == len(lines) == 350  # no sentence twice, in one file or in two
    assert len(list((tmp_path / "new" / "a").iterdir())) == 6


def test_a_bad_size_is_one_clear_line(tmp_path: Path) -> None:
    done = run(tmp_path / "never", "--test", "-3")
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
    assert line.endswith("validation.de: exists with other content: move it away, or work in another folder")
    assert [path.name for path in tmp_path.iterdir()] == ["validation.de"]
    (tmp_path / "validation.de").rename(tmp_path / "train.en.tmp")
    for _ in range(2):  # the second time everything is there already
        assert run(tmp_path, *options).returncode == 0
    assert (tmp_path / "train.en.tmp").read_text() == "my own\n"
    assert len(list(tmp_path.iterdir())) == 7
