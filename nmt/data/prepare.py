"""Everything that training needs from the data, made once: vocabulary, token store, validation pairs."""

import hashlib
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from nmt.config import reader, schema
from nmt.data import corpus, store_folder, suspicions, token_store, vocabulary
from nmt.data.cleaning import Counts, Report, cleaned, nothing_left, without_empty
from nmt.data.corpus import Pair
from nmt.data.token_store import TokenStore
from nmt.data.vocabulary import Tokenizer, Vocabulary
from nmt.errors import NmtError

log = logging.getLogger("nmt")


@dataclass(frozen=True)
class Prepared:
    vocabulary: Vocabulary
    train: TokenStore
    data_key: str  # stands for the content of `train`: the same pairs, cleaned and encoded the same way
    validation: list[Pair] | None  # as text; pairs with an empty side left out, nothing else
    validation_ids: TokenStore | None  # the same pairs encoded
    report: Report  # on the training data


def prepare(run: schema.Config) -> Prepared:
    """Learn the vocabulary and encode the training data, or find both again where they were kept.

    They are kept in `data.store_dir` (or `RUN/data`) under the content that they follow from: corpora and
    settings. Processes that prepare the same at the same time wait for the first. Logs what is built and
    what is reused. Raises NmtError for what is wrong with the data or does not suit it.
    """
    validation = _validation(run.data)
    store = Path(run.data.store_dir or Path(run.run_dir) / "data")
    with store_folder.locked(store):
        corpora = [corpus.fingerprint(one, "train") for one in run.data.train]
        subwords = _vocabulary(run, corpora, store)
        folder, train, counts = _token_store(run, corpora, subwords, store)
    _warn(run.data, counts, validation)
    return Prepared(
        subwords,
        train,
        folder.name,
        validation,
        token_store.encode_pairs(validation, subwords) if validation else None,
        Report(
            (run.data.source_language, run.data.target_language), tuple(one.label for one in run.data.train), counts
        ),
    )


def _validation(data: schema.DataConfig) -> list[Pair] | None:
    if data.validation is None:
        return None
    pairs = list(corpus.read_pairs(data.validation, data, "validation"))
    full = without_empty(pairs)
    left_out = f", {len(pairs) - len(full):,} with an empty side left out" if len(full) < len(pairs) else ""
    log.info("validation: %s pairs%s", f"{len(full):,}", left_out)
    if not full:
        raise NmtError(f"{data.validation.label}: every pair has an empty side: data.validation needs some text")
    return full


def _warn(data: schema.DataConfig, counts: Sequence[Counts], validation: list[Pair] | None) -> None:
    """Log what looks wrong with the data, a line for each finding: see `suspicions`."""
    languages, held_out = (data.source_language, data.target_language), (validation or [])[: suspicions.SAMPLE]
    found = chain.from_iterable(
        suspicions.dropped(one.label, count) for one, count in zip(data.train, counts, strict=True)
    )
    if data.validation is not None:
        name = f"data.validation, {data.validation.label}"
        found = chain(found, suspicions.of_text(name, held_out, languages))
    for one in data.train:
        if not one.hub:  # whose columns have names, and which may come over the network
            pairs = without_empty(list(islice(corpus.read_pairs(one, data, "train"), suspicions.SAMPLE)))
            found = chain(found, suspicions.of_text(one.label, pairs, languages, held_out))
    for warning in found:
        log.warning("%s", warning)


def _cleaning_key(data: schema.DataConfig, corpora: list[str]) -> list[object]:
    """What decides which pairs of text are trained on."""
    return [corpora, data.source_language, data.target_language, data.drop_copies, data.drop_duplicates]


# --------------------------------------------------------------------------- vocabulary


def _vocabulary(run: schema.Config, corpora: list[str], store: Path) -> Vocabulary:
    given = run.vocabulary
    if given.shared:
        path = given.source_model or given.target_model
        both = _given("vocabulary", path) if path else _learned("vocabulary", (0, 1), run, corpora, store)
        return Vocabulary(both, both)
    source, target = (
        _given(name, path) if path else _learned(name, (side,), run, corpora, store)
        for side, (name, path) in enumerate(
            (("source vocabulary", given.source_model), ("target vocabulary", given.target_model))
        )
    )
    return Vocabulary(source, target)


