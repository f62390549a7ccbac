"""Measures what training and translation do to the text of each language in a folder.

    python scripts/check_languages.py written FOLDER [LANGUAGE …]
    python scripts/check_languages.py kept FOLDER [LANGUAGE …]
    python scripts/check_languages.py boundaries FOLDER [LANGUAGE …]
    python scripts/check_languages.py joined MODEL --source FILE --reference FILE [DECODING.KEY=VALUE …]

FOLDER has a file LANGUAGE.txt for each language, with a sentence on each line, such as NTREX (Federmann et al. 2022).
Each command prints a table:

written: learns a vocabulary from the text with the default settings, and encodes and decodes each line as a target.
    Shows the share of lines that stay equal, with the default and with `nmt_nfkc`, and the counts of invisible
    characters that the default removes and keeps. Lines are compared in NFC with single spaces, with control characters
    as spaces, and without the removed characters.

kept: applies the rules of `data.clean: {}` to the lines of each language as translations of English (eng), as sources
    of English, and as translations of the previous language. Line N of all files is the same sentence, and all pairs
    are good. Shows the share of kept pairs, the rules that dropped the others, and the checks that are not done.

boundaries: joins the lines of each document to a paragraph, and splits it into sentences. documents.tsv has the name of
    the document of each line; without it, ten lines are a document. Shows the share of line ends with punctuation that
    are found (the end of a headline, which has none, cannot be recognized), and the number of other ends that are found
    in a hundred lines. Not all of these are wrong, because a line can have several sentences. Doubtful are ends after a
    word of at most three letters, or after a number. sentencex and, if it is installed, pysbd are measured too.

joined: joins one, two, four and eight lines of a test set to one, and translates them. Shows the BLEU of the whole text
    in the same segments, of eight joined lines each.
"""

import argparse
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain, groupby
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

_SIZE = 8000  # of a vocabulary; text of some thousand lines has fewer subwords in some scripts
_ENGLISH = "eng"
_DOCUMENTS = "documents.tsv"
_PARAGRAPH = 10  # lines, if documents are not known
_TOGETHER = 1, 2, 4, 8  # lines that are joined


def written(folder: Path, languages: list[str]) -> list[list[str]]:
    """The rows of the table, headings first."""
    rows = [["language", "lines", "equal", "nmt_nfkc", "removed", "kept"]]
    for language in languages:
        lines = [line for line in read_lines(folder / f"{language}.txt") if line.strip()]
        used = UsedCharacters()
        used.add(lines)
        removed = INVISIBLE - used.frequent
        shares = [
            _share_equal(lines, _learn_tokenizer(lines, setting, used), removed)
            for setting in (SETTINGS[0], "nmt_nfkc")
        ]
        counts = Counter(character for character in chain.from_iterable(lines) if character in INVISIBLE)
        columns = [_character_counts(counts, characters) for characters in (removed, used.frequent)]
        rows.append([language, f"{len(lines):,}", *(f"{share:.2%}" for share in shares), *columns])
    return rows


def _learn_tokenizer(lines: list[str], setting: str, used: UsedCharacters) -> Tokenizer:
    settings = schema.VocabularyConfig(size=_SIZE, normalization=setting)
    return vocabulary.learn_for([1], [("", line) for line in lines], settings, [], [[used]])[0]


def _share_equal(lines: list[str], subwords: Tokenizer, removed: Collection[str]) -> float:
    """The share of lines that are equal after encoding and decoding. removed: characters that are not compared."""

    def without(text: str) -> str:
        return "".join(character for character in text if character not in removed)

    def normalized(line: str) -> str:
        spaced = [" " if unicodedata.category(character) == "Cc" else character for character in without(line)]
        return plain("".join(spaced))

    decoded = map(without, subwords.written(lines))  # as decoded, not in NFC again
    return sum(map(str.__eq__, map(normalized, lines), decoded)) / len(lines)


