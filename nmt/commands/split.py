"""Splits a corpus into training, validation and test sets that have no sentence in common.

Collections such as Tatoeba's have many translations of one sentence. In a random split, most of the test set would
also be in the training set. Here pairs that share a sentence, or that are connected by such pairs, form a group, and
all pairs of a group are in one set. Only letters and digits are compared, without case and accents. Only small groups
are held out: one pair of the group is used, and the others are left out. Documents are split in `document_split`.
"""

import logging
import random
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import regex

from nmt.commands.document_split import DocumentPair, split_documents
from nmt.config import corpus_files
from nmt.config.schema import Corpus, DataConfig
from nmt.data.cleaning.rules.near_duplicates import folded_texts
from nmt.data.sources.corpus import column_values, read_pairs
from nmt.data.sources.invalid_lines import InvalidLinesError
from nmt.data.subwords.normalization import as_read
from nmt.errors import NmtError, no_such_file
from nmt.files import atomic
from nmt.files.notes import counted
from nmt.files.outputs import check_new_folder
from nmt.files.text import read_lines

log = logging.getLogger("nmt")

Pair = tuple[str, str]

_SMALL = 10  # the most pairs of a group that can be held out


def split(
    files: Sequence[Path],
    folder: Path,
    languages: tuple[str, str] | None,
    columns: tuple[str, str] | None,
    by: str | None,
    held_out: int,
    most: int | None,
    seed: int,
) -> None:
    """Split the pairs in `files`, write the sets into a new folder, and log their sizes.

    files: one file with both sides, or two files of lines; languages: the endings of the new files, None for those of
    `files`; columns: of the source and the target in one file; by: the column, or the file beside two files, with
    the names of the documents, None to split single pairs; held_out, most: see `split_pairs` and `split_documents`.
    Raises NmtError for files that cannot be read as pairs, for too few pairs, and for a folder that exists.
    """
    if missing := [file for file in files if not file.exists()]:
        raise no_such_file(missing[0])
    corpus_files.check("nmt split", tuple(files))
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
        documents = _documents(by, corpus, data, len(read)) if by is not None else []
    except InvalidLinesError as error:
        raise NmtError(error.problem) from None  # there is no config
    pairs = [pair for pair in read if all(pair)]
    for i, side in enumerate(("source", "target")):
        if pairs and all(pair[i].isdigit() for pair in pairs):
            raise NmtError(f"{corpus.label}: the {side} has only numbers: name its columns with --columns")
    sets: Mapping[str, Sequence[tuple[str, ...]]]
    if by is None:
        # Pairs that a model reads as equal are duplicates, as for data.drop_duplicates; the first in order is kept.
        unique = {tuple(map(as_read, pair)): pair for pair in sorted(pairs, reverse=True)}
        sets, duplicates = split_pairs(unique.values(), held_out, most, seed), len(pairs) - len(unique)
        _write(folder, sets, languages)
    else:
        in_documents = [(*pair, name) for pair, name in zip(read, documents, strict=True) if all(pair)]
        sets, duplicates = split_documents(in_documents, held_out, most, seed), 0
        _write(folder, sets, (*languages, "documents"))
        _log_documents(sets, in_documents)
    counts = ", ".join(f"{len(set_pairs):,} {name}" for name, set_pairs in sets.items())
    unused = len(pairs) - duplicates - sum(map(len, sets.values()))
    ignored = f"{len(read) - len(pairs):,} with an empty side"
    ignored = f"{duplicates:,} duplicates, {ignored}" if by is None else ignored
    reason = " (they share a sentence with a held-out pair)" if unused and by is None and most is None else ""
    log.info("%s pairs: %s, %s left out%s, %s", f"{len(read):,}", counts, f"{unused:,}", reason, ignored)
    if most is None and len(sets["train"]) < len(sets["validation"]):
        log.warning("fewer training pairs than validation pairs: choose a smaller --pairs")
    files_of_sets = [shlex.join(str(folder / f"{name}.{language}") for language in languages) for name in sets]
    log.info("next: nmt init my.yaml --train %s --validation %s", *files_of_sets[:2])  # the third is the test set


def _log_documents(sets: Mapping[str, Sequence[DocumentPair]], pairs: Sequence[DocumentPair]) -> None:
    sizes = Counter(document for _, _, document in pairs)
    for name, set_pairs in sets.items():
        documents = {document for _, _, document in set_pairs}
        left_out = counted(sum(sizes[document] for document in documents) - len(set_pairs), "pair", "pairs")
        remark = "" if name == "train" else f"; {left_out} left out: another document has the same sentence"
        log.info("%s: %s%s", name, counted(len(documents - {""}), "document", "documents"), remark)
    if sizes[""]:
        log.info("train: %s without a document", counted(sizes[""], "pair", "pairs"))