def _given(name: str, path: str) -> Tokenizer:
    tokenizer = vocabulary.load(Path(path))
    log.info("%s: %s subwords from %s", name, f"{len(tokenizer):,}", path)
    return tokenizer


def _learned(name: str, sides: tuple[int, ...], run: schema.Config, corpora: list[str], store: Path) -> Tokenizer:
    """The vocabulary of these sides (0 source, 1 target), learned now or before."""
    asked = reader.to_dict(run.vocabulary) | {"source_model": None, "target_model": None, "shared": len(sides) == 2}
    del asked["bpe_dropout"], asked["bpe_dropout_samples"]  # which act on the text, not on what is learned
    key = store_folder.content_key(vocabulary.FORMAT, _cleaning_key(run.data, corpora), asked, sides)
    folder = store / f"vocabulary-{key}"
    if folder.exists():
        tokenizer = vocabulary.load(folder / "subwords.model")
        log.info("%s: %s subwords reused from %s", name, f"{len(tokenizer):,}", folder)
        return tokenizer
    start, counts = time.perf_counter(), [Counts() for _ in run.data.train]
    pairs = sum(len(chunk) for _, chunk in cleaned(run.data, counts, "counting", corpora))
    if not pairs:
        raise nothing_left(counts)
    sample = min(pairs, run.vocabulary.sample_sentences)

    def sentences() -> Iterator[str]:
        texts = cleaned(run.data, [Counts() for _ in run.data.train], "learning", corpora)
        for pair in evenly((chunk for _, chunk in texts), pairs, sample):
            for side in sides:
                yield pair[side]

    tokenizer = vocabulary.learn(sentences(), run.vocabulary)
    store_folder.build(folder, lambda unfinished: (unfinished / "subwords.model").write_bytes(tokenizer.proto))
    of_all = f" of {pairs * len(sides):,}" if sample < pairs else ""
    log.info(
        "%s: %s subwords learned from %s%s sentences (%.1f s)",
        *(name, f"{len(tokenizer):,}", f"{sample * len(sides):,}", of_all, time.perf_counter() - start),
    )
    return tokenizer


def evenly(chunks: Iterable[list[Pair]], total: int, wanted: int) -> Iterator[Pair]:
    """`wanted` of all `total` pairs, at equal distances."""
    number = 0
    for chunk in chunks:
        for pair in chunk:
            if number * wanted % total < wanted:
                yield pair
            number += 1


# --------------------------------------------------------------------------- token store


def _token_store(
    run: schema.Config, corpora: list[str], subwords: Vocabulary, store: Path
) -> tuple[Path, TokenStore, tuple[Counts, ...]]:
    data, dropout, times = run.data, run.vocabulary.bpe_dropout, run.vocabulary.segmentations
    models = [hashlib.sha256(proto).hexdigest() for proto in subwords.protos]
    how = [data.max_length, data.max_length_ratio, *([dropout, times] if dropout else [])]
    folder = store / f"tokens-{store_folder.content_key(token_store.FORMAT, _cleaning_key(data, corpora), models, how)}"
    start, found = time.perf_counter(), folder.exists()
    if not found:
        store_folder.build(
            folder, lambda unfinished: token_store.write(unfinished, data, subwords, corpora, dropout, times)
        )
    train, counts = token_store.load(folder)
    kept, where = f"{len(train) // times:,}", f"{folder}, in {times} segmentations" if dropout else f"{folder}"
    if found:
        log.info("token store: %s pairs reused from %s", kept, where)
    else:
        read, seconds = f"{sum(count.read for count in counts):,}", time.perf_counter() - start
        log.info("token store: %s of %s pairs kept in %s (%.1f s)", kept, read, where, seconds)
    return folder, train, counts
