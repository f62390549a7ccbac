"""Prepare the data for training: corpora → cleaned text → vocabulary → tokens. Each of the three results is a folder in
the store. It is named by a hash of its inputs, and reused if it exists. The longest steps, the rules of data.clean and
the encoding, continue where an interrupted preparation ended.
"""

import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from nmt.config import schema, writer
from nmt.config.language_pairs import LanguagePair
from nmt.config.special_subwords import TERM_TAGS
from nmt.data.batches import stages, token_store
from nmt.data.batches.token_store import TokenStore
from nmt.data.cleaning import corpus_checks, data_problems, statistics, validation_overlap
from nmt.data.cleaning.cleaned_text import sampled_evenly
from nmt.data.cleaning.cleaner import without_empty
from nmt.data.cleaning.source_text import SourceText
from nmt.data.cleaning.statistics import CorpusStatistics, source_text
from nmt.data.cleaning.summary import CorpusCounts, DataSummary, nothing_left
from nmt.data.cleaning.training_text import TrainingText
from nmt.data.cleaning.validation_overlap import Overlap
from nmt.data.sources.corpus import Pair, check_files, fingerprint, read_pairs, training_text_record
from nmt.data.subwords import vocabulary
from nmt.data.subwords.encoding import encode_pairs, encode_text, varied
from nmt.data.subwords.term_marks import TermMarker, load_glossary
from nmt.data.subwords.vocabulary import Tokenizer, Vocabulary
from nmt.errors import NmtError
from nmt.files import atomic, checksums
from nmt.files.text import content_key, file_digest
from nmt.terms.lexicon import MOST_PAIRS, learn_lexicon

log = logging.getLogger("nmt")

# The files of a vocabulary in the store. The source has its own file if its text is normalized differently.
_FILE, _SOURCE_FILE = "subwords.model", "source.model"


@dataclass(frozen=True)
class ValidationSet:
    """A corpus to validate on."""

    name: str
    languages: LanguagePair
    tags: tuple[str, ...]  # the tokens before each source, then the tokens before each target
    pairs: list[Pair]  # as text, without pairs that have an empty side
    ids: TokenStore  # the same pairs encoded, with the tags


@dataclass(frozen=True)
class PreparedData:
    """All data that training needs."""

    vocabulary: Vocabulary
    train: TokenStore
    source_text: SourceText
    data_key: str  # equal keys mean equal pairs that were cleaned and encoded in the same way
    validation: tuple[ValidationSet, ...]
    summary: DataSummary  # on the training data
    folder: Path  # of the token store
    overlaps: tuple[Overlap, ...]  # of each validation set with the training data
    problems: tuple[str, ...]  # warnings on the data
    training_text: Sequence[Mapping[str, object]]  # what the model file says about each corpus


