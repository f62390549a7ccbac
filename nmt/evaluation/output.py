"""The results of an evaluation as text (tables of at most 80 columns) and as JSON."""

import dataclasses
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from nmt.evaluation.breakdowns import Breakdown, FrequencyBucket, LengthBucket
from nmt.evaluation.reliability import Reliability
from nmt.evaluation.robustness import INSERTED, Robustness
from nmt.evaluation.scores import MetricScore
from nmt.evaluation.sentences import ChangedSentences, ScoredSentence, WorstSentences
from nmt.evaluation.systems import System
from nmt.files.table import aligned, table
from nmt.terms.used_term import How

_WIDTH = 80
_SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Details:
    """Scores by sentence length and by word frequency, example sentences, and the reliability of the confidence."""

    lengths: list[Breakdown[LengthBucket]]
    frequencies: Breakdown[FrequencyBucket]
    worst: list[WorstSentences]
    changed: list[ChangedSentences]
    confidence: Mapping[str, Reliability]  # of each calibrated model, by its name


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation. systems: in the order of the scores; empty if nothing is known about them."""

    scores: Sequence[MetricScore]
    details: Details | None = None
    robustness: Sequence[Robustness] = ()
    systems: Sequence[System] = ()


def to_json(result: Evaluation) -> str:
    """A list with an object for each score and what is known about its system. With details or robustness: an object
    with that list as `scores`, the fields of the details, and `robustness`."""
    facts = {system.name: dataclasses.asdict(system) for system in result.systems}
    rows = [dataclasses.asdict(score) | facts.get(score.system, {}) | {"name": score.name} for score in result.scores]
    more = {} if result.details is None else dataclasses.asdict(result.details)
    if result.robustness:
        more["robustness"] = [dataclasses.asdict(measured) for measured in result.robustness]
    return json.dumps({"scores": rows, **more} if more else rows, indent=2, ensure_ascii=False)


def to_text(result: Evaluation, *, compare: bool = False) -> str:
    """The scores, what their intervals and p-values mean, and their signatures; then the details and the robustness.
    compare: a table with a row for each system, with its size, speed and main scores."""
    scores, details = result.scores, result.details
    if compare:
        scores = [score for score in scores if score.name != "TER"]
    names = list(dict.fromkeys(score.system for score in scores))
    known = {system.name: system for system in result.systems}
    systems = [known.get(name, System(name)) for name in names]
    shown = _comparison(systems, scores) if compare else _scores(systems, scores)
    sections = [_names(names), shown, _explanation(systems, scores, compare), _terms(systems), _signatures(scores)]
    if details is not None:
        numbers = [*range(1, len(systems) + 1)] if len(systems) > 1 else [None]
        sections += [
            *map(_lengths, details.lengths),
            _frequencies(details.frequencies),
            *(_confidence(result, numbers[names.index(name)]) for name, result in details.confidence.items()),
            *(_worst(worst, number) for number, worst in zip(numbers, details.worst, strict=True) if worst.sentences),
            *(_changed(changed, number) for number, changed in enumerate(details.changed, start=2)),
        ]
    for number, measured in enumerate(result.robustness, start=1):
        sections += [_robustness(measured, number if len(systems) > 1 else None), _kept(measured)]
    return "\n\n".join(section for section in sections if section)


def _names(systems: Sequence[str]) -> str:
    """The name of each numbered system; empty for a single system."""
    rows = [f"system {number}  {name}" for number, name in enumerate(systems, start=1)]
    return "\n".join([f"{rows[0]}  (the baseline)", *rows[1:]]) if len(rows) > 1 else ""


def _scores(systems: Sequence[System], scores: Sequence[MetricScore]) -> str:
    """A row for each metric and, below it, rows for the length (of BLEU) and for the differences from the baseline;
    then the speed; a column for each system."""
    labels: list[list[str]] = []
    columns: list[list[tuple[str, str]]] = [[] for _ in systems]  # a number, and the text after it
    for name in dict.fromkeys(score.name for score in scores):
        metric_scores = [score for score in scores if score.name == name]
        compared = any(score.difference for score in metric_scores)
        has_length = any(score.parts for score in metric_scores)
        labels.append([name])
        if has_length:
            labels.append(["  length ratio"])
        if compared:
            labels += [["  difference"], ["  p, randomisation"], ["  p, bootstrap"]]
        for column, score in zip(columns, metric_scores, strict=True):
            interval = "" if score.interval is None else f"± {score.interval.half_width:.2f}"
            column.append((f"{score.value:.{4 if name == 'COMET' else 2}f}", interval))
            if has_length:
                column.append((f"{score.parts.length_ratio:.3f}" if score.parts else "", ""))
            if compared:
                column += _difference(score)
    if any(system.words_per_second for system in systems):
        labels.append(["words per second"])
        for column, system in zip(columns, systems, strict=True):
            column.append((_rate(system), ""))
    return _table(labels, [_joined(column) for column in columns])


def _rate(system: System) -> str:
    """Words per second, with a decimal if there are few."""
    rate = system.words_per_second
    return "-" if rate is None else f"{rate:,.{0 if rate >= 100 else 1}f}"


def _comparison(systems: Sequence[System], scores: Sequence[MetricScore]) -> str:
    """A row for each system: the size of its model, its speed, BLEU and its difference from the baseline, chrF, and
    COMET if there is one."""
    rows = [["system", "MB", "words/s", "BLEU", "±", "difference", "chrF2", "COMET"]]
    for number, system in enumerate(systems, start=1):
        named = {score.name: score for score in scores if score.system == system.name}
        bleu, chrf, comet = named["BLEU"], named["chrF2"], named.get("COMET")
        size = "-" if system.bytes is None else f"{system.bytes / 1e6:,.1f}"
        (difference, _), (_, star), _ = _difference(bleu)
        interval = f"{bleu.interval.half_width:.2f}" if bleu.interval else ""
        cells = [f"{bleu.value:.2f}", interval, f"{difference} {star or ' '}", f"{chrf.value:.2f}"]
        rows.append([str(number), size, _rate(system), *cells, f"{comet.value:.4f}" if comet else ""])
    columns = [column for column in zip(*rows, strict=True) if any(cell.strip(" -") for cell in column[1:])]
    return table(list(zip(*columns, strict=True)), left=())


def _joined(column: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Join each number and the text after it to one cell, so that the numbers are aligned."""
    width = max(len(text) for _, text in column)
    return [[f"{number} {text:<{width}}" if width else number] for number, text in column]


