"""Measures, for every language of a folder, what training and translation do to its text.

    python scripts/check_languages.py FOLDER [LANGUAGE …]

FOLDER has a file LANGUAGE.txt for each language, with a sentence on each line, such as NTREX (Federmann et al. 2022).
Prints a table:

written: a vocabulary is learned from the text with the default settings. Each line is put into subwords and back, as a
    target. Shown are the share of the lines that come back equal, with the default and with `nmt_nfkc`, and how often
    the text has which invisible characters that the default removes or keeps. Lines are compared in NFC with single
    spaces, control characters as spaces, without the characters that are removed.
"""

import argparse
import unicodedata
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from nmt.config import schema
from nmt.data import vocabulary
from nmt.data.normalization import INVISIBLE, SETTINGS, UsedCharacters, plain
from nmt.data.vocabulary import Tokenizer
from nmt.files.table import table
from nmt.files.text import read_lines

_SIZE = 8000  # of a vocabulary; the most that a text of some thousand lines has is less for some scripts


def written(folder: Path, languages: list[str]) -> list[list[str]]:
    """The rows of the table, headings first."""
    rows = [["language", "lines", "equal", "nmt_nfkc", "removed", "kept"]]
    for language in languages:
        lines = [line for line in read_lines(folder / f"{language}.txt") if line.strip()]
        used = UsedCharacters()
        used.add(lines)
        removed = INVISIBLE - used.found
        shares = [_share_equal(lines, _learned(lines, setting, used), removed) for setting in (SETTINGS[0], "nmt_nfkc")]
        counts = Counter(one for line in lines for one in line if one in INVISIBLE)
        named = [_named(counts, some) for some in (removed, used.found)]
        rows.append([language, f"{len(lines):,}", *(f"{share:.2%}" for share in shares), *named])
    return rows


def _learned(lines: list[str], setting: str, used: UsedCharacters) -> Tokenizer:
    settings = schema.VocabularyConfig(size=_SIZE, normalization=setting)
    return vocabulary.learn_for([1], [("", line) for line in lines], settings, [], [[used]])[0]


def _share_equal(lines: list[str], subwords: Tokenizer, removed: Collection[str]) -> float:
    """The share of the lines that come back equal. removed: characters that do not count."""

    def without(text: str) -> str:
        return "".join(one for one in text if one not in removed)

    def given(line: str) -> str:
        return plain("".join(" " if unicodedata.category(one) == "Cc" else one for one in without(line)))

    back = map(without, subwords.written(lines))  # as it is written, not in NFC again
    return sum(map(str.__eq__, map(given, lines), back)) / len(lines)


def _named(counts: Counter[str], some: Collection[str]) -> str:
    return ", ".join(f"U+{ord(one):04X} {counts[one]:,}" for one in sorted(some) if counts[one])


def main() -> None:
    parser = argparse.ArgumentParser(description="What training and translation do to the text of many languages.")
    parser.add_argument("folder", type=Path, help="holds a file LANGUAGE.txt for each language")
    parser.add_argument("languages", nargs="*", help="default: all of the folder")
    given = parser.parse_args()
    languages = given.languages or sorted(path.stem for path in given.folder.glob("*.txt"))
    print(table(written(given.folder, languages), left=(0, 4, 5)))


if __name__ == "__main__":
    main()
