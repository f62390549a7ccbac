"""How much worse a model translates text as users write it: in capitals, with typos, with emoji.

The same test set is translated in each variation. Where a variation concerns both sides, the references are varied in
the same way. Everything follows from the text alone: no seed is needed to repeat the table.
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
# The variations that add an item to each line, and its kind; also the columns of the table of what is kept.
INSERTED: dict[str, Kind] = {
    "numbers": "number", "URLs": "url", "e-mail addresses": "email", "emoji": "emoji", "placeholders": "placeholder",
}  # fmt: skip
VARIATIONS = (*get_args(Case), "no final punctuation", "typos", *INSERTED)
_SEED = 1

Translate = Callable[[Sequence[str], str], list[str]]  # lines, and the name of their variation → translations


@dataclass(frozen=True)
class VariedText:
    """A test set in one variation. changed: the places of the lines whose source differs from the clean one."""

    variation: str
    source: Sequence[str]
    references: Sequence[Sequence[str]]  # references × lines
    changed: Sequence[int]


@dataclass(frozen=True)
class CopiedItemCount:
    """How many items of a kind the source has, and how many of these the translation of the same line has too."""

    kind: Kind
    in_source: int
    kept: int


@dataclass(frozen=True)
class VariationScore:
    """A system's BLEU and chrF (0 to 100) on a test set in one variation, how much lower they are than on the clean
    text, and the items that it keeps. changed: the number of lines whose source differs from the clean text."""

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
    """Translate and score every variation. clean: the translations of the clean text, which are also those of the lines
    that a variation does not change. texts: from `varied_texts`. tokenizer: as in `bleu_metric`. form: in which
    translations and references are compared; a variation can change that of the references."""
    bleu, chrf = bleu_metric(target_language, tokenizer=tokenizer, quiet=True), chrf_metric()
    scored = list[VariationScore]()
    for text in texts:
        outputs = list(clean)
        if text.changed:
            translations = translate([text.source[place] for place in text.changed], text.variation)
            for place, translation in zip(text.changed, translations, strict=True):
                outputs[place] = translation
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
    """The items of each kind that the source has, and those of them that the translations keep: in each line an item
    counts as often as it occurs on both sides."""
    there, kept = Counter[str](), Counter[str]()
    for line, translation in zip(source, translations, strict=True):
        if items := find_items(line):
            _add(there, items)
            _add(kept, items & find_items(translation))
    return [CopiedItemCount(kind, there[kind], kept[kind]) for kind in INSERTED.values()]


def _add(total: Counter[str], items: Counter[tuple[Kind, str]]) -> None:
    for (kind, _), count in items.items():
        total[kind] += count


def varied_texts(
    source: Sequence[str], references: Sequence[Sequence[str]], languages: tuple[str, str]
) -> Iterator[VariedText]:
    """The test set as it is, then in each variation. references: references × lines; languages: codes of both sides.

    A line of the references is varied where the source of the line is; typos are in the source only.
    """
    yield VariedText(CLEAN, source, references, [])
    for variation in VARIATIONS:
        starts = hashes(_SEED, 0, range(len(source)), variation).tolist()
        lines = [_vary(line, variation, languages[0], start) for line, start in zip(source, starts, strict=True)]
        changed = [place for place, line in enumerate(lines) if line != source[place]]
        texts = list(map(list, references))
        for text in texts if variation != "typos" else []:
            for place in changed:
                text[place] = _vary(text[place], variation, languages[1], starts[place])
        yield VariedText(variation, lines, texts, changed)


def _vary(line: str, variation: str, language: str, start: int) -> str:
    """start: of the random numbers, the same for both sides."""
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
