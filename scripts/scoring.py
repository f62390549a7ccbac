"""Score a model on a text: BLEU, chrF and perplexity."""

import logging
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.config.schema import Config
from nmt.errors import NmtError

log = logging.getLogger("nmt")

Pairs = list[tuple[str, str]]  # source and reference


def validation_pairs(of: Config) -> Pairs:
    """The validation set without pairs that have an empty side. Raises NmtError if the config has none, or several."""
    from nmt.data import corpus
    from nmt.data.cleaning import without_empty

    if not of.data.held_out:
        given = "null" if of.data.validation is None else "[]"
        raise NmtError(f"data.validation: {given}: rows are compared on a validation set: set data.validation")
    if len(of.data.held_out) > 1 or of.data.language_pairs.several:
        raise NmtError("data.validation: rows are compared on one validation set, of one pair of languages: give one")
    return without_empty(list(corpus.read_pairs(of.data.held_out[0], of.data, "validation")))


def test_pairs(files: tuple[Path, Path] | None) -> Pairs | None:
    """The lines of a source and a reference file. Raises NmtError if one has more lines than the other."""
    from nmt.evaluation.aligned_texts import AlignedText, check_aligned
    from nmt.files.text import read_lines

    if files is None:
        return None
    source, reference = (AlignedText(str(path), list(read_lines(path))) for path in files)
    check_aligned(source, [reference])
    return list(zip(source.lines, reference.lines, strict=True))


def scores(model: Path, pairs: Pairs, device: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """BLEU and chrF of a model's translations, with signatures; and the target subwords that the search found in a
    second, loading not counted. overrides: decoding settings."""
    from sacrebleu.metrics.chrf import CHRF

    from nmt.decoding.model_loader import load_settings
    from nmt.decoding.translator import Translator
    from nmt.evaluation.metrics import bleu_metric

    translator, sources = Translator.load(model, device, overrides=overrides), [source for source, _ in pairs]
    translator.translate(sources[:20])  # what is done once is not counted
    start = time.perf_counter()
    translations = translator.translate(sources)
    seconds = time.perf_counter() - start
    subwords = sum(map(len, translator.vocabulary.target.encode(translations)))
    references = [[reference for _, reference in pairs]]
    bleu, chrf = bleu_metric(load_settings(model).data.language_pairs.targets[0], quiet=True), CHRF()
    found = [metric.corpus_score(translations, references).score for metric in (bleu, chrf)]
    signatures = [str(metric.get_signature()) for metric in (bleu, chrf)]
    return {
        "bleu": found[0],
        "chrf": found[1],
        "bleu_signature": signatures[0],
        "chrf_signature": signatures[1],
        "subwords_per_second": round(subwords / seconds, 1),
    }


def perplexity(model: Path, pairs: Pairs, device: str) -> float:
    """Perplexity per target subword of the model's vocabulary: exp of the mean of -log p, end of sentence counted.

    Pairs that are too long for the model are left out with a warning. Raises NmtError if all are.
    """
    from nmt.decoding.translator import Translator

    translator = Translator.load(model, device)
    found = translator.score(*map(list, zip(*pairs, strict=True)))
    scored = [one for one in found if one is not None]
    too_long = f"longer than the model accepts: {translator.longest_source} subwords (decoding.max_source_tokens)"
    if not scored:
        raise NmtError(f"{model}: perplexity: each of {len(pairs):,} pairs is {too_long}: raise it")
    if len(scored) < len(pairs):
        left_out = f"{len(pairs) - len(scored):,} of {len(pairs):,}"
        log.warning("%s: perplexity leaves out %s pairs, %s", model, left_out, too_long)
    subwords = sum(len(one.token_scores) for one in scored)
    return math.exp(-math.fsum(one.log_probability for one in scored) / subwords)
