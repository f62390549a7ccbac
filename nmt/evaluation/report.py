"""What an evaluation found, for people (tables within 80 columns) and for machines (JSON)."""

import dataclasses
import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.evaluation.breakdowns import ByFrequency, ByLength
from nmt.evaluation.scores import Score
from nmt.evaluation.sentences import Changed, Sentence, Worst

_WIDTH = 80
_SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Details:
    """What lies behind the scores."""

    lengths: list[ByLength]
    frequencies: ByFrequency
    worst: list[Worst]
    changed: list[Changed]


def to_json(scores: Sequence[Score], details: Details | None = None) -> str:
    """A list with an object for each score; with details an object: that list as `scores`, and the rest beside it."""
    rows = [dataclasses.asdict(score) for score in scores]
    whole = rows if details is None else {"scores": rows, **dataclasses.asdict(details)}
    return json.dumps(whole, indent=2, ensure_ascii=False)


def to_text(scores: Sequence[Score], details: Details | None = None) -> str:
    """The scores, what their intervals and p-values mean, their signatures; then the details."""
    systems = list(dict.fromkeys(score.system for score in scores))
    sections = [_names(systems), _scores(scores), _meaning(scores), _signatures(scores)]
    if details is not None:
        sections += [
            *map(_lengths, details.lengths),
            _frequencies(details.frequencies),
            *(
                _worst(one, number if len(systems) > 1 else None)
                for number, one in enumerate(details.worst, start=1)
                if one.sentences
            ),
            *(_changed(one, number) for number, one in enumerate(details.changed, start=2)),
        ]
    return "\n\n".join(section for section in sections if section)


# --------------------------------------------------------------------------- scores


def _names(systems: Sequence[str]) -> str:
    """Which number stands for which system; nothing for one alone."""
    rows = [f"system {number}  {name}" for number, name in enumerate(systems, start=1)]
    return "\n".join([f"{rows[0]}  (the baseline)", *rows[1:]]) if len(rows) > 1 else ""


def _scores(scores: Sequence[Score]) -> str:
    """A row for each metric, and below it what its differences are; a column for each system."""
    systems = list(dict.fromkeys(score.system for score in scores))
    labels, columns = [""], [[["", ""]] for _ in systems]
    for name in dict.fromkeys(score.name for score in scores):
        row = [score for score in scores if score.name == name]
        labels.append(name)
        for column, score in zip(columns, row, strict=True):
            digits = 4 if name == "COMET" else 2
            half = "" if score.interval is None else f"± {score.interval.half_width:.2f}"
            column.append([f"{score.value:.{digits}f}", half])
        if any(score.difference for score in row):
            labels += ["  difference", "  p, randomisation", "  p, bootstrap"]
            for column, score in zip(columns, row, strict=True):
                column += _difference(score)
    return _table([[label] for label in labels], columns)


def _difference(score: Score) -> list[list[str]]:
    found = score.difference
    if found is None:
        return [["", ""]] * 3
    p = found.p_randomisation
    star = "*" if p is not None and p < _SIGNIFICANT else ""  # the bootstrap's p is too small: see Difference
    return [[f"{found.value:+.2f}", ""], [_p(p), star], [_p(found.p_bootstrap), ""]]


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _meaning(scores: Sequence[Score]) -> str:
    """What ± and p stand for, where there are any."""
    said = []
    interval = next((score.interval for score in scores if score.interval), None)
    if interval:
        said.append(
            f"±  half of the 95% interval: {interval.samples:,} bootstrap samples of the lines, seed {interval.seed}"
        )
    differences = [score.difference for score in scores if score.difference]
    if differences:
        samples, trials = differences[0].bootstrap_samples, differences[0].randomisation_trials
        said.append(
            "p  how probable a difference so large is by chance, were both texts the work of one system: by "
            f"approximate randomisation ({trials:,} trials), and by paired bootstrap ({samples:,} samples), which is "
            f"too lenient. *: below {_SIGNIFICANT} by randomisation. -: the scores are equal"
        )
        said.append("   TER counts errors: less is better")
    compared = len({score.system for score in scores if score.difference})
    if compared > 1:
        said.append(
            f"   {compared} systems are compared with the baseline: of 20 that are no better or worse, one gets a * "
            "by chance"
        )
    return "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent="   ") for line in said)


def _signatures(scores: Sequence[Score]) -> str:
    return "\n".join(f"{name:<5}  {text}" for name, text in {score.name: score.signature for score in scores}.items())


# --------------------------------------------------------------------------- breakdowns


