"""The terms that data.augment.terms marks: a glossary, or a lexicon of the text, kept in the store."""

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nmt.config import schema
from nmt.data.cleaning.cleaned_text import sampled_evenly
from nmt.data.cleaning.training_text import TrainingText
from nmt.data.sources.corpus import Pair
from nmt.data.subwords.term_marks import TermMarker
from nmt.files import atomic
from nmt.files.text import content_key, file_digest
from nmt.terms import lexicon
from nmt.terms.glossary import Glossary

log = logging.getLogger("nmt")


def glossary_digests(data: schema.DataConfig) -> list[str]:
    """The hash of the glossary's content, for keys; empty without a glossary. Raises NmtError if it is missing."""
    settings = data.augment.marked_terms
    return [file_digest(Path(settings.file))] if settings.share and settings.file else []


def find_marker(text: TrainingText, store: Path) -> TermMarker | None:
    """What marks the terms of the training text; None without data.augment.terms. A lexicon is learned from a sample of
    the text, or read from the store. Raises NmtError if the glossary is not one."""
    settings = text.data.augment.marked_terms
    if not settings.share:
        return None
    if settings.file:
        return TermMarker(Glossary.load(Path(settings.file)))
    path = store / f"terms-{content_key(text.key)}.json"
    if not path.exists():
        start, pairs = time.perf_counter(), sum(count.kept for count in text.cleaned.counts)

        def read() -> Iterator[Pair]:
            first = 0
            for _, chunk in text.cleaned.chunks():
                sampled = sampled_evenly(np.arange(first, first + len(chunk)), pairs, min(pairs, lexicon.MOST_PAIRS))
                yield from (chunk[i] for i in np.flatnonzero(sampled))
                first += len(chunk)

        words = lexicon.learn_lexicon(read)
        with atomic.reporting(path, "data.store_dir"):
            atomic.write_text(path, json.dumps(words, ensure_ascii=False, indent=0) + "\n")
        seconds = time.perf_counter() - start
        log.info(
            "terms: %s words with their translations found in the text: %s (%.1f s)", f"{len(words):,}", path, seconds
        )
    return TermMarker(json.loads(path.read_text(encoding="utf-8")))
