"""Example sentences: the worst of a system, and those that it translates better or worse than the baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.chrf import CHRF

from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.metrics import bleu_metric


@dataclass(frozen=True)
class ScoredTranslation:
    """A system's translation of one line and its scores: chrF, and BLEU with the n-gram orders that the line has."""

    system: str
    text: str
    bleu: float
    chrf: float


@dataclass(frozen=True)
class ScoredSentence:
    """A line (from 1) with one translation, or with the baseline's and another system's. source: None if not given."""

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
    """The lines whose chrF is most above and most below the baseline's, largest change first.

    different: the number of lines that the two systems translate differently.
    """

    system: str
    baseline: str
    different: int
    better: list[ScoredSentence]
    worse: list[ScoredSentence]


class SentenceScores:
    """The scores of every line of every system."""

    def __init__(
        self,
        source: AlignedText | None,
        systems: Sequence[AlignedText],
        references: Sequence[AlignedText],
        target_language: str,
        tokenizer: str | None = None,
    ) -> None:
        """The first system is the baseline. All texts must have the same number of lines.

        tokenizer: sacreBLEU's name of one to use instead of the language's own.
        """
        bleu = bleu_metric(target_language, tokenizer=tokenizer, quiet=True, sentences=True)
        chrf = CHRF()
        self._source, self._systems = source, systems
        self._references = list(map(list, zip(*(reference.lines for reference in references), strict=True)))
        self._translated = [
            [
                ScoredTranslation(
                    system.name, text, bleu.sentence_score(text, right).score, chrf.sentence_score(text, right).score
                )
                for text, right in zip(system.lines, self._references, strict=True)
            ]
            for system in systems
        ]

    def worst(self, count: int) -> list[WorstSentences]:
        """The `count` worst lines of each system."""
        results = []
        for system, lines in zip(self._systems, self._translated, strict=True):
            scores = [(one.chrf, one.bleu) for one in lines]
            order = sorted(range(len(lines)), key=scores.__getitem__)
            results.append(WorstSentences(system.name, [self._sentence(i, lines[i]) for i in order[:count]]))
        return results

    def changed(self, count: int) -> list[ChangedSentences]:
        """For each system but the first, the `count` lines that gain most and that lose most."""
        baseline, *others = self._translated
        results = []
        for system, lines in zip(self._systems[1:], others, strict=True):
            gains = [one.chrf - before.chrf for before, one in zip(baseline, lines, strict=True)]
            order = sorted(range(len(gains)), key=gains.__getitem__)
            pairs = {i: self._sentence(i, baseline[i], lines[i]) for i in {*order[:count], *order[-count:]}}
            results.append(
                ChangedSentences(
                    system.name,
                    self._systems[0].name,
                    sum(one.text != before.text for before, one in zip(baseline, lines, strict=True)),
                    [pairs[i] for i in order[::-1][:count] if gains[i] > 0],
                    [pairs[i] for i in order[:count] if gains[i] < 0],
                )
            )
        return results

    def _sentence(self, place: int, *translations: ScoredTranslation) -> ScoredSentence:
        source = None if self._source is None else self._source.lines[place]
        return ScoredSentence(place + 1, source, self._references[place], list(translations))