def _documents(by: str, corpus: Corpus, data: DataConfig, count: int) -> list[str]:
    """The name of each pair's document. Raises NmtError if there is no such column or file, if the file does not have
    `count` lines, and if all names are empty."""
    if corpus.file:
        values: Iterator[object] = column_values(corpus, data, by)
    elif not Path(by).exists():
        raise NmtError(f"--by {by}: no such file: for two text files, give a file with the document of each line")
    else:
        values = read_lines(Path(by))
    names = ["" if value is None else str(value).strip() for value in values]
    if len(names) != count:
        raise NmtError(f"{by} has {len(names):,} lines and {corpus.source} has {count:,}: each line needs its document")
    if not any(names):
        types = ", ".join(corpus_files.memory_properties(Path(corpus.file or ""))[:10])
        choices = f"property of the units ({types})" if types else "column, property of the units, or file"
        raise NmtError(f"--by {by}: no pair has a document: name another {choices}")
    return names


def groups_of(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Groups of pairs that have no sentence in common, ordered by their first pairs."""
    # A forest of sentences: the parent of a sentence is another one of its group, or the sentence itself for a root.
    parent: dict[tuple[int, str], tuple[int, str]] = {}

    def root(sentence: tuple[int, str]) -> tuple[int, str]:
        while parent.setdefault(sentence, sentence) != sentence:
            parent[sentence] = parent[parent[sentence]]
            sentence = parent[sentence]
        return sentence

    all_pairs = list(pairs)
    sources = [(0, text) for text in folded_texts([source for source, _ in all_pairs])]
    targets = [(1, text) for text in folded_texts([target for _, target in all_pairs])]
    for source, target in zip(sources, targets, strict=True):
        parent[root(source)] = root(target)
    groups: dict[tuple[int, str], list[Pair]] = {}
    for pair, source in zip(all_pairs, sources, strict=True):
        groups.setdefault(root(source), []).append(pair)
    return list(groups.values())


def split_pairs(pairs: Iterable[Pair], held_out: int, most: int | None, seed: int) -> dict[str, list[Pair]]:
    """The sets `validation` and `test` with `held_out` pairs each, and `train` with the rest, or with `most` of the
    rest.

    The sets depend only on the pairs and the seed, not on the order of the pairs. Raises NmtError if there are too few
    pairs.
    """
    draws = random.Random(seed)
    groups = groups_of(sorted(set(pairs)))
    groups = draws.sample(groups, len(groups))
    small = [group for group in groups if len(group) <= _SMALL]
    most_held_out = min(len(small), len(groups) - 1) // 2
    if held_out > most_held_out:
        fitting = min(most_held_out, max(1, len(groups) // 10, min(200, len(groups) // 4)))  # 200: see nmt calibrate
        raise NmtError(
            f"--pairs {held_out}: pairs with a common sentence stay together, and there are only {len(groups):,} such "
            + (f"groups: choose fewer, such as --pairs {fitting}" if most_held_out else "groups: too few to split")
        )
    held_out_pairs = [draws.choice(group) for group in small[: 2 * held_out]]
    held_out_ids = set(map(id, small[: 2 * held_out]))
    train = list(chain.from_iterable(group for group in groups if id(group) not in held_out_ids))
    draws.shuffle(train)
    return {"train": train[:most], "validation": held_out_pairs[:held_out], "test": held_out_pairs[held_out:]}


def _languages(files: Sequence[Path], languages: tuple[str, str] | None) -> tuple[str, str]:
    """The languages of the option, or else those of the file names or of a TMX file."""
    source, target = languages or corpus_files.language_codes(tuple(files), (None, None), (), "--languages")
    if source is None or target is None:
        other = "if it is text in one language, give the file of the other one too; else " if len(files) == 1 else ""
        raise NmtError(f"{' '.join(map(str, files))}: what are the languages? {other}give --languages, such as en de")
    for language in (source, target):
        if not regex.fullmatch(r"[\w-]+", language):
            raise NmtError(f"--languages: {language!r} is not a language code such as en that file names can end with")
    if source.casefold() == target.casefold():
        remedy = "name two others" if languages else "name them, such as: --languages en de"
        raise NmtError(f"{source} twice: the new files of both sides would have the same names: {remedy}")
    return source, target


def _write(folder: Path, sets: Mapping[str, Sequence[tuple[str, ...]]], endings: Sequence[str]) -> None:
    """Write a file of each column of each set. endings: of the files, one for each column."""
    with atomic.reporting(folder, "--output"), atomic.new_folder(folder) as unfinished:
        for name, pairs in sets.items():
            for column, ending in enumerate(endings):
                text = "".join(f"{pair[column]}\n" for pair in pairs)
                (unfinished / f"{name}.{ending}").write_text(text, encoding="utf-8", newline="\n")
