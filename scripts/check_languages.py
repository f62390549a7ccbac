"""Measures, for every language of a folder, what training and translation do to its text.

    python scripts/check_languages.py written FOLDER [LANGUAGE …]
    python scripts/check_languages.py kept FOLDER [LANGUAGE …]
    python scripts/check_languages.py boundaries FOLDER [LANGUAGE …]
    python scripts/check_languages.py joined MODEL --source FILE --reference FILE [DECODING.KEY=VALUE …]

FOLDER has a file LANGUAGE.txt for each language, with a sentence on each line, such as NTREX (Federmann et al. 2022).
Each command prints a table:

written: a vocabulary is learned from the text with the default settings. Each line is put into subwords and back, as a
    target. Shown are the share of the lines that come back equal, with the default and with `nmt_nfkc`, and how often
    the text has which invisible characters that the default removes or keeps. Lines are compared in NFC with single
    spaces, control characters as spaces, without the characters that are removed.

kept: the rules of `data.clean: {}` judge the lines of each language as translations of those in English (eng), as their
    sources, and as translations of those in the language before it. Line N of all files is the same sentence, and all
    are good. Shown are the share kept, the rules that dropped the others, and what the rules do not check.

boundaries: the lines of each document are joined to a paragraph, and split into sentences again. documents.tsv has the
    name of the document of each line; without it, ten lines are a document. Shown are the share of the ends of lines
    that are found, of those with punctuation at their ends (a headline has none, and cannot be told from what follows),
    and how many other ends are found, for a hundred lines. Those are not all wrong: a line may have several sentences.
    Doubtful are those after a word of at most three letters, or after a number. The same for sentencex and, if it is
    installed, pysbd alone.

joined: the lines of a test set are joined, two, four and eight to a line, and translated. Shown is the BLEU of the
    whole text: each time of the same segments, eight lines joined.
"""

import argparse
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import nmt
from nmt.config import schema
from nmt.config.language_codes import two_letters
from nmt.config.schema import CleaningConfig
from nmt.data.cleaning.rules.judge import judge, not_checked, rules_of
from nmt.data.subwords import vocabulary
from nmt.data.subwords.normalization import INVISIBLE, SETTINGS, UsedCharacters, plain
from nmt.data.subwords.sentences import join_sentences, sentences
from nmt.data.subwords.vocabulary import Tokenizer
from nmt.evaluation.metrics import ValidationMetrics
from nmt.files.table import table
from nmt.files.text import read_lines

Split = Callable[[str], Iterable[str]]

_SIZE = 8000  # of a vocabulary; the most that a text of some thousand lines has is less for some scripts
_ENGLISH = "eng"
_DOCUMENTS = "documents.tsv"
_PARAGRAPH = 10  # lines, where no documents are known
_TOGETHER = 1, 2, 4, 8  # lines of a test set


def written(folder: Path, languages: list[str]) -> list[list[str]]:
    """The rows of the table, headings first."""
    rows = [["language", "lines", "equal", "nmt_nfkc", "removed", "kept"]]
    for language in languages:
        lines = [line for line in read_lines(folder / f"{language}.txt") if line.strip()]
        used = UsedCharacters()
        used.add(lines)
        removed = INVISIBLE - used.found
        shares = [_share_equal(lines, _learned(lines, setting, used), removed) for setting in (SETTINGS[0], "nmt_nfkc")]
        counts = Counter(character for line in lines for character in line if character in INVISIBLE)
        named = [_named(counts, some) for some in (removed, used.found)]
        rows.append([language, f"{len(lines):,}", *(f"{share:.2%}" for share in shares), *named])
    return rows


def _learned(lines: list[str], setting: str, used: UsedCharacters) -> Tokenizer:
    settings = schema.VocabularyConfig(size=_SIZE, normalization=setting)
    return vocabulary.learn_for([1], [("", line) for line in lines], settings, [], [[used]])[0]


def _share_equal(lines: list[str], subwords: Tokenizer, removed: Collection[str]) -> float:
    """The share of the lines that come back equal. removed: characters that do not count."""

    def without(text: str) -> str:
        return "".join(character for character in text if character not in removed)

    def given(line: str) -> str:
        return plain(
            "".join(" " if unicodedata.category(character) == "Cc" else character for character in without(line))
        )

    back = map(without, subwords.written(lines))  # as it is written, not in NFC again
    return sum(map(str.__eq__, map(given, lines), back)) / len(lines)


def _named(counts: Counter[str], some: Collection[str]) -> str:
    return ", ".join(f"U+{ord(character):04X} {counts[character]:,}" for character in sorted(some) if counts[character])


def kept(folder: Path, languages: list[str]) -> list[list[str]]:
    """The rows of the table, headings first."""
    rows = [["language", "lines", "from eng", "to eng", "from the one before", "dropped by, from eng", "not checked"]]
    texts = {language: list(read_lines(folder / f"{language}.txt")) for language in {_ENGLISH, *languages}}
    others = [language for language in languages if language != _ENGLISH]
    for before, language in zip([*others[-1:], *others], others, strict=False):
        pairs = [(_ENGLISH, language), (language, _ENGLISH), (before, language)]
        dropped = [_dropped([texts[name] for name in pair], pair) for pair in pairs]
        shares = [f"{1 - rules.total() / len(texts[language]):.2%}" for rules in dropped]
        by = ", ".join(f"{rule} {times}" for rule, times in dropped[0].most_common())
        lines = not_checked(rules_of(CleaningConfig(), pairs[0]), pairs[0])
        unchecked = ", ".join(sorted({line.split(":")[0].removeprefix("data.clean.") for line in lines}))
        rows.append([language, f"{len(texts[language]):,}", *shares, by, unchecked])
    return rows