def _character_counts(counts: Counter[str], characters: Collection[str]) -> str:
    present = [character for character in sorted(characters) if counts[character]]
    return ", ".join(f"U+{ord(character):04X} {counts[character]:,}" for character in present)


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
    """The number of lines that each rule drops."""
    rules = rules_of(CleaningConfig(), languages)
    judgement = judge(list(zip(*sides, strict=True)), rules)
    return Counter(rules[index].name for index in judgement.dropped_by.tolist() if index >= 0)


class BoundaryCounts(NamedTuple):
    """Counts for the text of a language: lines, ends of lines with punctuation, the ones that were found, other ends
    that were found, and doubtful ones among them."""

    lines: int
    ends: int
    found_ends: int
    other: int
    doubtful: int

    def cells(self) -> list[str]:
        ends = f"{self.found_ends / max(1, self.ends):.1%}"
        return [ends, *(f"{100 * count / self.lines:.1f}" for count in (self.other, self.doubtful))]


def boundaries(folder: Path, languages: list[str]) -> list[list[str]]:
    """The rows of the table, headings first."""
    names = ["nmt", "sentencex", *(["pysbd"] if find_spec("pysbd") else [])]
    heads = ["language", "lines"]
    for name in names:
        heads += [name, f"{name} other", f"{name} doubtful"]
    rows = [heads]
    for language in languages:
        lines = list(read_lines(folder / f"{language}.txt"))
        row = [language, f"{len(lines):,}"]
        for name in names:
            split = _splitter(name, language)
            row += ["", "", ""] if split is None else _count_boundaries(_paragraphs(folder, lines), split).cells()
        rows.append(row)
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
    for _, document_lines in groupby(zip(names, lines, strict=True), key=lambda named_line: named_line[0]):
        yield [line.strip() for _, line in document_lines if line.strip()]


def _splitter(name: str, language: str) -> Split | None:
    """The function of a program that splits text of a language into sentences; None for a language that the program
    does not have."""
    if name == "nmt":
        return partial(sentences, language=language)
    code = two_letters(language)
    if name == "sentencex":
        return partial(import_module(name).segment, code)
    try:
        segmenter = import_module(name).Segmenter(language=code, clean=False, char_span=True)
    except ValueError:
        return None

    def split(text: str) -> list[str]:
        return [sentence.sent for sentence in segmenter.segment(text)]

    return split


def _count_boundaries(paragraphs: Iterable[list[str]], split: Split) -> BoundaryCounts:
    totals = [0] * len(BoundaryCounts._fields)
    for lines in paragraphs:
        text, starts = "", dict[int, bool]()  # by the start of a line: whether the previous line ends with punctuation
        for before, line in zip(["", *lines], lines, strict=False):
            joined = join_sentences([text, line])
            starts[len(joined) - len(line)] = bool(before) and not before[-1].isalnum()
            text = joined
        ends, position = set[int](), 0
        for sentence in split(text):  # a line begins with its first character that is not a space
            if position and sentence.strip():
                ends.add(position + len(sentence) - len(sentence.lstrip()))
            position += len(sentence)
        other = [text[:end].split()[-1] for end in ends - starts.keys()]
        doubtful = [word for word in other if sum(map(str.isalpha, word)) <= 3 and word[-1] == "."]
        after_punctuation = {start for start, ended in starts.items() if ended}
        counts = len(lines), len(after_punctuation), len(after_punctuation & ends), len(other), len(doubtful)
        totals = [before + count for before, count in zip(totals, counts, strict=True)]
    return BoundaryCounts(*totals)


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
    arguments = parser.parse_args()
    if arguments.command == "joined":
        print(table(joined(arguments.model, arguments.source, arguments.reference, arguments.overrides)))
        return
    languages = arguments.languages or sorted(path.stem for path in arguments.folder.glob("*.txt"))
    make, left_columns = _TABLES[arguments.command]
    print(table(make(arguments.folder, languages), left=left_columns))


if __name__ == "__main__":
    main()
