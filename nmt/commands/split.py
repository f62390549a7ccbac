"""Training, validation and test sets of one corpus that have no sentence in common.

Collections such as Tatoeba's have many translations of one sentence: if they were split at random, most of the test
would be known from the training. Here pairs that share a sentence, or that are connected by such pairs, are a group,
and all pairs of a group are in one set. Only letters and digits are compared, without case and accents. Of a small
group that is held out, one pair is used and the others are left out; larger groups are for training.
"""

import logging
import random
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

import regex

from nmt.config.language_codes import language_of_file
from nmt.config.schema import Corpus, DataConfig
from nmt.data.cleaning.rules.near_duplicates import folded_texts
from nmt.data.sources.corpus import read_pairs
from nmt.data.sources.invalid_lines import InvalidLinesError
from nmt.data.subwords.normalization import as_read
from nmt.errors import NmtError, no_such_file
from nmt.files import atomic
from nmt.files.outputs import check_new_folder

log = logging.getLogger("nmt")

Pair = tuple[str, str]

_SMALL = 10  # pairs of a group that may be held out


def split(
    files: Sequence[Path],
    folder: Path,
    languages: tuple[str, str] | None,
    columns: tuple[str, str] | None,
    held_out: int,
    most: int | None,
    seed: int,
) -> None:
    """Write the sets of the pairs of `files`, one file of both sides or two of lines, into a new folder, and log how
    many pairs went where. languages: the endings of the new files; None: as two files have them. columns: those of the
    source and the target in one file. held_out, most: see `split_pairs`.

    Raises NmtError for files that cannot be read as pairs, too few of them, and a folder that exists.
    """
    if missing := [file for file in files if not file.exists()]:
        raise no_such_file(missing[0])
    languages = _languages(files, languages)
    if len(files) == 1:
        source_column, target_column = columns or (None, None)
        corpus = Corpus(file=str(files[0]), source_column=source_column, target_column=target_column)
    else:
        corpus = Corpus(source=str(files[0]), target=str(files[1]))
    if folder.exists():
        raise NmtError(f"{folder}: exists already and is not overwritten: choose another --output")
    check_new_folder(folder)
    data = DataConfig(source_language=languages[0], target_language=languages[1], train=(corpus,))
    try:
        read = [(source.strip(), target.strip()) for source, target in read_pairs(corpus, data, "train")]
    except InvalidLinesError as error:
        raise NmtError(error.problem) from None  # there is no config
    pairs = [pair for pair in read if all(pair)]
    for place, side in enumerate(("source", "target")):
        if pairs and all(pair[place].isdigit() for pair in pairs):
            raise NmtError(f"{corpus.label}: the {side} is only numbers: name the columns of the text with --columns")
    # Those that a model reads as equal are duplicates, as for data.drop_duplicates; the first of them in order is kept.
    different = {(as_read(source), as_read(target)): (source, target) for source, target in sorted(pairs, reverse=True)}
    sets = split_pairs(different.values(), held_out, most, seed)
    _write(folder, sets, languages)
    counts = ", ".join(f"{len(of):,} {name}" for name, of in sets.items())
    left = len(different) - sum(map(len, sets.values()))
    twice = f"{len(pairs) - len(different):,} duplicates, {len(read) - len(pairs):,} with an empty side"
    log.info("%s pairs: %s, %s left out, %s", f"{len(read):,}", counts, f"{left:,}", twice)
    of_training, of_validation = (
        shlex.join(str(folder / f"{name}.{language}") for language in languages) for name in ("train", "validation")
    )
    log.info("next: nmt init my.yaml --train %s --validation %s", of_training, of_validation)


def groups_of(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """The pairs in groups without a common sentence, ordered by the first pair of each."""
    above: dict[tuple[int, str], tuple[int, str]] = {}  # of each sentence another one of its group, or itself

    def first(sentence: tuple[int, str]) -> tuple[int, str]:
        while above.setdefault(sentence, sentence) != sentence:
            above[sentence] = above[above[sentence]]
            sentence = above[sentence]
        return sentence

    every = list(pairs)
    sources, targets = (folded_texts([pair[side] for pair in every]) for side in (0, 1))
    of_pairs = [(pair, (0, source), (1, target)) for pair, source, target in zip(every, sources, targets, strict=True)]
    for _, source, target in of_pairs:
        above[first(source)] = first(target)
    groups: dict[tuple[int, str], list[Pair]] = {}
    for pair, source, _ in of_pairs:
        groups.setdefault(first(source), []).append(pair)
    return list(groups.values())


def split_pairs(pairs: Iterable[Pair], held_out: int, most: int | None, seed: int) -> dict[str, list[Pair]]:
    """`validation` and `test` with `held_out` pairs each, and `train` with the rest, or with `most` of it.

    The sets depend on the pairs and the seed only, not on the order of the pairs. Raises NmtError if there are too few.
    """
    dice = random.Random(seed)
    groups = groups_of(sorted(set(pairs)))
    groups = dice.sample(groups, len(groups))
    small = [group for group in groups if len(group) <= _SMALL]
    most_held_out = min(len(small), len(groups) - 1) // 2
    if held_out > most_held_out:
        raise NmtError(
            f"--pairs {held_out}: there are {len(groups):,} groups of pairs without a common sentence: "
            + (f"with --pairs {most_held_out}, nearly all are held out" if most_held_out else "too few to split")
        )
    validation, test = ([dice.choice(group) for group in small[i * held_out :][:held_out]] for i in (0, 1))
    chosen = set(map(id, small[: 2 * held_out]))
    train = [pair for group in groups if id(group) not in chosen for pair in group]
    dice.shuffle(train)
    return {"train": train[:most], "validation": validation, "test": test}


def _languages(files: Sequence[Path], given: tuple[str, str] | None) -> tuple[str, str]:
    """The languages that are given, or else those that the names of the two files end in."""
    endings = given or tuple(map(language_of_file, files))
    if len(endings) != 2 or None in endings:
        other = "if it is text in one language, give the file of the other one too; else " * (len(files) == 1)
        raise NmtError(
            f"{' '.join(map(str, files))}: what are the languages? {other}name them, such as: --languages en de (the "
            "new files are then train.en, train.de, …)"
        )
    source, target = map(str, endings)
    for language in (source, target):
        if not regex.fullmatch(r"[\w-]+", language):
            raise NmtError(f"--languages: {language!r} is no code such as en, in which the names of files can end")
    if source.casefold() == target.casefold():
        remedy = "name two others" if given else "name them, such as: --languages en de"
        raise NmtError(f"{source} twice: the new files of both sides would have the same names: {remedy}")
    return source, target


def _write(folder: Path, sets: dict[str, list[Pair]], languages: Sequence[str]) -> None:
    with atomic.reporting(folder, "--output"), atomic.new_folder(folder) as unfinished:
        for name, pairs in sets.items():
            for side, language in enumerate(languages):
                text = "".join(f"{pair[side]}\n" for pair in pairs)
                (unfinished / f"{name}.{language}").write_text(text, encoding="utf-8", newline="\n")