def prepare(config: schema.Config, started_with: Vocabulary | None = None, *, verify: bool = True) -> PreparedData:
    """Learn the vocabulary and encode the training data, or reuse both from `data.store_dir` (or `RUN/data`), where an
    earlier run stored them. Processes that prepare data there at the same time wait for one another.

    started_with: the vocabulary of the model that the run starts from; none is learned then, and tags that it lacks are
    added at its end. verify: whether tokens of an earlier run are compared with their checksums, which reads all of
    them.

    Logs a warning for each problem that `corpus_checks` finds. Raises NmtError for unusable data, and if too many pairs
    of a validation set are training pairs, unless data.validation_in_training allows it.
    """
    data = config.data
    check_files(data)
    load_glossary(data)  # to find mistakes before the work
    named = _named_vocabularies(config.vocabulary)
    held_out = [read_validation(corpus, data) for corpus in data.held_out]
    store = Path(data.store_dir or Path(config.run_dir) / "data")
    with locked(store, "run_dir" if data.store_dir is None else "data.store_dir"):
        digests = dict[Path, str]()
        fingerprints = tuple(fingerprint(corpus, data, "train", digests) for corpus in data.train)
        text = TrainingText(data, fingerprints, store, held_out)
        subwords = _find_vocabulary(text, config.vocabulary, store, named, started_with)
        _check_tags(subwords, data, named)
        overlaps = _find_overlaps(text, store)
        data_key, tokens, counts = _find_tokens(text, subwords, config, store, verify=verify)
        stages.check_shares(data, counts)  # encoding drops pairs too, and the vocabulary may come from a file
    counted = statistics.read(store / data_key)
    warnings = tuple(
        chain(
            data_problems.in_corpora(data, counts, held_out, overlaps, counted["scores"]),
            data_problems.in_samples(data, counts, held_out, counted["corpora"]),
            corpus_checks.not_written(counted["changes"]),
            corpus_checks.no_terms(data, counts),
            stages.problems(data, config.training.max_steps),
        )
    )
    for problem in warnings:
        log.warning("%s", problem)
    return PreparedData(
        vocabulary=subwords,
        train=tokens,
        source_text=source_text(counted, [data.pair_of(corpus).source for corpus in data.train]),
        data_key=data_key,
        validation=validation_sets(data, held_out, subwords),
        summary=DataSummary(
            data.language_pairs.sides,
            tuple(corpus.label for corpus in data.train),
            counts,
            counted["changes"],
            counted["notes"],
        ),
        folder=store / data_key,
        overlaps=overlaps,
        problems=warnings,
        training_text=training_text_record(data, fingerprints, [count.kept for count in counts], digests),
    )


def _find_overlaps(text: TrainingText, store: Path) -> tuple[Overlap, ...]:
    """The overlap of the validation sets with the training text, computed now or by an earlier run. Raises NmtError if
    it is too large."""
    if not text.held_out:
        return ()
    languages = [text.data.pair_of(corpus) for corpus in (*text.data.held_out, *text.data.train)]
    path = store / f"overlap-{content_key(text.key, text.held_out, languages)}.json"
    if path.exists():
        overlaps = validation_overlap.read(path, len(text.held_out))
    else:
        overlaps = tuple(text.find_overlaps())
        try:
            validation_overlap.write(path, overlaps)
        except OSError as error:  # such as a read-only disk: the next run computes them again
            log.info("data: %s cannot be written (%s)", path, error.strerror or error)
    validation_overlap.check(overlaps, text.data)
    return overlaps


def read_validation(corpus: schema.Corpus, data: schema.DataConfig) -> list[Pair]:
    """The pairs of a corpus of data.validation without pairs that have an empty side. Raises NmtError if none
    remains."""
    pairs = list(read_pairs(corpus, data, "validation"))
    full = without_empty(pairs)
    left_out = f", {len(pairs) - len(full):,} with an empty side left out" if len(full) < len(pairs) else ""
    which = f", {data.held_out_names[data.held_out.index(corpus)]}" if len(data.held_out) > 1 else ""
    log.info("validation%s: %s pairs%s", which, f"{len(full):,}", left_out)
    if not full:
        raise NmtError(f"{corpus.label}: every pair has an empty side: data.validation needs some text")
    return full


def validation_sets(
    data: schema.DataConfig, held_out: Sequence[list[Pair]], vocabulary_: Vocabulary
) -> tuple[ValidationSet, ...]:
    """The sets of data.validation; held_out: the pairs of each."""
    sets = []
    every_tags = zip(*(data.tags_of(data.held_out, side) for side in (0, 1)), strict=True)
    for corpus, name, tags, pairs in zip(data.held_out, data.held_out_names, every_tags, held_out, strict=True):
        ids = encode_pairs(pairs, vocabulary_, *tags)
        sets.append(ValidationSet(name, data.pair_of(corpus), sum(tags, ()), pairs, ids))
    return tuple(sets)


