"""Measures, for every language of a folder, what training and translation do to its text.

    python scripts/check_languages.py FOLDER [LANGUAGE …]
    python scripts/check_languages.py FOLDER --model MODEL --source FILE --reference FILE

FOLDER has a file LANGUAGE.txt for each language, with a sentence on each line, such as NTREX (Federmann et al. 2022),
and, if the lines are of several documents, documents.tsv with the name of the document of each line. Prints a table:

boundaries: the lines of each document are joined to a paragraph, and split into sentences again. Shown are the share of
    the ends of lines that are found, of those with punctuation at their ends (a headline has none, and cannot be told
    from what follows), and how many other ends are found, for a hundred lines. Those are not all wrong: a line may have
    several sentences. Doubtful are those after a word of at most three letters, or after a number. The same for
    sentencex and, if it is installed, pysbd alone.

joined, with --model: the lines of a test set are joined, two, four and eight to a line, and translated. Shown is the
    BLEU of the whole text: each time of the same segments, eight lines joined.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from sacrebleu.metrics.bleu import BLEU

import nmt
from nmt.data.sentences import join_sentences, sentences, two_letters
from nmt.files.table import table
from nmt.files.text import read_lines

Split = Callable[[str], Iterable[str]]

_DOCUMENTS = "documents.tsv"
_PARAGRAPH = 10  # lines, where no documents are known
_TOGETHER = 1, 2, 4, 8  # lines of a test set


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
        score = BLEU(force=True).corpus_score(segments, [_joined(references, max(_TOGETHER))])
        words, split = sum(len(one.split()) for one in translations), translator.counts.split - before
        rows.append([str(together), f"{len(lines):,}", f"{split:,}", f"{words:,}", f"{score.score:.2f}"])
    return rows


def _joined(lines: list[str], together: int) -> list[str]:
    return [join_sentences(lines[first : first + together]) for first in range(0, len(lines), together)]


def _paragraphs(folder: Path, lines: list[str]) -> Iterator[list[str]]:
    """The lines of each document, without empty ones."""
    documents = folder / _DOCUMENTS
    names = read_lines(documents) if documents.exists() else (str(i // _PARAGRAPH) for i in range(len(lines)))
    for _, of_document in groupby(zip(names, lines, strict=True), key=lambda one: one[0]):
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
    return lambda text: [one.sent for one in segmenter.segment(text)]


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
        total = [one + more for one, more in zip(total, counts, strict=True)]
    return Found(*total)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what training and translation do to text of many languages.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="default: all of the folder")
    parser.add_argument("--model", type=Path, help="model file or run folder: translate a test set in joined lines")
    parser.add_argument("--source", type=Path, help="the test set, for --model")
    parser.add_argument("--reference", type=Path, help="its translations, for --model")
    parser.add_argument("--set", nargs="*", default=[], metavar="DECODING.KEY=VALUE", help="settings, for --model")
    given = parser.parse_args()
    if given.model:
        print(table(joined(given.model, given.source, given.reference, given.set)))
        return
    languages = given.languages or sorted(path.stem for path in given.folder.glob("*.txt"))
    print(table(boundaries(given.folder, languages)))


if __name__ == "__main__":
    main()
