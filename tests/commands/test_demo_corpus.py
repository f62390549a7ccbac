"""The demo corpus: its numbers, times and grammar, and that pairs are exact, follow the seed and never repeat."""

import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from helpers.scripts import SCRIPTS

from nmt.commands import demo_corpus as corpus


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPTS / "make_demo_corpus.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


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
        (12, 45, "quarter to one", "Viertel vor eins"),
    ],
)
def test_clock(hour: int, minute: int, english: str, german: str) -> None:
    assert corpus.clock(12 * (hour - 1) + minute // 5) == (english, german)


@pytest.mark.parametrize(
    ("determiner", "noun", "english", "nominative", "accusative"),
    [
        ("the", "man", "the old man", "der alte Mann", "den alten Mann"),
        ("a", "child", "an old child", "ein altes Kind", "ein altes Kind"),
        ("my", "doctor", "my old doctor", "mein alter Arzt", "meinen alten Arzt"),
        ("our", "woman", "our old woman", "unsere alte Frau", "unsere alte Frau"),
    ],
)
def test_declension(determiner: str, noun: str, english: str, nominative: str, accusative: str) -> None:
    people, determiners = ({phrase.en: phrase for phrase in table} for table in (corpus.PEOPLE, corpus.DETERMINERS))
    for is_accusative, german in ((False, nominative), (True, accusative)):
        old = corpus.Phrase("old", "alt")
        phrase = corpus.noun_phrase(determiners[determiner], old, people[noun], accusative=is_accusative)
        assert phrase == (english, german)


@pytest.mark.parametrize(
    ("tense", "english", "question", "second", "last"),
    [
        ("present", "calls Anna today", "does he call Anna today", "ruft heute Anna an", "heute Anna anruft"),
        ("past", "called Anna today", "did he call Anna today", "hat heute Anna angerufen", "heute Anna angerufen hat"),
        ("can", "can call Anna today", "can he call Anna today", "kann heute Anna anrufen", "heute Anna anrufen kann"),
    ],
)
def test_word_order(tense: str, english: str, question: str, second: str, last: str) -> None:
    [call] = [verb for verb in corpus.VERBS if verb[1] == "call"]
    parts = corpus.Phrase("he", "er"), call, corpus.Phrase("Anna", "Anna"), corpus.Phrase("today", "heute")
    verb, rest = second.split(maxsplit=1)
    for order, expected in (
        ("main", (f"he {english}", f"er {second}")),
        ("question", (question, f"{verb} er {rest}")),
        ("inverted", (f"he {english}", f"{verb} er {rest}")),
        ("subordinate", (f"he {english}", f"er {last}")),
    ):
        assert corpus.clause(order, tense, *parts) == expected


def test_each_sentence_has_one_translation_and_is_normally_written() -> None:
    generator, forward, backward = corpus.SentenceGenerator(11), dict[str, str](), dict[str, str]()
    for _ in range(10_000):
        english, german = generator.pick(
            (generator.sentence, generator.sentence, generator.two_clauses, generator.short)
        )()
        assert forward.setdefault(english, german) == german
        assert backward.setdefault(german, english) == english
    for english, german in islice(corpus.pairs(11), 5000):
        for text in (english, german):
            assert re.fullmatch(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß' ,-]+[.?]", text) and not re.search(r" [ ,.?]|,[^ ]", text)
        assert english[-1] == german[-1] and len(english.split()) <= 20


def test_pairs_follow_the_seed_and_have_so_many_sentences() -> None:
    first, again, other = (list(islice(corpus.pairs(seed, most=4), 400)) for seed in (1, 1, 2))
    assert first == again != other
    counts = [[len(re.findall(r"[.?]", text)) for text in line] for line in first]
    assert min(counts.count([number, number]) for number in range(1, 5)) > 60


def test_files_are_complete_and_do_not_overlap(tmp_path: Path) -> None:
    sizes = {"train": 300, "validation": 20, "test": 30}
    options = [text for split, size in sizes.items() for text in (f"--{split}", str(size))]
    assert run(tmp_path / "new", *options, "--seed", "5", "--sentences", "2").returncode == 0
    for side in ("en", "de"):
        lines: list[str] = []
        for split, size in sizes.items():
            content = (tmp_path / "new" / f"{split}.{side}").read_text(encoding="utf-8")
            assert content.endswith("\n") and content.count("\n") == size
            lines += content.removesuffix("\n").split("\n")
        assert len(set(lines)) == len(lines) == 350  # no sentence twice, in one file or in two
    assert len(list((tmp_path / "new").iterdir())) == 6


def test_files_of_the_user_stay_as_they_are(tmp_path: Path) -> None:
    """One that would be overwritten is refused before any is written."""
    options = ("--train", "30", "--validation", "5", "--test", "5")
    (tmp_path / "validation.de").write_text("my own\n")
    done = run(tmp_path, *options)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.endswith("validation.de: exists with other content: move it away, or work in another folder")
    assert [path.name for path in tmp_path.iterdir()] == ["validation.de"]
    (tmp_path / "validation.de").unlink()
    for _ in range(2):  # the second time everything is there already
        assert run(tmp_path, *options).returncode == 0