@contextmanager
def locked(store: Path, setting: str = "data.store_dir") -> Iterator[None]:
    """Lock the store, and wait while another process has the lock. The store is created if it is missing. Unfinished
    files of killed processes are removed. A store that cannot be written, such as one on a read-only disk, is used
    without a lock if it contains tokens. Raises NmtError, with the setting that names the store, if it cannot be
    created."""
    with ExitStack() as held:
        with atomic.reporting(store, setting):
            try:
                atomic.make_folder(store)
                message = f"data: waiting for another process that prepares data in {store}"
                held.enter_context(atomic.locked(store, lambda: log.info("%s", message)))
                atomic.remove_unfinished(store)
            except OSError as error:
                if os.access(store, os.W_OK) or not any(store.glob("tokens-*")):
                    raise
                log.info("data: %s is not writable (%s): the data in it is used", store, error.strerror)
        yield


def _named_vocabularies(settings: schema.VocabularyConfig) -> dict[str, Tokenizer]:
    """The SentencePiece models that are named in the settings, by setting. One file for both sides is loaded twice,
    because a single object would mean a shared vocabulary."""
    named = dict[str, Tokenizer]()
    for key in ("source_model", "target_model"):
        if model := getattr(settings, key):
            try:
                named[key] = vocabulary.load(Path(model))
            except NmtError as error:
                raise NmtError(f"vocabulary.{key}: {error}") from None
    return named


def _find_vocabulary(
    text: TrainingText,
    settings: schema.VocabularyConfig,
    store: Path,
    named: Mapping[str, Tokenizer],
    started_with: Vocabulary | None,
) -> Vocabulary:
    """The vocabulary: from the SentencePiece models that the settings name, from the model that the run starts from,
    from the store, or learned now."""

    def find(name: str, key: str, sides: tuple[int, ...]) -> list[Tokenizer]:
        """The tokenizer of each of the sides."""
        if key not in named and started_with is not None:
            own = [(started_with.source, started_with.target)[side] for side in sides]
            new = [tag for tag in text.data.tags(sides) if tag not in own[0].every_piece()]
            added = f", and {len(new)} new at its end: {', '.join(new)}" if new else ""
            log.info("%s: %s subwords of the model in training.start_from%s", name, f"{len(own[0]):,}", added)
            with_tags = {tokenizer: tokenizer.with_tags(new) if new else tokenizer for tokenizer in own}
            return [with_tags[tokenizer] for tokenizer in own]
        if key not in named:
            return _learned_vocabulary(name, sides, text, settings, store)
        log.info("%s: %s subwords from %s", name, f"{len(named[key]):,}", getattr(settings, key))
        return [named[key] for _ in sides]

    if settings.shared:
        source, target = find("vocabulary", next(iter(named), "source_model"), (0, 1))
        return Vocabulary(source, target, same_subwords=source is not target)
    [source] = find("source vocabulary", "source_model", (0,))
    [target] = find("target vocabulary", "target_model", (1,))
    return Vocabulary(source, target)


