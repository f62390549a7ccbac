"""sacreBLEU's metrics, set up for a language."""

import logging
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from sacrebleu import utils
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from nmt.config.language_codes import two_letters
from nmt.config.suggestions import did_you_mean
from nmt.errors import NmtError, in_one_line
from nmt.evaluation.text_form import NORMALIZED

log = logging.getLogger("nmt")


def bleu_metric(language: str, *, tokenizer: str | None = None, quiet: bool = False, sentences: bool = False) -> BLEU:
    """Case-sensitive BLEU, with the named tokenizer of sacreBLEU or else its own for the target language (mostly 13a).

    If MeCab is not installed, Japanese and Korean are scored by characters, with a warning unless quiet; `tok:` in the
    signature names the tokenizer. sentences: for scores of single sentences, which may be too short for n-grams of
    every order. sacreBLEU's own warning about tokenized text is disabled: see `nmt.data.cleaning.tokenized_text`.
    """
    if tokenizer is not None:
        return BLEU(tokenize=tokenizer, force=True, effective_order=sentences)
    try:
        return BLEU(trg_lang=two_letters(language), force=True, effective_order=sentences)
    except RuntimeError:  # the package of the language's tokenizer is not installed
        if not quiet:
            _warn_of_characters(two_letters(language))
        return BLEU(tokenize="char", force=True, effective_order=sentences)


def chrf_metric() -> CHRF:
    """chrF2, which compares characters only."""
    return CHRF()


@cache
def _warn_of_characters(language: str) -> None:
    """Warn once per process: the function is cached."""
    log.warning(
        "BLEU counts characters, not words, because sacreBLEU's tokenizer for this language is not installed: for "
        "comparable scores, pip install 'sacrebleu[%s]'",
        language,
    )


def sentence_chrf(translations: Iterable[str], *references: Iterable[str]) -> list[float]:
    """The chrF of each sentence, from 0 to 100. Texts are compared as in `ValidationMetrics`."""
    metric, apply = chrf_metric(), NORMALIZED.apply
    sentences = zip(translations, *references, strict=True)
    return [metric.sentence_score(apply(text), list(map(apply, expected))).score for text, *expected in sentences]


class ValidationMetrics:
    """The metrics of validation for a target language. Texts are compared in the form in which vocabularies write
    them."""

    def __init__(self, language: str, *, quiet: bool = True):
        """quiet: as in `bleu_metric`."""
        self._metrics: dict[str, SacreMetric] = {"bleu": bleu_metric(language, quiet=quiet), "chrf": chrf_metric()}

    def scores(self, translations: Iterable[str], references: Iterable[str]) -> dict[str, float]:
        """The score of each metric, by name."""
        compared, expected = (list(map(NORMALIZED.apply, text)) for text in (translations, references))
        return {name: metric.corpus_score(compared, [expected]).score for name, metric in self._metrics.items()}

    def signatures(self) -> dict[str, str]:
        """sacreBLEU's signature of each metric, by name. Call it after `scores`."""
        return {name: str(metric.get_signature()) for name, metric in self._metrics.items()}


def has_words_by_spaces(language: str) -> bool:
    """Whether BLEU's tokenizer for a language splits words at spaces and punctuation only."""
    return str(bleu_metric(language, quiet=True).tokenizer.signature()) == "13a"


def check_tokenizer(name: str) -> None:
    """Raises NmtError if sacreBLEU does not know the tokenizer, or its package or model is missing."""
    if name not in BLEU.TOKENIZERS:
        hint = did_you_mean(name, BLEU.TOKENIZERS) or f"choose from {', '.join(BLEU.TOKENIZERS)}"
        raise NmtError(f"--tokenize {name}: sacreBLEU knows no such tokenizer: {hint}")
    try:
        BLEU(tokenize=name)
    except OSError as error:
        raise NmtError(
            f"--tokenize {name}: its model cannot be downloaded into {Path(utils.SACREBLEU_DIR) / 'models'} "
            f"({error}): check the network and try again"
        ) from None
    except (RuntimeError, ImportError) as error:
        raise NmtError(f"--tokenize {name}: {in_one_line(error)}") from None


def ter_metric(target_language: str) -> TER:
    """TER of words, or of characters for Chinese and Japanese, which have no spaces between words."""
    by_characters = two_letters(target_language) in ("zh", "ja")
    return TER(normalized=by_characters, asian_support=by_characters)
