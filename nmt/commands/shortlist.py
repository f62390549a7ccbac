"""`nmt shortlist`: learns which target subwords translate which source subword, and writes them into the model file."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.checkpoints.rewriting import rewriting
from nmt.config.language_pairs import LanguagePair
from nmt.data.cleaning.cleaner import without_empty
from nmt.data.sources.corpus import Pair, read_pairs
from nmt.data.subwords.encoding import encode_pairs
from nmt.data.subwords.shortlist import Shortlist, learn
from nmt.errors import NmtError
from nmt.files.text import line_pairs
from nmt.interop.imported import UNKNOWN_TEXT
from nmt.loading.command_models import log_chosen_files
from nmt.loading.opened_model import open_model

log = logging.getLogger("nmt")

_MOST_PAIRS = 200_000  # that a shortlist is learned from: about a minute
_LOW_COVERAGE = 0.75


def write(model: Path, source: Path | None = None, target: Path | None = None) -> Path:
    """Learn a shortlist from two files, or from the training text, and write it into the model file in place of an old
    one. Returns the file. Raises NmtError if a text is missing, or the file cannot be written; then nothing changes."""
    if (source is None) != (target is None):
        raise NmtError("--source, --target: give both files, or neither for the training text")
    opened = open_model(model)
    with rewriting(opened.file) as save:
        log_chosen_files(opened)
        loaded = model_file.load(opened.file)
        if (architecture := loaded.config.model.architecture) != "transformer":
            raise NmtError(f"{opened.file}: model.architecture: {architecture}: only a transformer uses a shortlist")
        given = [line_pairs(source, target)] if source and target else training_text(loaded)
        pairs = loaded.config.data.language_pairs
        if pairs.tag_count(side=1):
            log.warning(
                "nmt never uses a shortlist with this model: data.language_tags: %s puts a token before each target",
                pairs.tagged,
            )
        if source and pairs.several:
            log.warning("the model has %d language pairs: the text should contain all of them", len(pairs.pairs))
        shortlist = learned(loaded, given)
        save(lambda checkpoint: replace(checkpoint, shortlist=shortlist))
    return opened.file


def training_text(loaded: Checkpoint) -> list[Iterator[Pair]]:
    """The pairs of data.train, by language pair. Reading raises NmtError if a corpus is not on this machine."""
    data = loaded.config.data

    def read(languages: LanguagePair) -> Iterator[Pair]:
        for corpus in (one for one in data.train if data.pair_of(one) == languages):
            try:
                yield from read_pairs(corpus, data, "train")
            except NmtError as error:
                why = "unknown: the model is imported" if corpus.file == UNKNOWN_TEXT else error
                command = "nmt shortlist MODEL --source FILE --target FILE"
                raise NmtError(f"data.train: {why}: give a text: {command}") from None

    return list(map(read, data.language_pairs.pairs))


def learned(loaded: Checkpoint, texts: Sequence[Iterable[Pair]]) -> Shortlist:
    """A shortlist from at most 200,000 pairs, equally many of each text that has enough. Logs how much of the
    validation text it covers, if that text can be read. Raises NmtError if no pair has words on both sides."""
    parts = [_evenly(text, _MOST_PAIRS // len(texts)) for text in texts]
    chosen, count = without_empty([pair for part, _ in parts for pair in part]), sum(size for _, size in parts)
    if not chosen:
        raise NmtError("the text has no pair with words on both sides: give another one with --source and --target")
    log.info("shortlist: learning from %s of %s pairs", f"{len(chosen):,}", f"{count:,}")
    vocabulary, data = loaded.vocabulary, loaded.config.data
    shortlist = learn(encode_pairs(chosen, vocabulary), vocabulary)
    with suppress(NmtError):  # the validation text is not there
        held_out = [pair for corpus in data.held_out for pair in read_pairs(corpus, data, "validation")]
        if held_out := without_empty(held_out):
            covered, size = shortlist.covered(encode_pairs(held_out, vocabulary))
            sizes = f"{size:,.0f} of {len(vocabulary.target):,}"
            log.info(
                "shortlist: %s subwords per validation sentence, which cover %.1f%% of its translation",
                sizes,
                100 * covered,
            )
            if covered < _LOW_COVERAGE:
                log.warning("this coverage is low: is there enough text, and is it in the languages of the model?")
    return shortlist


def _evenly(pairs: Iterable[Pair], most: int) -> tuple[list[Pair], int]:
    """At most so many pairs, from all parts of a text, and the number of pairs in the text."""
    chosen, step, count = list[Pair](), 1, 0
    for count, pair in enumerate(pairs, start=1):
        if count % step == 0:
            chosen.append(pair)
        if len(chosen) > most:  # every second one
            chosen, step = chosen[1::2], 2 * step
    return chosen, count