def _learned_vocabulary(
    name: str, sides: tuple[int, ...], text: TrainingText, settings: schema.VocabularyConfig, store: Path
) -> list[Tokenizer]:
    """The vocabulary of these sides (0 source, 1 target), learned now or in an earlier run. Returns the tokenizer of
    each side. They differ at most in the normalization of text."""
    tags = text.data.tags(sides)
    learned_with = [writer.affecting(section, "vocabulary") for section in (text.data, settings)]
    folder = store / f"vocabulary-{content_key(text.key, learned_with, sides)}"
    if folder.exists():
        checksums.check(folder)
        try:
            files = folder / _SOURCE_FILE, folder / _FILE  # only the second if both sides have the same normalization
            tokenizers = [vocabulary.load(path) for path in files if path.name == _FILE or path.exists()]
        except NmtError as error:
            raise NmtError(f"{error}: delete the folder {folder} to learn it again") from None
        log.info("%s: %s subwords reused from %s", name, f"{len(tokenizers[0]):,}", folder)
        return tokenizers * (len(sides) // len(tokenizers))
    cleaned, start = text.cleaned, time.perf_counter()
    counts, used = cleaned.counts, [[corpus[side] for side in sides] for corpus in cleaned.used]
    kept = [count.kept for count in counts]
    try:
        if not any(kept):
            raise nothing_left(sum(counts, CorpusCounts()))
        stages.check_shares(text.data, counts)
        sizes = sample_sizes(text.data, kept, settings.sample_sentences)
        if not any(sizes):
            raise NmtError(f"vocabulary.sample_sentences: {settings.sample_sentences} is too small: raise it")
        tokenizers = vocabulary.learn_for(sides, _sample(text, kept, sizes), settings, tags, used)
    except NmtError:  # such as a vocabulary too large for the remaining text: the cause may be a problem with the data
        overlaps = text.find_overlaps()
        for problem in data_problems.in_corpora(text.data, counts, text.held_out, overlaps, cleaned.surveys):
            log.warning("%s", problem)
        raise
    with atomic.reporting(folder, "data.store_dir"), atomic.new_folder(folder) as unfinished:
        names = [_FILE] if len(tokenizers) == 1 else [_SOURCE_FILE, _FILE]
        for file, tokenizer in zip(names, tokenizers, strict=True):
            (unfinished / file).write_bytes(tokenizer.proto)
        checksums.write(unfinished, unfinished.iterdir())
    size, total = sum(sizes), sum(kept)
    shown_total = f" of {total * len(sides):,}" if size < total else ""
    log.info(
        "%s: %s subwords learned from %s%s sentences (%.1f s)",
        *(name, f"{len(tokenizers[0]):,}", f"{size * len(sides):,}", shown_total, time.perf_counter() - start),
    )
    return tokenizers * (len(sides) // len(tokenizers))


def _sample(text: TrainingText, kept: Sequence[int], sizes: Sequence[int]) -> Iterator[Pair]:
    """A sample of `sizes` of the `kept` pairs of each corpus, varied by data.augment. (A vocabulary learned from plain
    text would write capitalized text letter by letter.)"""
    data = replace(text.data, augment=replace(text.data.augment, joined=0.0))  # joined pairs have the same words
    firsts = [0] * len(kept)  # of each corpus: the number of pairs before a chunk
    for corpus, pairs in text.cleaned.chunks():
        indices = np.arange(firsts[corpus], firsts[corpus] + len(pairs))
        sampled = np.flatnonzero(sampled_evenly(indices, kept[corpus], sizes[corpus])).tolist()
        yield from varied([pairs[i] for i in sampled], indices[sampled].tolist(), corpus, 0, data)
        firsts[corpus] += len(pairs)


def sample_sizes(data: schema.DataConfig, kept: Sequence[int], most: int) -> list[int]:
    """How many of the `kept` pairs of each corpus the vocabulary is learned from: about `most` in total, by their
    shares of the mix. All pairs of a corpus are used, once, if it has fewer pairs than its share."""
    return [min(size, round(most * share)) for size, share in zip(kept, stages.shares(data, kept), strict=True)]


def _check_tags(vocabulary_: Vocabulary, data: schema.DataConfig, named: Mapping[str, Tokenizer]) -> None:
    """Raise NmtError for a tag that the vocabulary does not have. named: as `_named_vocabularies`."""
    for side, tokenizer in enumerate((vocabulary_.source, vocabulary_.target)):
        reason = (
            "the model in training.start_from has it as text, not as a token: choose another name, or set "
            "vocabulary.relearn=true to learn another vocabulary"
        )
        if setting := next((key for key, given in named.items() if given is tokenizer), None):
            reason = (
                f"vocabulary.{setting} has no such control symbol: add it when you train that model, or let nmt learn "
                "the vocabulary"
            )
        if not side and data.augment.marked_terms.share and None in map(tokenizer.tag, TERM_TAGS):
            raise NmtError(f"data.augment.terms: {', '.join(TERM_TAGS)}: {reason}")
        for i, (corpus, tags) in enumerate(zip(data.train, data.tags_of(data.train, side), strict=True)):
            for tag in tags:
                if tokenizer.tag(tag) is None:
                    key = ".tag" if tag == corpus.tag else ".languages" if corpus.languages else ""
                    raise NmtError(f"data.train[{i}]{key}: {tag}: {reason}")


def _find_tokens(
    text: TrainingText, subwords: Vocabulary, config: schema.Config, store: Path, *, verify: bool
) -> tuple[str, TokenStore, tuple[CorpusCounts, ...]]:
    """The encoded training data, stored now or by an earlier run. Returns its key, the tokens and the counts by
    corpus."""
    data, versions = text.data, config.versions
    encoded_with = [writer.affecting(section, "tokens") for section in (data, config.vocabulary)]
    glossary = (file := data.augment.marked_terms.file) and file_digest(Path(file))
    folder = store / f"tokens-{content_key(text.key, subwords.digests, encoded_with, glossary)}"
    start, exists, unfinished = time.perf_counter(), folder.exists(), store / f"{folder.name}.unfinished"
    if not exists:
        _encode(text, subwords, config, unfinished, folder)
    elif verify:
        checksums.check(folder)
    shutil.rmtree(unfinished, ignore_errors=True)
    for other in sorted(store.glob("*-*.unfinished")):
        log.info("data: %s is from an interrupted preparation with other settings: delete it if unused", other)
    tokens, counts = token_store.load(folder)
    kept, where = f"{len(tokens) // versions:,}", f"{folder}, in {versions} versions" if versions > 1 else f"{folder}"
    if exists:
        log.info("token store: %s pairs reused from %s", kept, where)
    else:
        read, seconds = f"{sum(count.read for count in counts):,}", time.perf_counter() - start
        log.info("token store: %s of %s pairs kept in %s (%.1f s)", kept, read, where, seconds)
        if marked := sum(count.marked for count in counts):
            log.info("terms: marked in %s pairs, in other pairs in each version", f"{marked:,}")
    return folder.name, tokens, counts


def _encode(text: TrainingText, subwords: Vocabulary, config: schema.Config, unfinished: Path, folder: Path) -> None:
    """Encode the training data into a new folder. unfinished: the folder of the encoded shards."""
    cleaned, counted = text.cleaned, [CorpusStatistics() for _ in text.data.train]
    with atomic.reporting(folder, "data.store_dir"):
        if unfinished.exists():
            log.info("token store: text encoded before is reused from %s", unfinished)
        atomic.make_folder(unfinished)
        with atomic.new_folder(folder) as content:
            encoded = encode_text(cleaned, subwords, config, unfinished, counted, _marker(text, unfinished.parent))
            token_store.write(content, encoded, cleaned.examples)
            statistics.write(content, counted, subwords, {"notes": cleaned.notes, "scores": cleaned.surveys})
            checksums.write(content, content.iterdir())


def _marker(text: TrainingText, store: Path) -> TermMarker | None:
    """Marks the terms of a glossary, or the words of a lexicon that is learned from the text and kept in the store."""
    settings, total = text.data.augment.marked_terms, sum(count.kept for count in text.cleaned.counts)
    if not settings.share:
        return None
    if (glossary := load_glossary(text.data)) is not None:
        return TermMarker(settings.share, glossary)
    path, start = store / f"terms-{content_key(text.key)}.json", time.perf_counter()
    if not path.exists():

        def sample() -> Iterator[Pair]:
            pairs = (pair for _, chunk in text.cleaned.chunks() for pair in chunk)
            return (pair for i, pair in enumerate(pairs) if i * MOST_PAIRS % total < MOST_PAIRS or total <= MOST_PAIRS)

        words = learn_lexicon(sample)
        atomic.write_text(path, json.dumps(words, ensure_ascii=False, indent=0) + "\n")
        seconds = time.perf_counter() - start
        log.info("terms: %s words and their translations found in the text: %s (%.1f s)", len(words), path, seconds)
    return TermMarker(settings.share, json.loads(path.read_text(encoding="utf-8")))
