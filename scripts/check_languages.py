"""Measures, for every language of a folder, what training and translation do to its text.

    python scripts/check_languages.py FOLDER [LANGUAGE …]

FOLDER has a file LANGUAGE.txt for each language, with a sentence on each line, such as NTREX (Federmann et al. 2022).
Line N of all files is the same sentence. Prints a table:

kept: the rules of `data.clean: {}` judge the lines of each language as translations of those in English (eng), as their
    sources, and as translations of those in the language before it. All lines are good. Shown are the share kept, the
    rules that dropped the others, and what the rules say that they do not check.
"""

import argparse
from collections import Counter
from pathlib import Path

from nmt.config.schema import CleaningConfig
from nmt.data.rules.judge import judge, not_checked, rules_of
from nmt.files.table import table
from nmt.files.text import read_lines

_ENGLISH = "eng"


def kept(folder: Path, languages: list[str]) -> list[list[str]]:
    """The rows of the table, headings first."""
    rows = [["language", "lines", "from eng", "to eng", "from the one before", "dropped by, from eng", "not checked"]]
    texts = {language: list(read_lines(folder / f"{language}.txt")) for language in {_ENGLISH, *languages}}
    others = [language for language in languages if language != _ENGLISH]
    for before, language in zip([*others[-1:], *others], others, strict=False):
        pairs = [(_ENGLISH, language), (language, _ENGLISH), (before, language)]
        dropped = [_dropped([texts[one] for one in pair], pair) for pair in pairs]
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what training and translation do to text of many languages.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="default: all of the folder")
    given = parser.parse_args()
    languages = given.languages or sorted(path.stem for path in given.folder.glob("*.txt"))
    print(table(kept(given.folder, languages), left=(0, 5, 6)))


if __name__ == "__main__":
    main()