def _difference(score: MetricScore) -> list[tuple[str, str]]:
    difference = score.difference
    if difference is None:
        return [("", "")] * 3
    p = difference.p_randomisation
    star = "*" if p is not None and p < _SIGNIFICANT else ""  # the bootstrap's p-values are too small
    return [(f"{difference.value:+.2f}", ""), (_p(p), star), (_p(difference.p_bootstrap), "")]


def _p(value: float | None) -> str:
    """A p-value with four digits, or more if rounding would hide whether it is below 0.05."""
    if value is None:
        return "-"
    digits = 4
    while round(value, digits) == _SIGNIFICANT != value:
        digits += 1
    return f"{value:.{digits}f}"


def _explanation(systems: Sequence[System], scores: Sequence[MetricScore], compare: bool) -> str:
    """The meaning of ±, the length ratio, p, the size and the speed, if the table has them."""
    lines = []
    interval = next((score.interval for score in scores if score.interval), None)
    if interval:
        lines.append(
            f"±  half-width of the 95% interval (bootstrap, {interval.samples:,} samples, seed {interval.seed})"
        )
    if any(score.parts for score in scores) and not compare:
        lines.append("length ratio  tokens of the system for each token of the reference; below 1 it lowers BLEU")
    differences = [score.difference for score in scores if score.difference]
    if differences and compare:
        trials = differences[0].randomisation_trials
        lines.append(f"*  p below {_SIGNIFICANT} by approximate randomisation ({trials:,} trials)")
    elif differences:
        samples, trials = differences[0].bootstrap_samples, differences[0].randomisation_trials
        lines.append(
            "p  probability that chance alone gives a difference this large, by approximate randomisation "
            f"({trials:,} trials) and by paired bootstrap ({samples:,} samples), whose p-values are too low. "
            f"*: below {_SIGNIFICANT} by randomisation. -: equal scores"
        )
        lines.append("   TER counts errors: lower is better")
    compared = len({score.system for score in scores if score.difference})
    if compared > 1:
        lines.append(
            f"   {compared} systems are compared with the baseline: of 20 comparisons of equally good systems, about "
            "one gets a * by chance"
        )
    if any(system.words_per_second for system in systems):
        name = "words/s" if compare else "words per second"
        lines.append(f"{name}  words of the source per second of translation, on this machine")
    if compare and any(system.bytes is not None for system in systems):
        lines.append("MB  millions of bytes of the model file, or of the files of the exported folder")
    return "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent="   ") for line in lines)


