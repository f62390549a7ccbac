#!/usr/bin/env python3
"""Split the pairs of a file into training text, a validation set and a test set that have no sentence in common.

    scripts/hold_out.py PAIRS.tsv FOLDER en de [--pairs 1000] [--most N] [--columns 1 2] [--seed 1]

PAIRS.tsv has columns with tabs between them, of which two are the source and the target. Two files of lines become one
with `paste my.en my.de > pairs.tsv`.

Collections such as Tatoeba's have many translations of one sentence: if they were split at random, most of the test
would be known from the training. Here pairs that share a sentence, or that are connected by such pairs, are a group,
and all pairs of a group are in one set. Only letters and digits are compared, and not whether they are capitals. Of a
small group that is held out, one pair is used and the others are left out; larger groups are for training.
"""

import argparse
import random
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import regex

from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.text import read_lines

Pair = tuple[str, str]

_SMALL = 10  # pairs of a group that may be held out
_NO_WORDS = regex.compile(r"[^\p{L}\p{M}\p{N}]+")


def groups_of(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """The pairs in groups without a common sentence, ordered by the first pair of each."""
    above: dict[tuple[int, str], tuple[int, str]] = {}  # of each sentence another one of its group, or itself

    def first(sentence: tuple[int, str]) -> tuple[int, str]:
        while above.setdefault(sentence, sentence) != sentence:
            above[sentence] = above[above[sentence]]
            sentence = above[sentence]
        return sentence

    of_pairs = [(pair, *((side, _compared(text)) for side, text in enumerate(pair))) for pair in pairs]
    for _, source, target in of_pairs:
        above[first(source)] = first(target)
    groups: dict[tuple[int, str], list[Pair]] = {}
    for pair, source, _ in of_pairs:
        groups.setdefault(first(source), []).append(pair)
    return list(groups.values())


def split(pairs: Iterable[Pair], held_out: int, most: int | None, seed: int) -> dict[str, list[Pair]]:
    """`val` and `test` with `held_out` pairs each, and `train` with the rest, or with `most` of it.

    The sets depend on the pairs and the seed only, not on the order of the pairs. Raises NmtError if there are too few.
    """
    dice = random.Random(seed)
    groups = groups_of(sorted(set(pairs)))
    groups = dice.sample(groups, len(groups))
    small = [group for group in groups if len(group) <= _SMALL]
    if len(small) < 2 * held_out or len(groups) == 2 * held_out:
        raise NmtError(
            f"--pairs {held_out}: needs {2 * held_out} groups of at most {_SMALL} pairs without a common sentence, and "
            f"others for training: there are {len(groups)}, and {len(small)} of them have at most {_SMALL} pairs: "
            "lower --pairs"
        )
    val, test = ([dice.choice(group) for group in small[i * held_out :][:held_out]] for i in (0, 1))
    chosen = set(map(id, small[: 2 * held_out]))
    train = [pair for group in groups if id(group) not in chosen for pair in group]
    dice.shuffle(train)
    return {"train": train[:most], "val": val, "test": test}


def read_pairs(path: Path, columns: Sequence[int]) -> tuple[list[Pair], int]:
    """The pairs of a file of tab-separated columns, numbered from 1, and how many others have an empty side.

    Raises NmtError for a line with too few columns, for a file without pairs, and where a column holds numbers only.
    """
    pairs, empty = [], 0
    for number, line in enumerate(read_lines(path), 1):
        texts = line.split("\t")
        if len(texts) < max(columns):
            raise NmtError(f"{path}, line {number}: no column {max(columns)}: columns have tabs between them")
        source, target = (texts[column - 1].strip() for column in columns)
        if source and target:
            pairs.append((source, target))
        else:
            empty += 1
    if not pairs:
        raise NmtError(f"{path}: has no pairs")
    for side, column in enumerate(columns):
        if all(pair[side].isdigit() for pair in pairs):
            raise NmtError(f"{path}: column {column} holds only numbers: name the columns of the text with --columns")
    return pairs, empty


def write(folder: Path, sets: dict[str, list[Pair]], languages: Sequence[str]) -> None:
    """Two files for each set, in a new folder. Raises NmtError where it exists or cannot be written."""
    if folder.exists():
        raise NmtError(f"{folder}: exists already: choose another FOLDER")
    with atomic.reporting(folder, "FOLDER"), atomic.new_folder(folder) as unfinished:
        for name, pairs in sets.items():
            for side, language in enumerate(languages):
                text = "".join(f"{pair[side]}\n" for pair in pairs)
                (unfinished / f"{name}.{language}").write_text(text, encoding="utf-8", newline="\n")


def _compared(text: str) -> str:
    return _NO_WORDS.sub("", unicodedata.normalize("NFKC", text).casefold()) or text.strip()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")  # one line, without the usage


def main() -> None:
    parser = _Parser(description="Split pairs into training, validation and test sets without a common sentence.")
    parser.add_argument("pairs", metavar="PAIRS.tsv", type=Path, help="columns of text with tabs between them")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a new folder for the files")
    parser.add_argument("languages", metavar="LANGUAGE", nargs=2, help="of the source and the target: train.en, …")
    parser.add_argument(
        "--pairs", dest="held_out", type=int, default=1_000, metavar="N",
        help="pairs in the validation set, and in the test set (default: 1000)",
    )  # fmt: skip
    parser.add_argument("--most", type=int, metavar="N", help="pairs of the training set at most, drawn at random")
    parser.add_argument(
        "--columns", type=int, nargs=2, default=[1, 2], metavar="N", help="of the source and the target (default: 1 2)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another one draws other sets (default: 1)")
    given = parser.parse_args()
    if min(given.held_out, *given.columns) < 1 or (given.most is not None and given.most < 1):
        parser.error("--pairs, --most and --columns must be at least 1")
    if given.columns[0] == given.columns[1]:
        parser.error(f"--columns {given.columns[0]} {given.columns[1]}: the source and the target are two columns")
    for language in given.languages:
        if not regex.fullmatch(r"[\w-]+", language):
            parser.error(f"{language!r} is not a language: give a code such as en, which ends the names of the files")
    if given.languages[0].casefold() == given.languages[1].casefold():
        parser.error(f"{given.languages[0]} twice: the files of both sides would have the same names")
    try:
        pairs, empty = read_pairs(given.pairs, given.columns)
        sets = split(pairs, given.held_out, given.most, given.seed)
        write(given.folder, sets, given.languages)
    except (NmtError, OSError) as error:
        sys.exit(f"error: {error}")
    counts = ", ".join(f"{len(of):,} {name}" for name, of in sets.items())
    left = len(set(pairs)) - sum(map(len, sets.values()))
    twice = f"{len(pairs) - len(set(pairs)):,} given before, {empty:,} with an empty side"
    print(f"{len(pairs) + empty:,} pairs: {counts}, {left:,} left out, {twice}", file=sys.stderr)


if __name__ == "__main__":
    main()
