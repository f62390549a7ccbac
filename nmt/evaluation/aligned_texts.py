"""Texts that are compared line by line, including sacreBLEU's test sets such as wmt14."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config import corpus_files
from nmt.data.sources.sacrebleu_sets import find_files
from nmt.errors import NmtError
from nmt.evaluation.text_form import RAW, TextForm
from nmt.files.text import read_lines


@dataclass(frozen=True)
class AlignedText:
    """A text with one sentence per line. name: its file, or the model that wrote it, for messages and tables. form: the
    form of its lines."""

    name: str
    lines: Sequence[str]
    form: TextForm = RAW

    def in_form(self, form: TextForm) -> "AlignedText":
        """The same text in another form."""
        return AlignedText(self.name, list(map(form.apply, self.lines)), form)


def read_text(path: Path) -> AlignedText:
    """A file with one sentence per line. Raises NmtError as `read_lines` does, and for XML."""
    corpus_files.check_texts("nmt split", (path,))
    return AlignedText(str(path), list(read_lines(path)))


def check_aligned(text: AlignedText, others: Sequence[AlignedText]) -> None:
    """Raises NmtError if the text is empty or another one has a different number of lines."""
    count = len(text.lines)
    for other in others:
        if len(other.lines) != count:
            raise NmtError(
                f"{text.name} has {count:,} lines and {other.name} has {len(other.lines):,}: they must be the same "
                "text, line by line"
            )
    if not count:
        raise NmtError(f"{text.name} is empty: there are no lines to score")


def load_test_set(name: str, language_pair: str) -> tuple[AlignedText, list[AlignedText]]:
    """The source and the references of a test set for a pair such as en-de. Raises NmtError as `find_files` does."""
    source, references = find_files(name, language_pair, f"--test-set {name}", f"--language-pair {language_pair}")
    texts = [AlignedText(f"{name} {path.name}", list(read_lines(path))) for path in (source, *references)]
    return texts[0], texts[1:]
