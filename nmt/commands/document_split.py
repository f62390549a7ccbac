"""Splits a corpus of documents into training, validation and test sets.

All pairs of a document are in one set, in their order, for evaluation and training with context. Documents often share
sentences, such as "Yes." or a footer. If such documents had to be in one set, most corpora would be a single group.
Instead, a sentence of several documents is left out of the validation and test sets, and stays in the training set.
"""

import random
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from nmt.data.cleaning.rules.near_duplicates import folded_texts
from nmt.errors import NmtError


class DocumentPair(NamedTuple):
    """A pair of sentences with the name of its document; empty: unknown."""

    source: str
    target: str
    document: str


def split_documents(
    pairs: Sequence[DocumentPair], held_out: int, most: int | None, seed: int
) -> dict[str, list[DocumentPair]]:
    """The sets `validation` and `test`, each of whole documents that are drawn until it has `held_out` pairs, and
    `train` with the other documents, or their first `most` pairs.

    Pairs that share a sentence with another document are left out of `validation` and `test`, and are not counted
    there. Documents with more than `held_out` other pairs are only held out if the smaller ones are too few. Pairs
    without a document are training pairs. The sets do not depend on the order of the documents. Raises NmtError if the
    documents are too few.
    """
    draws = random.Random(seed)
    documents, unique_pairs = dict[str, list[DocumentPair]](), dict[str, list[DocumentPair]]()
    for pair, is_unique in zip(pairs, _is_unique(pairs), strict=True):
        documents.setdefault(pair.document, []).append(pair)
        if is_unique and pair.document:
            unique_pairs.setdefault(pair.document, []).append(pair)
    candidates = draws.sample(sorted(unique_pairs), len(unique_pairs))
    candidates.sort(key=lambda name: max(len(unique_pairs[name]), held_out))
    sets: dict[str, list[DocumentPair]] = {"train": [], "validation": [], "test": []}
    remaining, training_documents = iter(candidates), set(documents)
    for name in ("validation", "test"):
        while len(sets[name]) < held_out and (document := next(remaining, None)) is not None:
            sets[name] += unique_pairs[document]
            training_documents.remove(document)
    if len(sets["test"]) < held_out or not training_documents:
        count = sum(map(len, unique_pairs.values()))
        raise NmtError(
            f"--pairs {held_out}: too few documents: {len(documents.keys() - {''}):,}, with {count:,} pairs that share "
            "no sentence with another document, for validation, test and training: choose a smaller --pairs"
        )
    train = draws.sample(sorted(training_documents), len(training_documents))
    sets["train"] = list(chain.from_iterable(documents[name] for name in train))[:most]
    return sets


def _is_unique(pairs: Sequence[DocumentPair]) -> list[bool]:
    """Whether no other document has the source or the target of each pair. Only letters and digits are compared."""
    unique = [True] * len(pairs)
    for side in (0, 1):
        texts, document_of, shared = folded_texts([pair[side] for pair in pairs]), dict[str, str](), set[str]()
        for text, pair in zip(texts, pairs, strict=True):
            if document_of.setdefault(text, pair.document) != pair.document:
                shared.add(text)
        unique = [both and text not in shared for both, text in zip(unique, texts, strict=True)]
    return unique
