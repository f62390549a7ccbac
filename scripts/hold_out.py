#!/usr/bin/env python3
"""Split the pairs of a file into training text, a validation set and a test set that have no sentence in common.

    scripts/hold_out.py PAIRS.tsv FOLDER en de [--pairs 1000] [--most N] [--seed 1]

PAIRS.tsv has the source and the target in its first two columns; further columns are ignored. Collections such as
Tatoeba's have many translations of one sentence: if they were split at random, most of the test would be known from the
training. Here pairs that share a sentence, or that are connected by such pairs, are a group, and a group is in one set
only. Of a group that is held out one pair is used. Differences of letter case, punctuation and spaces do not count.
"""

import argparse
import random
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.text import read_lines

Pair = tuple[str, str]


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
    if len(groups) <= 2 * held_out:
        raise NmtError(
            f"--pairs {held_out}: two sets of them need more than {2 * held_out} groups of pairs without a common "
            f"sentence, and there are {len(groups)}: hold out fewer"
        )
    groups = dice.sample(groups, len(groups))
    val, test = ([dice.choice(group) for group in groups[i * held_out :][:held_out]] for i in (0, 1))
    train = [pair for group in groups[2 * held_out :] for pair in group]
    dice.shuffle(train)
    return {"val": val, "test": test, "train": train[:most]}


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of a file of tab-separated columns. Raises NmtError for a line that has only one."""
    pairs = []
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise NmtError(f"{path}, line {number}: one column, and a pair needs two, with a tab between them")
        pairs.append((columns[0], columns[1]))
    return pairs


def write(folder: Path, sets: dict[str, list[Pair]], languages: Sequence[str]) -> None:
    """Two files for each set. Raises FileExistsError, before anything is written, if one of them exists."""
    files = {
        folder / f"{name}.{language}": "".join(f"{pair[side]}\n" for pair in pairs)
        for name, pairs in sets.items()
        for side, language in enumerate(languages)
    }
    for path in files:
        if path.exists():
            raise FileExistsError(f"{path} exists: delete it or choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        atomic.write_text(path, text)


def _compared(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().casefold()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")  # one line, without the usage


def main() -> None:
    parser = _Parser(description="Split pairs into sets without a common sentence.")
    parser.add_argument("pairs", metavar="PAIRS.tsv", type=Path)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("languages", metavar="LANGUAGE", nargs=2, help="endings of the files, as in train.en")
    parser.add_argument("--pairs", dest="held_out", type=int, default=1_000, metavar="N", help="in each held-out set")
    parser.add_argument("--most", type=int, metavar="N", help="use only N of the other pairs, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.held_out < 1 or (given.most is not None and given.most < 1):
        parser.error("--pairs and --most must be at least 1")
    if len(set(given.languages)) == 1:
        parser.error(f"{given.languages[0]} twice: the files of both sides would have the same names")
    try:
        sets = split(read_pairs(given.pairs), given.held_out, given.most, given.seed)
        write(given.folder, sets, given.languages)
    except (NmtError, OSError) as error:
        parser.error(str(error))
    counts = ", ".join(f"{len(pairs):,} {name}" for name, pairs in sets.items())
    print(f"{parser.prog}: wrote {counts} pairs to {given.folder}", file=sys.stderr)


if __name__ == "__main__":
    main()
