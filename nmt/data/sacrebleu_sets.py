"""The test sets of sacreBLEU (Post 2018), as corpora to validate on. sacreBLEU downloads them, to $SACREBLEU or
~/.sacrebleu."""

import difflib
from pathlib import Path

from nmt.config import schema
from nmt.errors import NmtError


def sacrebleu_files(corpus: schema.Corpus, data: schema.DataConfig) -> tuple[Path, Path]:
    """The text files of a test set: its source, and the first of its references, aligned line by line.

    Raises NmtError if the test set or its pair of languages does not exist, or if it cannot be downloaded.
    """
    from sacrebleu import utils
    from sacrebleu.dataset import DATASETS

    assert corpus.sacrebleu
    name = corpus.sacrebleu
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "`sacrebleu --list` shows them"
        raise NmtError(f"{corpus.label}: sacreBLEU has no test set of this name: {hint}")
    pairs = DATASETS[name].langpairs
    pair = f"{corpus.source_column or data.source_language}-{corpus.target_column or data.target_language}"
    if pair not in pairs:
        raise NmtError(
            f"{corpus.label}: no {pair}; there is {', '.join(sorted(pairs))}: choose another test set, or "
            "give its codes as source_column and target_column"
        )
    try:
        source_file, reference_file = utils.get_source_file(name, pair), utils.get_reference_files(name, pair)[0]
    # The library raises exceptions of many kinds; for a wrong checksum it ends the process.
    except (Exception, SystemExit) as error:
        stopped = isinstance(error, SystemExit)
        reason = "sacreBLEU has said why" if stopped else " ".join(str(error).split()) or type(error).__name__
        raise NmtError(
            f"{corpus.label}: cannot be downloaded ({reason}): check the network, or delete "
            f"{Path(utils.SACREBLEU_DIR, name)} if a download was interrupted"
        ) from error
    return Path(source_file), Path(reference_file)
