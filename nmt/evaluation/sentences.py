"""Sentences to look at: the worst of a system, and those that another system translates better or worse."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.chrf import CHRF

from nmt.evaluation.aligned_texts import Lines
from nmt.evaluation.metrics import bleu_metric


@dataclass(frozen=True)
class Translated:
    """A system's translation of a line with the scores of it alone: BLEU with the n-gram orders that fit, and chrF."""

    system: str
    text: str
    bleu: float
    chrf: float


@dataclass(frozen=True)
class Sentence:
    """A line, counted from 1, with one translation, or with the baseline's and another's. source: None if not given."""

    line: int
    source: str | None
    references: list[str]
    translations: list[Translated]


@dataclass(frozen=True)
class Worst:
    """A system's lowest lines by chrF, BLEU where that is the same, lowest first."""

    system: str
    sentences: list[Sentence]


@dataclass(frozen=True)
class Changed:
    """The lines whose chrF a system changes most from the baseline's: raised most, lowered most, each in that order.

    different: how many lines the two translate differently.
    """

    system: str
    baseline: str
    different: int
    better: list[Sentence]
    worse: list[Sentence]


class Sentences:
    """Every line of every system scored alone, once."""

    def __init__(
        self,
        source: Lines | None,
        systems: Sequence[Lines],
        references: Sequence[Lines],
        target_language: str,
        tokenizer: str | None = None,
    ) -> None:
        """The first system is the baseline. All texts must have as many lines as each other.

        tokenizer: sacreBLEU's name of one, rather than the language's.
        """
        bleu = bleu_metric(target_language, tokenizer=tokenizer, quiet=True, sentences=True)
        chrf = CHRF()
        self._source, self._systems = source, systems
        self._references = list(map(list, zip(*(reference.lines for reference in references), strict=True)))
        self._translated = [
            [
                Translated(
                    system.name, text, bleu.sentence_score(text, right).score, chrf.sentence_score(text, right).score
                )
                for text, right in zip(system.lines, self._references, strict=True)
            ]
            for system in systems
        ]

    def worst(self, count: int) -> list[Worst]:
        """The worst so many lines of each system."""
        found = []
        for system, lines in zip(self._systems, self._translated, strict=True):
            scores = [(one.chrf, one.bleu) for one in lines]
            order = sorted(range(len(lines)), key=scores.__getitem__)
            found.append(Worst(system.name, [self._sentence(i, lines[i]) for i in order[:count]]))
        return found

    def changed(self, count: int) -> list[Changed]:
        """The so many lines raised most, and lowered most, by each system but the first."""
        baseline, *others = self._translated
        found = []
        for system, lines in zip(self._systems[1:], others, strict=True):
            gains = [one.chrf - before.chrf for before, one in zip(baseline, lines, strict=True)]
            order = sorted(range(len(gains)), key=gains.__getitem__)
            pairs = {i: self._sentence(i, baseline[i], lines[i]) for i in {*order[:count], *order[-count:]}}
            found.append(
                Changed(
                    system.name,
                    self._systems[0].name,
                    sum(one.text != before.text for before, one in zip(baseline, lines, strict=True)),
                    [pairs[i] for i in order[::-1][:count] if gains[i] > 0],
                    [pairs[i] for i in order[:count] if gains[i] < 0],
                )
            )
        return found

    def _sentence(self, place: int, *translations: Translated) -> Sentence:
        source = None if self._source is None else self._source.lines[place]
        return Sentence(place + 1, source, self._references[place], list(translations))