def _terms(systems: Sequence[System]) -> str:
    """A row for each system with a glossary: the terms in the source, by how they came into the translation."""
    rows = [["system", "terms", *get_args(How), "in translation"]]
    for number, system in enumerate(systems, start=1):
        if system.terms is not None:
            counts = [system.terms.get(how, 0) for how in get_args(How)]
            share = f"{1 - counts[-1] / sum(counts):.1%}" if any(counts) else "-"
            rows.append([str(number), *(f"{count:,}" for count in (sum(counts), *counts)), share])
    return table(rows, left=()) if len(rows) > 1 else ""


def _signatures(scores: Sequence[MetricScore]) -> str:
    """sacreBLEU's signatures, and the form in which texts are compared, which they do not name."""
    rows = {score.name: score.signature for score in scores} | {"texts": f"compared {scores[0].compared}"}
    return "\n".join(f"{name:<5}  {text}" for name, text in rows.items())


def _lengths(result: Breakdown[LengthBucket]) -> str:
    if not result.buckets:
        return textwrap.fill(f"No words in {result.text} (tokenizer {result.tokenizer})", _WIDTH)
    labels = [["words", "lines"], *([str(bucket.words), f"{bucket.lines:,}"] for bucket in result.buckets)]
    columns = [
        [["BLEU", "chrF2"], *([f"{bucket.bleu[i]:.2f}", f"{bucket.chrf[i]:.2f}"] for bucket in result.buckets)]
        for i in range(len(result.buckets[0].bleu))
    ]
    title = f"Scores by the number of words of the line in {result.text} (tokenizer {result.tokenizer})"
    return f"{textwrap.fill(title, _WIDTH)}\n\n{_table(labels, columns)}"


def _frequencies(result: Breakdown[FrequencyBucket]) -> str:
    if not result.buckets:
        return textwrap.fill(f"No words in the reference or in {result.text} (tokenizer {result.tokenizer})", _WIDTH)
    labels = [["times", "words"]]
    labels += [[str(bucket.frequency), f"{bucket.reference_words:,}"] for bucket in result.buckets]
    columns = []
    for i in range(len(result.buckets[0].systems)):
        matches = [bucket.systems[i] for bucket in result.buckets]
        rows = [[_share(match.precision), _share(match.recall), _share(match.f1)] for match in matches]
        columns.append([["precision", "recall", "F1"], *rows])
    title = (
        f"Words by how many times they occur in {result.text} (tokenizer {result.tokenizer}). words: number of words "
        "in the reference. precision: share of the system's words that are in the same line of the reference. recall: "
        "share of the reference's words that are in the same line of the system"
    )
    return f"{textwrap.fill(title, _WIDTH)}\n\n{_table(labels, columns)}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _confidence(result: Reliability, number: int | None) -> str:
    system = "" if number is None else f" of system {number}"
    bins = [["lines", "expected", "real"]]
    for lines, *values in zip(result.lines, result.expected, result.real, strict=True):
        bins.append([f"{lines:,}", *(f"{value:.1f}" for value in values)])
    rows = [[name.replace("_", " "), *map(_share, one.values())] for name, one in result.correlations.items()]
    title = f"Confidence{system}, calibrated with {result.calibration}. expected: mean confidence. real: mean chrF"
    summary = (
        f"|expected - real| is {result.error:.1f} on average. Pearson, Spearman: correlation with sentence chrF. "
        f"{result.worst_found:.0%} of the tenth of the lines with the lowest chrF are in the fifth with the lowest "
        "confidence (by chance: 20%)"
    )
    tables = table(bins, left=()), table([["", "Pearson", "Spearman"], *rows])
    return "\n\n".join([textwrap.fill(title, _WIDTH), *tables, textwrap.fill(summary, _WIDTH)])