def _lengths(found: ByLength) -> str:
    if not found.buckets:
        return textwrap.fill(f"No words in {found.text} (tokenizer {found.tokenizer})", _WIDTH)
    left = [["words", "lines"], *([str(one.words), f"{one.lines:,}"] for one in found.buckets)]
    columns = [
        [["BLEU", "chrF2"], *([f"{one.bleu[i]:.2f}", f"{one.chrf[i]:.2f}"] for one in found.buckets)]
        for i in range(len(found.buckets[0].bleu))
    ]
    title = f"Lines by their number of words in {found.text} (tokenizer {found.tokenizer})"
    return f"{textwrap.fill(title, _WIDTH)}\n\n{_table(left, columns)}"


def _frequencies(found: ByFrequency) -> str:
    if not found.buckets:
        return textwrap.fill(f"No words in the reference or in {found.text} (tokenizer {found.tokenizer})", _WIDTH)
    left = [["times", "words"], *([str(one.frequency), f"{one.reference_words:,}"] for one in found.buckets)]
    columns = []
    for place in range(len(found.buckets[0].systems)):
        shares = [one.systems[place] for one in found.buckets]
        rows = [[_share(one.precision), _share(one.recall), _share(one.f1)] for one in shares]
        columns.append([["precision", "recall", "F1"], *rows])
    title = (
        f"Words by the number of times they are in {found.text} (tokenizer {found.tokenizer}). "
        "words: of the reference; precision, recall: the share of the system's, the reference's words that the other "
        "has in the same line"
    )
    return f"{textwrap.fill(title, _WIDTH)}\n\n{_table(left, columns)}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


# --------------------------------------------------------------------------- sentences


def _worst(found: Worst, number: int | None) -> str:
    of = "" if number is None else f" of system {number}"
    blocks = [_sentence(sentence, ["translation"]) for sentence in found.sentences]
    return "\n\n".join([f"The worst lines{of}, by chrF", *blocks])


def _changed(found: Changed, number: int) -> str:
    names = ["system 1", f"system {number}"]
    blocks = [f"System {number} translates {found.different:,} lines differently from system 1"]
    for what, sentences in (("Raised", found.better), ("Lowered", found.worse)):
        if sentences:
            blocks += [f"{what} most, by chrF:", *(_sentence(sentence, names) for sentence in sentences)]
    return "\n\n".join(blocks)


def _sentence(sentence: Sentence, names: Sequence[str]) -> str:
    """The line's number and scores, its source and references, and each translation under its name."""
    chrf = " to ".join(f"{one.chrf:.1f}" for one in sentence.translations)
    bleu = " to ".join(f"{one.bleu:.1f}" for one in sentence.translations)
    rows = [("source", sentence.source)] if sentence.source is not None else []
    rows += [("reference", text) for text in sentence.references]
    rows += [(name, one.text) for name, one in zip(names, sentence.translations, strict=True)]
    lines = [f"  {name:<11}  {text}".rstrip() for name, text in rows]
    return "\n".join([f"line {sentence.line:,}  chrF {chrf}, BLEU {bleu}", *lines])


# --------------------------------------------------------------------------- tables


def _table(left: Sequence[Sequence[str]], columns: Sequence[Sequence[Sequence[str]]]) -> str:
    """Rows of cells: those on the left, then those of each system, under its number where there are several.

    left: rows × cells; columns: systems × rows × cells; a first row of empty cells is left out. Systems for which there
    is no room beside the others come below them, with the cells on the left again.
    """
    first = _aligned(left, lead=True)
    groups = [_aligned(column, lead=False) for column in columns]
    blocks: list[list[int]] = []
    for number, group in enumerate(groups):
        width = len(first[0]) + sum(3 + len(groups[i][0]) for i in (blocks[-1] if blocks else [])) + 3 + len(group[0])
        if not blocks or width > _WIDTH:
            blocks.append([])
        blocks[-1].append(number)
    texts = []
    for block in blocks:
        rows = ["   ".join(cells).rstrip() for cells in zip(first, *(groups[i] for i in block), strict=True)]
        if len(groups) > 1:
            names = "   ".join(f"{f'system {i + 1}':>{len(groups[i][0])}}" for i in block)
            rows = [f"{'':{len(first[0])}}   {names}", *rows]
        texts.append("\n".join(row for row in rows if row))
    return "\n\n".join(texts)


def _aligned(rows: Sequence[Sequence[str]], *, lead: bool) -> list[str]:
    """The rows as texts of one width: numbers to the right; to the left what stands beside a number (± and *), and with
    `lead` the first cell."""
    columns = list(zip(*rows, strict=True))
    texts = [""] * len(rows)
    for place, column in enumerate(columns):
        beside = all(not cell or cell[0] in "±*" for cell in column)
        width, gap = max(map(len, column)), "" if not place else " " if beside else "  "
        left = beside or (lead and not place)
        texts = [
            f"{text}{gap}{cell.ljust(width) if left else cell.rjust(width)}"
            for text, cell in zip(texts, column, strict=True)
        ]
    return texts
