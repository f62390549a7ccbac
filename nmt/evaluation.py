"""Scores of translations against references by sacreBLEU, each with the signature that says how it was computed."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from nmt.errors import NmtError


@dataclass(frozen=True)
class Score:
    """One number for a whole text: BLEU and chrF from 0 to 100, TER an error rate; `signature` is sacreBLEU's."""

    name: str
    value: float
    signature: str


@dataclass(frozen=True)
class Lines:
    """A text, one sentence a line, and what to call it in messages: its file."""

    name: str
    lines: Sequence[str]


def bleu_metric(target_language: str, *, quiet: bool = False) -> BLEU:
    """Case-sensitive BLEU with the tokenizer that sacreBLEU has for the language, 13a for most.

    Japanese and Korean are scored by characters where MeCab is not installed; the signature says which
    it was (`tok:`). `quiet` leaves out the warning about text that looks tokenized.
    """
    language = _base(target_language)
    try:
        return BLEU(trg_lang=language, force=quiet)
    except RuntimeError:  # the language's tokenizer needs a package that is not there
        return BLEU(tokenize="char", force=quiet)


def ter_metric(target_language: str) -> TER:
    """TER by words; by characters in Chinese and Japanese, which do not part words."""
    unparted = _base(target_language) in ("zh", "ja")
    return TER(normalized=unparted, asian_support=unparted)


def evaluate(hypothesis: Lines, references: Sequence[Lines], target_language: str) -> list[Score]:
    """BLEU, chrF and TER of translations, given one or more reference translations of the same lines.

    Raises NmtError where the texts are empty or do not have as many lines as each other.
    """
    check_alike(hypothesis, references)
    texts = [list(reference.lines) for reference in references]
    scores = []
    for metric in (bleu_metric(target_language), CHRF(), ter_metric(target_language)):
        score = metric.corpus_score(list(hypothesis.lines), texts)
        scores.append(Score(score.name, score.score, str(metric.get_signature())))
    return scores


def check_alike(text: Lines, references: Sequence[Lines]) -> None:
    """Raises NmtError where the texts are empty or do not have as many lines as each other."""
    count = len(text.lines)
    for reference in references:
        if len(reference.lines) != count:
            raise NmtError(
                f"{text.name} has {count:,} lines and {reference.name} {len(reference.lines):,}: they must be "
                "the same text, line by line"
            )
    if not count:
        raise NmtError(f"{text.name} has no lines: there is nothing to score")


def to_text(scores: Sequence[Score]) -> str:
    """A line for each score: name, value, signature."""
    return "\n".join(f"{score.name:<5} {score.value:6.2f}  {score.signature}" for score in scores)


def to_json(scores: Sequence[Score]) -> str:
    """A JSON list of objects with name, value and signature."""
    return json.dumps([dataclasses.asdict(score) for score in scores], indent=2)


def _base(language: str) -> str:
    """`zh` of `zh-CN` or `zh_TW`."""
    return language.replace("_", "-").partition("-")[0].lower()
