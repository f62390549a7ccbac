"""Test sets of sacreBLEU (Post 2018), for validation and evaluation. sacreBLEU downloads them to $SACREBLEU or
~/.sacrebleu."""

import logging
from pathlib import Path

from sacrebleu import utils
from sacrebleu.dataset import DATASETS

from nmt.config import schema
from nmt.config.suggestions import did_you_mean
from nmt.errors import NmtError, in_one_line

log = logging.getLogger("nmt")


def sacrebleu_files(corpus: schema.Corpus, data: schema.DataConfig) -> tuple[Path, Path]:
    """The text files of a corpus that is a test set: its source and its first reference, aligned line by line.

    Raises NmtError if the test set or its language pair does not exist, or if it cannot be downloaded.
    """
    assert corpus.sacrebleu
    pair = f"{corpus.source_column or data.source_language}-{corpus.target_column or data.target_language}"
    other_pair = ", choose another test set, or give its codes as source_column and target_column"
    source, references = find_files(corpus.sacrebleu, pair, corpus.label, f"{corpus.label}, {pair}", other_pair)
    return source, references[0]


def find_files(name: str, pair: str, name_shown: str, pair_shown: str, other_pair: str = "") -> tuple[Path, list[Path]]:
    """The source and the references of a test set, for a pair such as `en-de`.

    name_shown, pair_shown: the beginnings of messages. other_pair: another remedy for a pair that the set does not
    have. Raises NmtError as `sacrebleu_files` does.
    """
    if name not in DATASETS:
        hint = did_you_mean(name, DATASETS, most=3, cutoff=0.5) or "`sacrebleu --list` shows them"
        raise NmtError(f"{name_shown}: sacreBLEU knows no such test set: {hint}")
    pairs = DATASETS[name].langpairs
    if pair not in pairs:
        raise NmtError(f"{pair_shown}: {name} does not have it: choose from {', '.join(sorted(pairs))}{other_pair}")
    folder = Path(utils.SACREBLEU_DIR, name)
    try:
        if not any(folder.glob(f"*.{pair}.src")):
            log.info("%s: downloading to %s", name, folder)
        source, references = utils.get_source_file(name, pair), utils.get_reference_files(name, pair)
    # The library raises exceptions of many kinds; for a wrong checksum it ends the process.
    except (Exception, SystemExit) as error:
        stopped = isinstance(error, SystemExit)
        reason = "sacreBLEU has said why" if stopped else in_one_line(error)
        raise NmtError(
            f"{name_shown}: cannot be downloaded ({reason}): check the network, and delete {folder} if a download was "
            "interrupted; or give the text files instead"
        ) from error
    return Path(source), [Path(reference) for reference in references]
