"""Problems with the data of a run, each as the text of a warning. The checks of a single corpus are in
`corpus_checks`."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from nmt.config import schema
from nmt.config.language_pairs import LanguagePair
from nmt.data.cleaning import corpus_checks, validation_overlap
from nmt.data.cleaning.cleaner import without_empty
from nmt.data.cleaning.score_survey import Survey
from nmt.data.cleaning.summary import CorpusCounts
from nmt.data.cleaning.tokenized_text import TokenizerTraces
from nmt.data.cleaning.validation_overlap import Overlap
from nmt.data.sources.corpus import Pair, read_pairs


def in_corpora(
    data: schema.DataConfig,
    counts: Sequence[CorpusCounts],
    held_out: Sequence[Sequence[Pair]],
    overlaps: Sequence[Overlap],
    surveys: Sequence[Mapping[str, Survey]],
) -> Iterator[str]:
    """Yield problems with the corpora. held_out: the pairs of each corpus of data.validation. surveys: of scores."""
    yield from corpus_checks.language_problems(data)
    for corpus, count, found in zip(data.train, counts, surveys, strict=True):
        yield from corpus_checks.mostly_dropped(corpus.label, count)
        limit = data.clean.score if data.clean else None
        yield from corpus_checks.scores_on_one_side(corpus.label, found.get("score"), limit)
    yield from validation_overlap.problems(overlaps, data)
    samples: dict[LanguagePair, Sequence[Pair]] = {}
    for corpus, pairs in zip(data.held_out, held_out, strict=True):
        sample, languages = pairs[: corpus_checks.SAMPLE], data.pair_of(corpus)
        samples.setdefault(languages, sample)
        yield from corpus_checks.text_problems(f"data.validation, {corpus.label}", sample, languages)
    for corpus in data.train:
        if not corpus.hub:  # the columns of a Hugging Face data set have names, and it may have to be downloaded
            pairs = without_empty(list(islice(read_pairs(corpus, data, "train"), corpus_checks.SAMPLE)))
            languages = data.pair_of(corpus)
            yield from corpus_checks.text_problems(corpus.label, pairs, languages, samples.get(languages, ()))


def in_samples(
    data: schema.DataConfig,
    counts: Sequence[CorpusCounts],
    held_out: Sequence[Sequence[Pair]],
    corpora: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    """Yield problems with samples of the kept text and of data.validation. corpora: the statistics of each training
    corpus."""
    samples = list[tuple[str, LanguagePair, Sequence[Pair]]]()
    for corpus, count, counted in zip(data.train, counts, corpora, strict=True):
        yield from corpus_checks.repeated(corpus.label, counted["commonest"], count.kept)
        samples.append((corpus.label, data.pair_of(corpus), counted["sample"]))
    for corpus, pairs in zip(data.held_out, held_out, strict=True):
        samples.append((f"data.validation, {corpus.label}", data.pair_of(corpus), corpus_checks.sample(pairs)))
    first = dict[str, tuple[str, TokenizerTraces]]()
    for label, languages, sample in samples:
        yield from corpus_checks.other_language(label, sample, languages)
        yield from corpus_checks.tokenized(label, sample, languages, first)