def _worst(worst: WorstSentences, number: int | None) -> str:
    system = "" if number is None else f" of system {number}"
    blocks = [_sentence(sentence, ["translation"]) for sentence in worst.sentences]
    return "\n\n".join([f"The lines{system} with the lowest chrF", *blocks])


def _changed(changed: ChangedSentences, number: int) -> str:
    names = ["system 1", f"system {number}"]
    blocks = [f"System {number} translates {changed.different:,} lines differently from system 1"]
    for title, sentences in (("Largest gains in chrF:", changed.better), ("Largest losses in chrF:", changed.worse)):
        if sentences:
            blocks += [title, *(_sentence(sentence, names) for sentence in sentences)]
    return "\n\n".join(blocks)


def _sentence(sentence: ScoredSentence, names: Sequence[str]) -> str:
    """The line's number and scores, its source and references, and each translation with its name."""
    chrf = " to ".join(f"{translation.chrf:.1f}" for translation in sentence.translations)
    bleu = " to ".join(f"{translation.bleu:.1f}" for translation in sentence.translations)
    rows = [("source", sentence.source)] if sentence.source is not None else []
    rows += [("reference", text) for text in sentence.references]
    rows += [(name, translation.text) for name, translation in zip(names, sentence.translations, strict=True)]
    lines = [f"  {name:<11}  {text}".rstrip() for name, text in rows]
    return "\n".join([f"line {sentence.line:,}  chrF {chrf}, BLEU {bleu}", *lines])


def _robustness(result: Robustness, number: int | None) -> str:
    system = "" if number is None else f" of system {number}"
    title = (
        f"Robustness{system}: scores of variations of the {result.lines:,} lines (tokenizer {result.tokenizer}). "
        "changed: number of lines whose source differs from the clean text. loss: how much lower the score is than "
        "that of the clean text"
    )
    rows = [["variation", "changed", "BLEU", "loss", "chrF2", "loss"]]
    for variation in result.variations:
        scores = (variation.bleu, variation.bleu_loss, variation.chrf, variation.chrf_loss)
        rows.append([variation.variation, f"{variation.changed:,}", *(f"{score:.2f}" for score in scores)])
    return f"{textwrap.fill(title, _WIDTH)}\n\n{table(rows)}"


def _kept(result: Robustness) -> str:
    """For each variation, the share of the items that are also in the translations."""
    title = "Share of the items in the source that are also in the translation of the same line. -: no such items"
    rows = [["variation", *INSERTED]]
    for variation in result.variations:
        shares = (f"{100 * kept.kept / kept.in_source:.1f}%" if kept.in_source else "-" for kept in variation.kept)
        rows.append([variation.variation, *shares])
    return f"{textwrap.fill(title, _WIDTH)}\n\n{table(rows)}"


def _table(labels: Sequence[Sequence[str]], systems: Sequence[Sequence[Sequence[str]]]) -> str:
    """A table with label columns, then a group of columns for each system; its number is above it if there are several.
    Systems that do not fit into 80 columns follow in another table, which repeats the labels.

    labels: rows × cells; systems: systems × rows × cells.
    """
    groups = [aligned(rows, left=()) for rows in systems]
    if len(groups) > 1:
        labels = [[""] * len(labels[0]), *labels]
        groups = [
            aligned([[f"system {number}"], *([line] for line in lines)], left=())
            for number, lines in enumerate(groups, start=1)
        ]
    label_lines = aligned(labels)
    tables: list[list[str]] = []
    for lines in groups:
        if not tables or len(tables[-1][0]) + 3 + len(lines[0]) > _WIDTH:
            tables.append(label_lines)
        tables[-1] = [f"{start}   {line}" for start, line in zip(tables[-1], lines, strict=True)]
    return "\n\n".join("\n".join(line.rstrip() for line in table) for table in tables)
