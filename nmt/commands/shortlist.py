"""`nmt shortlist`: learns which target subwords translate which source subword, and writes them into the model file."""

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.checkpoints.rewriting import rewriting
from nmt.data.cleaning.cleaner import without_empty
from nmt.data.sources.corpus import Pair, read_pairs
from nmt.data.subwords.encoding import encode_pairs
from nmt.data.subwords.shortlist import Shortlist, learn
from nmt.errors import NmtError
from nmt.files.text import line_pairs
from nmt.loading.command_models import log_chosen_files
from nmt.loading.opened_model import open_model

log = logging.getLogger("nmt")

_MOST_PAIRS = 200_000  # that a shortlist is learned from: about a minute


def write(model: Path, source: Path | None = None, target: Path | None = None) -> Path:
    """Learn a shortlist from two files, or from the training text, and write it into the model file in place of an old
    one. Returns the file. Raises NmtError if a text is missing, or the file cannot be written; then nothing changes."""
    if (source is None) != (target is None):
        raise NmtError("--source, --target: give both files, or neither for the training text")
    opened = open_model(model)
    with rewriting(opened.file) as save:
        log_chosen_files(opened)
        loaded = model_file.load(opened.file)
        shortlist = learned(loaded, line_pairs(source, target) if source and target else training_text(loaded))
        save(lambda checkpoint: replace(checkpoint, shortlist=shortlist))
    return opened.file


def training_text(loaded: Checkpoint) -> Iterable[Pair]:
    """The pairs of data.train. Raises NmtError, while they are read, if one is not on this machine."""
    data = loaded.config.data
    try:
        yield from chain.from_iterable(read_pairs(corpus, data, "train") for corpus in data.train)
    except NmtError as error:
        raise NmtError(f"data.train: {error}: give a text: nmt shortlist MODEL --source FILE --target FILE") from None


def learned(loaded: Checkpoint, pairs: Iterable[Pair]) -> Shortlist:
    """A shortlist from at most 200,000 of these pairs. Logs how much of the validation text it covers, if that text can
    be read. Raises NmtError if no pair has words on both sides."""
    chosen, step, count, vocabulary = list[Pair](), 1, 0, loaded.vocabulary
    for count, pair in enumerate(pairs, start=1):
        if count % step == 0:
            chosen.append(pair)
        if len(chosen) > _MOST_PAIRS:  # every second one, so that all parts of the text remain
            chosen, step = chosen[1::2], 2 * step
    chosen = without_empty(chosen)
    if not chosen:
        raise NmtError("the text has no pair with words on both sides: give another one with --source and --target")
    log.info("shortlist: learning from %s of %s pairs", f"{len(chosen):,}", f"{count:,}")
    shortlist, data = learn(encode_pairs(chosen, vocabulary), vocabulary), loaded.config.data
    with suppress(NmtError):  # the validation text is not there
        held_out = [pair for corpus in data.held_out for pair in read_pairs(corpus, data, "validation")]
        if held_out := without_empty(held_out):
            covered, size = shortlist.covered(encode_pairs(held_out, vocabulary))
            log.info(
                "shortlist: %.0f of %s subwords for a sentence of the validation text; %.1f%% of its translation's",
                *(size, f"{len(vocabulary.target):,}", 100 * covered),
            )
    return shortlist