def _dropped(sides: list[list[str]], languages: tuple[str, str]) -> Counter[str]:
    """How many lines each rule drops."""
    rules = rules_of(CleaningConfig(), languages)
    judgement = judge(list(zip(*sides, strict=True)), rules)
    return Counter(rules[number].name for number in judgement.dropped_by.tolist() if number >= 0)


class Found(NamedTuple):
    """Of the text of a language: ends of lines with punctuation, how many of them are found, and other ends."""

    lines: int
    ends: int
    found: int
    other: int
    doubtful: int

    def cells(self) -> list[str]:
        ends = f"{self.found / max(1, self.ends):.1%}"
        return [ends, *(f"{100 * count / self.lines:.1f}" for count in (self.other, self.doubtful))]


def boundaries(folder: Path, languages: list[str]) -> list[list[str]]:
    """The rows of the table, headings first."""
    names = ["nmt", "sentencex", *(["pysbd"] if find_spec("pysbd") else [])]
    rows = [["language", "lines", *(f"{name}{what}" for name in names for what in ("", " other", " doubtful"))]]
    for language in languages:
        lines = list(read_lines(folder / f"{language}.txt"))
        counted = [
            _found(_paragraphs(folder, lines), split).cells() if (split := _splitter(name, language)) else ["", "", ""]
            for name in names
        ]
        rows.append([language, f"{len(lines):,}", *(cell for cells in counted for cell in cells)])
    return rows


def joined(model: Path, source: Path, reference: Path, overrides: list[str]) -> list[list[str]]:
    """The rows of the table, headings first."""
    translator = nmt.load(model, "cpu", overrides=overrides)
    sources, references = (list(read_lines(path)) for path in (source, reference))
    rows = [["lines together", "input lines", "split", "words", "BLEU"]]
    for together in _TOGETHER:
        lines = _joined(sources, together)
        before = translator.counts.split
        translations = translator.translate(lines)
        segments = _joined(translations, max(_TOGETHER) // together)
        score = ValidationMetrics("").scores(segments, _joined(references, max(_TOGETHER)))["bleu"]
        words, split = sum(len(translation.split()) for translation in translations), translator.counts.split - before
        rows.append([str(together), f"{len(lines):,}", f"{split:,}", f"{words:,}", f"{score:.2f}"])
    return rows


def _joined(lines: list[str], together: int) -> list[str]:
    return [join_sentences(lines[first : first + together]) for first in range(0, len(lines), together)]


def _paragraphs(folder: Path, lines: list[str]) -> Iterator[list[str]]:
    """The lines of each document, without empty ones."""
    documents = folder / _DOCUMENTS
    names = read_lines(documents) if documents.exists() else (str(i // _PARAGRAPH) for i in range(len(lines)))
    for _, of_document in groupby(zip(names, lines, strict=True), key=lambda named: named[0]):
        yield [line.strip() for _, line in of_document if line.strip()]


def _splitter(name: str, language: str) -> Split | None:
    """What splits text of a language into sentences; None for a language that it does not have."""
    if name == "nmt":
        return partial(sentences, language=language)
    code = two_letters(language)
    if name == "sentencex":
        return partial(import_module(name).segment, code)
    try:
        segmenter = import_module(name).Segmenter(language=code, clean=False, char_span=True)
    except ValueError:
        return None
    return lambda text: [sentence.sent for sentence in segmenter.segment(text)]


def _found(paragraphs: Iterable[list[str]], split: Split) -> Found:
    total = [0] * len(Found._fields)
    for lines in paragraphs:
        text, starts = "", dict[int, bool]()  # where a line begins: whether the one before it ends with punctuation
        for before, line in zip(["", *lines], lines, strict=False):
            joined = join_sentences([text, line])
            starts[len(joined) - len(line)] = bool(before) and not before[-1].isalnum()
            text = joined
        ends, place = set[int](), 0
        for sentence in split(text):  # a line begins with its first character that is no space
            if place and sentence.strip():
                ends.add(place + len(sentence) - len(sentence.lstrip()))
            place += len(sentence)
        other = [text[:end].split()[-1] for end in ends - starts.keys()]
        doubtful = [word for word in other if sum(map(str.isalpha, word)) <= 3 and word[-1] == "."]
        after_punctuation = {start for start, ended in starts.items() if ended}
        counts = len(lines), len(after_punctuation), len(after_punctuation & ends), len(other), len(doubtful)
        total = [before + more for before, more in zip(total, counts, strict=True)]
    return Found(*total)


_TABLES = {"written": (written, (0, 4, 5)), "kept": (kept, (0, 5, 6)), "boundaries": (boundaries, (0,))}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what training and translation do to text of many languages.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in _TABLES:
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path, help="holds a file LANGUAGE.txt for each language")
        command.add_argument("languages", nargs="*", metavar="LANGUAGE", help="default: all of the folder")
    command = commands.add_parser("joined")
    command.add_argument("model", type=Path, help="model file or run folder")
    command.add_argument("--source", type=Path, required=True, help="a test set")
    command.add_argument("--reference", type=Path, required=True, help="its translations")
    command.add_argument("overrides", nargs="*", metavar="DECODING.KEY=VALUE")
    given = parser.parse_args()
    if given.command == "joined":
        print(table(joined(given.model, given.source, given.reference, given.overrides)))
        return
    languages = given.languages or sorted(path.stem for path in given.folder.glob("*.txt"))
    make, left = _TABLES[given.command]
    print(table(make(given.folder, languages), left=left))


if __name__ == "__main__":
    main()
