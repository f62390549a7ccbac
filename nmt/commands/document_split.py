"""Splits a corpus of documents into training, validation and test sets.

All pairs of a document are in one set, in their order, for evaluation and training with context. Documents often share
sentences, such as "Yes." or a footer. If such documents had to be in one set, most corpora would be a single group.
Instead, a sentence of several documents is left out of the validation and test sets, and stays in the training set.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from nmt.data.cleaning.rules.near_duplicates import folded_texts
from nmt.errors import NmtError

DocumentPair = tuple[str, str, str]  # source, target, and the name of the document (empty: none)
Sets = dict[str, list[DocumentPair]]


def split_documents(pairs: Sequence[DocumentPair], held_out: int, most: int | None, seed: int) -> Sets:
    """The sets `validation` and `test`, each of documents that are drawn until it has `held_out` pairs, and `train`
    with the other documents, or their first `most` pairs.

    Pairs that share a sentence with another document are left out of `validation` and `test`. Documents with more than
    `held_out` other pairs are only held out if the smaller ones are too few. Pairs without a document are training
    pairs. The sets do not depend on the order of the documents. Raises NmtError if the documents are too few.
    """
    draws = random.Random(seed)
    documents, unique_pairs = defaultdict[str, list[DocumentPair]](list), defaultdict[str, list[DocumentPair]](list)
    for pair, is_unique in zip(pairs, _are_unique(pairs), strict=True):
        documents[pair[2]].append(pair)
        if is_unique and pair[2]:
            unique_pairs[pair[2]].append(pair)
    candidates = draws.sample(sorted(unique_pairs), len(unique_pairs))
    candidates.sort(key=lambda name: max(len(unique_pairs[name]), held_out))
    sets: Sets = {"train": [], "validation": [], "test": []}
    remaining, train = iter(candidates), set(documents)
    for name in ("validation", "test"):
        while len(sets[name]) < held_out and (document := next(remaining, None)) is not None:
            sets[name] += unique_pairs[document]
            train.remove(document)
    if len(sets["test"]) < held_out or not train:
        count = sum(map(len, unique_pairs.values()))
        raise NmtError(
            f"--pairs {held_out}: too few documents: {len(documents.keys() - {''}):,}, with {count:,} pairs that share "
            "no sentence with another document, for three sets: choose a smaller --pairs, or another --by"
        )
    train_documents = draws.sample(sorted(train), len(train))
    sets["train"] = list(chain.from_iterable(documents[name] for name in train_documents))[:most]
    return sets


def _are_unique(pairs: Sequence[DocumentPair]) -> list[bool]:
    """Whether no other document has the source or the target of each pair. Only letters and digits are compared."""
    unique = [True] * len(pairs)
    for side in (0, 1):
        texts, document_of, shared = folded_texts([pair[side] for pair in pairs]), dict[str, str](), set[str]()
        for text, pair in zip(texts, pairs, strict=True):
            if document_of.setdefault(text, pair[2]) != pair[2]:
                shared.add(text)
        unique = [both and text not in shared for both, text in zip(unique, texts, strict=True)]
    return unique
