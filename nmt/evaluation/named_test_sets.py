"""Test sets that sacreBLEU knows by name, such as wmt14, kept in its folder: $SACREBLEU, or ~/.sacrebleu."""

import difflib
import logging
from dataclasses import dataclass
from pathlib import Path

from sacrebleu import utils
from sacrebleu.dataset import DATASETS

from nmt.errors import NmtError
from nmt.evaluation.aligned_texts import Lines
from nmt.files.text import read_lines

log = logging.getLogger("nmt")


@dataclass(frozen=True)
class NamedTestSet:
    """A source and its reference translations, and the language that they are in."""

    source: Lines
    references: list[Lines]
    target_language: str


def load(name: str, language_pair: str) -> NamedTestSet:
    """The test set for a pair such as en-de, downloaded by sacreBLEU if it is not there yet.

    Raises NmtError for a name or a pair that sacreBLEU does not know, and where the download fails.
    """
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`sacrebleu --list` shows them"
        raise NmtError(f"--test-set {name}: sacreBLEU knows no such test set: {hint}")
    pairs = DATASETS[name].langpairs
    if language_pair not in pairs:
        raise NmtError(f"--language-pair {language_pair}: {name} has none such: choose from {', '.join(sorted(pairs))}")
    folder = Path(utils.SACREBLEU_DIR) / name
    try:
        if not any(folder.glob(f"*.{language_pair}.src")):
            log.info("%s: downloading to %s", name, folder)
        source = utils.get_source_file(name, language_pair)
        references = utils.get_reference_files(name, language_pair)
    except (Exception, SystemExit) as error:  # sacreBLEU's parts raise what they like, and it exits at a wrong checksum
        raise NmtError(
            f"--test-set {name}: cannot be had ({error}): sacreBLEU downloads it into {folder}: give the files as "
            "--source and --reference, or delete that folder and try again where the network allows it"
        ) from None
    texts = [Lines(f"{name} {Path(path).name}", list(read_lines(Path(path)))) for path in (source, *references)]
    return NamedTestSet(texts[0], texts[1:], language_pair.partition("-")[2])
