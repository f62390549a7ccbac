"""Robustness: how much lower scores are for text as users write it, such as in capitals, with typos or with emoji.

The same test set is translated in each variation. If a variation concerns both sides, the references are varied in the
same way. The variations depend on the text only: no seed is needed to repeat the table.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from nmt.data.draws import Draws, hashes
from nmt.data.subwords.copied_items import Kind, find_items, random_item
from nmt.data.subwords.letter_case import Case, change_case
from nmt.data.subwords.typos import add_typos
from nmt.data.subwords.variation import in_tags, remove_end_punctuation
from nmt.evaluation.metrics import bleu_metric, chrf_metric
from nmt.evaluation.text_form import RAW, TextForm

CLEAN = "clean"
# The variations that add an item to each line, and the kind of item; also the columns of the table of copied items.
INSERTED: dict[str, Kind] = {
    "numbers": "number", "URLs": "url", "e-mail addresses": "email", "emoji": "emoji", "placeholders": "placeholder",
}  # fmt: skip
VARIATIONS = (*get_args(Case), "no final punctuation", "typos", *INSERTED)
_SEED = 1

Translate = Callable[[Sequence[str], str], list[str]]  # lines, and the name of their variation → translations


@dataclass(frozen=True)
class VariedText:
    """A test set in one variation. changed: the indices of the lines whose source differs from the clean text."""

    variation: str
    source: Sequence[str]
    references: Sequence[Sequence[str]]  # references × lines
    changed: Sequence[int]


@dataclass(frozen=True)
class CopiedItemCount:
    """The number of items of a kind in the source, and how many of these are in the translation of the same line."""

    kind: Kind
    in_source: int
    kept: int


@dataclass(frozen=True)
class VariationScore:
    """A system's BLEU and chrF (0 to 100) on a test set in one variation, how much lower they are than on the clean
    text, and the counts of copied items. changed: the number of lines whose source differs from the clean text."""

    variation: str
    changed: int
    bleu: float
    bleu_loss: float
    chrf: float
    chrf_loss: float
    kept: list[CopiedItemCount]


@dataclass(frozen=True)
class Robustness:
    """A system's scores in all variations, the clean text first."""

    system: str
    tokenizer: str  # BLEU's
    lines: int
    variations: list[VariationScore]


def measure(
    system: str,
    clean: Sequence[str],
    texts: Iterable[VariedText],
    translate: Translate,
    target_language: str,
    tokenizer: str | None = None,
    form: TextForm = RAW,
) -> Robustness:
    """Translate and score every variation. clean: the translations of the clean text, which are used for the lines that
    a variation does not change. texts: from `varied_texts`. tokenizer: as in `bleu_metric`. form: the form in which
    translations and references are compared; a variation can change the form of the references."""
    bleu, chrf = bleu_metric(target_language, tokenizer=tokenizer, quiet=True), chrf_metric()
    scored = list[VariationScore]()
    for text in texts:
        outputs = list(clean)
        if text.changed:
            translations = translate([text.source[i] for i in text.changed], text.variation)
            for i, translation in zip(text.changed, translations, strict=True):
                outputs[i] = translation
        hypotheses, *expected = (list(map(form.apply, lines)) for lines in (outputs, *text.references))
        scores = tuple(metric.corpus_score(hypotheses, expected).score for metric in (bleu, chrf))
        first = (scored[0].bleu, scored[0].chrf) if scored else scores
        losses = [before - now for before, now in zip(first, scores, strict=True)]
        scored.append(
            VariationScore(
                variation=text.variation,
                changed=len(text.changed),
                bleu=scores[0],
                bleu_loss=losses[0],
                chrf=scores[1],
                chrf_loss=losses[1],
                kept=count_kept(text.source, outputs),
            )
        )
    return Robustness(system, str(bleu.tokenizer.signature()), len(clean), scored)


def count_kept(source: Sequence[str], translations: Sequence[str]) -> list[CopiedItemCount]:
    """The number of items of each kind in the source, and of those that are also in the translations. In each line an
    item counts as often as it occurs on both sides."""
    in_source, copied = Counter[str](), Counter[str]()
    for line, translation in zip(source, translations, strict=True):
        if items := find_items(line):
            _add(in_source, items)
            _add(copied, items & find_items(translation))
    return [CopiedItemCount(kind, in_source[kind], copied[kind]) for kind in INSERTED.values()]


def _add(total: Counter[str], items: Counter[tuple[Kind, str]]) -> None:
    for (kind, _), count in items.items():
        total[kind] += count


def varied_texts(
    source: Sequence[str], references: Sequence[Sequence[str]], languages: tuple[str, str]
) -> Iterator[VariedText]:
    """The clean test set, then each variation. references: references × lines; languages: codes of both sides.

    A line of the references is varied if its source line is; typos are in the source only.
    """
    yield VariedText(CLEAN, source, references, [])
    for variation in VARIATIONS:
        starts = hashes(_SEED, 0, range(len(source)), variation).tolist()
        lines = [_vary(line, variation, languages[0], start) for line, start in zip(source, starts, strict=True)]
        changed = [i for i, line in enumerate(lines) if line != source[i]]
        texts = list(map(list, references))
        for text in texts if variation != "typos" else []:
            for i in changed:
                text[i] = _vary(text[i], variation, languages[1], starts[i])
        yield VariedText(variation, lines, texts, changed)


def _vary(line: str, variation: str, language: str, start: int) -> str:
    """A line in a variation. start: the start of the random numbers, the same for both sides."""
    draws = Draws(start)
    match variation:
        case "uppercase" | "titlecase" | "lowercase":
            return change_case(line, variation, language)
        case "no final punctuation":
            return remove_end_punctuation(line)
        case "typos":
            return add_typos(line, draws)
        case "placeholders" if draws.below(2):
            return in_tags(line, draws)
    item = random_item(INSERTED[variation], draws)
    return f"{item} {line}" if draws.below(2) else f"{line} {item}"
