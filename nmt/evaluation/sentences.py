"""Example sentences: the worst translations of a system, and those that differ most from the baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.metrics import bleu_metric, chrf_metric


@dataclass(frozen=True)
class ScoredTranslation:
    """A system's translation of one line with its chrF, and its BLEU of the n-gram orders that the line has."""

    system: str
    text: str
    bleu: float
    chrf: float


@dataclass(frozen=True)
class ScoredSentence:
    """A line with one translation, or with the baseline's and another system's. line: its number, from 1; source: None
    if there is no source text."""

    line: int
    source: str | None
    references: list[str]
    translations: list[ScoredTranslation]


@dataclass(frozen=True)
class WorstSentences:
    """A system's lines with the lowest chrF (if equal: the lowest BLEU), lowest first."""

    system: str
    sentences: list[ScoredSentence]


@dataclass(frozen=True)
class ChangedSentences:
    """The lines with the largest gains and losses of chrF relative to the baseline, largest first. different: the
    number of lines that the two systems translate differently."""

    system: str
    baseline: str
    different: int
    better: list[ScoredSentence]
    worse: list[ScoredSentence]


def example_sentences(
    source: AlignedText | None,
    systems: Sequence[AlignedText],
    references: Sequence[AlignedText],
    target_language: str,
    tokenizer: str | None = None,
    *,
    count: int,
) -> tuple[list[WorstSentences], list[ChangedSentences]]:
    """The worst lines of each system, and the most changed lines of each system except the first, which is the
    baseline. count: the number of lines of each kind. All texts must have the same number of lines. tokenizer: as in
    `bleu_metric`."""
    metrics = bleu_metric(target_language, tokenizer=tokenizer, quiet=True, sentences=True), chrf_metric()
    expected = list(map(list, zip(*(reference.lines for reference in references), strict=True)))

    def scored(system: AlignedText) -> list[ScoredTranslation]:
        return [
            ScoredTranslation(system.name, text, *(metric.sentence_score(text, line).score for metric in metrics))
            for text, line in zip(system.lines, expected, strict=True)
        ]

    def sentence(i: int, *translations: ScoredTranslation) -> ScoredSentence:
        return ScoredSentence(i + 1, source.lines[i] if source else None, expected[i], list(translations))

    worst, changed, translated = [], [], list(map(scored, systems))
    for system, lines in zip(systems, translated, strict=True):
        scores = [(translation.chrf, translation.bleu) for translation in lines]
        order = sorted(range(len(lines)), key=scores.__getitem__)
        worst.append(WorstSentences(system.name, [sentence(i, lines[i]) for i in order[:count]]))
    baseline, *others = translated
    for system, lines in zip(systems[1:], others, strict=True):
        gains = [now.chrf - before.chrf for before, now in zip(baseline, lines, strict=True)]
        order = sorted(range(len(gains)), key=gains.__getitem__)
        different = sum(now.text != before.text for before, now in zip(baseline, lines, strict=True))
        better = [sentence(i, baseline[i], lines[i]) for i in order[::-1][:count] if gains[i] > 0]
        worse = [sentence(i, baseline[i], lines[i]) for i in order[:count] if gains[i] < 0]
        changed.append(ChangedSentences(system.name, systems[0].name, different, better, worse))
    return worst, changed
