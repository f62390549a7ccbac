"""Texts that are compared line by line, also those of sacreBLEU's test sets such as wmt14."""

import difflib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sacrebleu import utils
from sacrebleu.dataset import DATASETS

from nmt.errors import NmtError
from nmt.files.text import read_lines

log = logging.getLogger("nmt")


@dataclass(frozen=True)
class AlignedText:
    """A text, one sentence a line. name: its file, or the model that wrote it; for messages and tables."""

    name: str
    lines: Sequence[str]


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
    """The source and the references of a test set for a pair such as en-de, which sacreBLEU downloads to $SACREBLEU,
    by default ~/.sacrebleu. Raises NmtError if it does not know the name or the pair, or the download fails."""
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`sacrebleu --list` shows them"
        raise NmtError(f"--test-set {name}: sacreBLEU knows no such test set: {hint}")
    pairs = DATASETS[name].langpairs
    if language_pair not in pairs:
        raise NmtError(
            f"--language-pair {language_pair}: {name} does not have it: choose from {', '.join(sorted(pairs))}"
        )
    folder = Path(utils.SACREBLEU_DIR) / name
    try:
        if not any(folder.glob(f"*.{language_pair}.src")):
            log.info("%s: downloading to %s", name, folder)
        source = utils.get_source_file(name, language_pair)
        references = utils.get_reference_files(name, language_pair)
    except (Exception, SystemExit) as error:  # any type may come; a wrong checksum makes sacreBLEU exit
        raise NmtError(
            f"--test-set {name}: cannot be downloaded into {folder} ({error}): check the network, delete "
            "that folder and try again, or give the files as --source and --reference"
        ) from None
    texts = [AlignedText(f"{name} {Path(path).name}", list(read_lines(Path(path)))) for path in (source, *references)]
    return texts[0], texts[1:]
