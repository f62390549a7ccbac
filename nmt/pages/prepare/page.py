"""The page of `nmt prepare --report`: the prepared data as JSON, for the script of the page.

Numbers that do not need the text are computed here. Numbers that need it were counted while the text was read, and are
in the store (`nmt.data.cleaning.statistics`, `nmt.data.cleaning.rules.examples`,
`nmt.data.cleaning.validation_overlap`).
"""

import datetime
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nmt import __version__
from nmt.config import schema, writer
from nmt.data.batches import token_store
from nmt.data.batches.mixing import Mix
from nmt.data.batches.stages import end_of, mix_of, stages_of, weights
from nmt.data.cleaning import cleaner as cleaning
from nmt.data.cleaning import statistics
from nmt.data.cleaning.rules import language_identifier
from nmt.data.cleaning.rules.examples import DropExamples, Example, RuleExamples
from nmt.data.cleaning.score_survey import Survey
from nmt.data.cleaning.summary import CorpusCounts, SideCounts
from nmt.data.prepare import PreparedData
from nmt.pages.html_page import html_page

SHOWN = 20  # maximum number of pairs in the sample of a corpus
_CLEAR = 30  # minimum number of characters to guess the language of a line
_LANGUAGES = 5  # maximum number of languages that are listed for a side
_BARS = 40  # of the histogram of a score
_SHARES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # of the pairs: the bounds shown
_NONE = "–"
SUSPICIONS = {  # what looks wrong, and its score
    "longer_target": ("target much longer than source", "subwords of the target / subwords of the source"),
    "longer_source": ("source much longer than target", "subwords of the source / subwords of the target"),
    "equal": ("both sides are equal", "characters"),
    "digits": ("more digits on one side", "share of the digits that the other side does not match"),
    "unknown": ("characters that the vocabulary does not have", "share of subwords that are unknown or single bytes"),
    "small_subwords": ("cut into very small subwords", "subwords per character"),
}


def page(config: schema.Config, prepared: PreparedData) -> str:
    """The page, as the text of an HTML file. Raises NmtError if the statistics in the store are damaged."""
    return html_page("nmt.pages.prepare", f"{config.run_dir} – nmt prepare", to_data(config, prepared))


def to_data(config: schema.Config, prepared: PreparedData) -> dict[str, Any]:
    """The data of the page. A table is a list of rows of text; the first row is the headings."""
    counted = statistics.read(prepared.folder)
    return {
        "nmt": __version__,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "folder": str(prepared.folder),
        "problems": [*cleaning.not_checked(config.data), *prepared.problems],
        "tables": prepared.summary.tables(),
        "mixes": _mixes(config.data, prepared.summary.counts),
        "overlaps": _overlaps(config.data, prepared),
        "corpora": [_corpus(config, prepared, counted, i) for i in range(len(config.data.train))],
        "text": _text(config.data, prepared.summary.counts, counted),
        "vocabularies": _vocabularies(config, counted),
        "settings": _settings(config),
    }


def _corpus(config: schema.Config, prepared: PreparedData, counted: Mapping[str, Any], i: int) -> dict[str, Any]:
    """The data of corpus i. counted: as from `statistics.read`."""
    counts, corpus = prepared.summary.counts[i], counted["corpora"][i]
    return {
        "label": config.data.train[i].label,
        "languages": config.data.pair_of(config.data.train[i]),
        "read": counts.read,
        "kept": counts.kept,
        "drops": _drops(config.data, counts, _examples(prepared, corpus, i)),
        "scores": [_scores(name, survey) for name, survey in counted["scores"][i].items() if survey["sample"]],
        "lengths": corpus["lengths"],
        "ratios": corpus["ratios"],
        "suspicious": _suspicious(corpus["suspicious"]["rules"]),
        "sample": corpus["sample"][:: max(1, len(corpus["sample"]) // SHOWN)][:SHOWN],
        "marked": corpus["marked"],
        "guesses": _guess_languages(corpus["sample"]),
        "commonest": corpus["commonest"],
    }


def _scores(name: str, survey: Survey) -> dict[str, Any]:
    """A score of a corpus: a histogram, and a table of bounds with the share of the pairs that each one keeps."""
    sample = np.array(survey["sample"], np.float32)  # as rules compare them
    low, high = np.quantile(sample, [0.005, 0.995])  # the first and the last bar hold what is beyond
    end = high if high > low else low + (abs(low) or 1)
    bars, edges = np.histogram(sample.astype(np.float64).clip(low, high), _BARS, (low, end))
    table = [["bound", "kept by min", "kept by max"]]
    for bound in dict.fromkeys(float(f"{value:.4g}") for value in np.quantile(sample, _SHARES)):
        is_above, is_below = (
            f"{np.mean(side):.1%}" for side in (sample >= np.float32(bound), sample <= np.float32(bound))
        )
        table.append([f"{bound:g}", is_above, is_below])
    return {
        "name": name,
        **{key: survey[key] for key in ("pairs", "missing")},
        "range": [float(sample[0]), float(np.median(sample)), float(sample[-1])],
        "bars": bars.tolist(),
        "edges": edges.tolist(),
        "table": table,
    }


def _suspicious(rules: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Examples of kept pairs that look suspicious, by rule."""
    suspicious = []
    for name, (title, score) in SUSPICIONS.items():
        if examples := rules.get(name, {}).get("nearly_dropped"):
            suspicious.append({"title": title, "score": score, "examples": examples})
    return suspicious


def _examples(prepared: PreparedData, corpus: Mapping[str, Any], i: int) -> Mapping[str, RuleExamples]:
    """Examples of pairs that cleaning and encoding dropped from corpus i, by reason."""
    both = DropExamples()
    both.merge(token_store.examples(prepared.folder)[i])
    both.merge(DropExamples.from_json(corpus["examples"]))
    return both.rules


def _drops(data: schema.DataConfig, counts: CorpusCounts, examples: Mapping[str, RuleExamples]) -> list[dict[str, Any]]:
    """Each reason to drop pairs: its setting, the number of dropped pairs, and examples."""
    rows = []
    for dropped in counts.dropped:
        section, _, name = dropped.setting.rpartition(".")
        value = getattr(data.clean if section == "data.clean" else data, name, None)
        if section == "data.clean.scores" and data.clean and data.clean.scores:
            value = data.clean.scores[name]
            name = dropped.reason  # such as `kiwi below 0.7`
        shown = examples.get(name or "empty", RuleExamples())
        rows.append(
            {
                "reason": dropped.reason,
                "setting": dropped.setting or _NONE,
                "limit": _NONE if value is None else writer.in_one_line(value),
                "off": bool(dropped.setting) and value in (None, False),
                "pairs": dropped.pairs,
                "dropped": list(map(_shown, shown.dropped_examples)),
                "near": list(map(_shown, shown.nearly_dropped)),
            }
        )
    return rows


def _shown(example: Example) -> dict[str, Any]:
    return {"source": example.source, "target": example.target, "score": example.score}


def _mixes(data: schema.DataConfig, counts: Sequence[CorpusCounts]) -> list[dict[str, Any]]:
    """The shares of the corpora in training: one mix, or one for each stage."""
    mixes = [stage.mix for stage in stages_of(data, [corpus.kept for corpus in counts])]
    if not data.stages:
        [mix] = mixes
        table = _mix(data, mix, [corpus.weight for corpus in data.train])
        return [{"title": "", "table": table, "note": _mix_note(data)}]
    shown = []
    for i, (stage, mix) in enumerate(zip(data.stages, mixes, strict=True), start=1):
        table, note = _mix(data, mix, weights(data, stage)), f"Mixed: {mix_of(stage)}."
        shown.append({"title": f"Stage {i}, {end_of(stage)}", "table": table, "note": note})
    return shown


def _mix_note(data: schema.DataConfig) -> str:
    if data.temperature is not None:
        return f"Weights follow from the sizes and data.temperature: {data.temperature:g}."
    if any(corpus.weight is not None for corpus in data.train):
        return "Shares follow from the weights."
    return "Without weights, each pair of each corpus is used once in an epoch."


def _mix(data: schema.DataConfig, mix: Mix, weights: Sequence[float | None]) -> list[list[str]]:
    """A table: the pairs of each corpus in an epoch of a mix."""
    rows = [["corpus", "pairs", "weight", "share", "pairs per epoch", "passes per epoch", "tokens before the text"]]
    tags = zip(*(data.tags_of(data.train, side) for side in (0, 1)), strict=True)
    for corpus, sides, size, share, weight in zip(data.train, tags, mix.sizes, mix.shares, weights, strict=True):
        pairs = float(share * mix.epoch)
        passes = f"{pairs / size:.2f}" if size else _NONE
        weight_cell = _NONE if weight is None else f"{weight:g}"
        numbers = [f"{size:,}", weight_cell, f"{float(share):.1%}", f"{pairs:,.0f}", passes]
        tag_texts = [" ".join(side) for side in sides if side]  # of the source, and of the target if it has tags
        rows.append([corpus.label, *numbers, " → ".join(tag_texts) or _NONE])
    return rows


def _overlaps(data: schema.DataConfig, prepared: PreparedData) -> list[dict[str, Any]]:
    """The overlap of each validation set with the training text."""
    labels = [corpus.label for corpus in data.train]
    shown = []
    for held_out, overlap in zip(data.held_out, prepared.overlaps, strict=True):
        counts = [(f"{pairs:,}", f"{sources:,}") for pairs, sources in overlap.by_corpus]
        table = [["training corpus", "validation pairs in it", "validation sources in it"]]
        table += [[name, *numbers] for name, numbers in zip(labels, counts, strict=True)]
        shown.append(
            {
                "label": held_out.label,
                "languages": data.pair_of(held_out),
                **{name: getattr(overlap, name) for name in ("total", "pairs", "sources", "folded")},
                "table": table,
                "pair_examples": [each._asdict() | {"corpus": labels[each.corpus]} for each in overlap.pair_examples],
                "source_examples": [
                    each._asdict() | {"corpus": labels[each.corpus]} for each in overlap.source_examples
                ],
            }
        )
    return shown


def _guess_languages(sample: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """For each side, the number of sample lines that are long enough to guess their language, and how many of them are
    in each of the most frequent languages."""
    guesses = []
    for side in (0, 1):
        lines, names = [pair[side] for pair in sample if len(pair[side]) >= _CLEAR], list[str]()
        if lines:
            identifier = language_identifier.identifier()
            names = identifier.names(identifier.scores(lines)[0])
        most_frequent = sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0]))[:_LANGUAGES]
        guesses.append({"lines": len(lines), "names": most_frequent})
    return guesses


def _text(data: schema.DataConfig, counts: Sequence[CorpusCounts], counted: Mapping[str, Any]) -> list[list[str]]:
    """A table: how the text of each side of each corpus is split into subwords."""
    rows = [["side", "words", "subwords", "subwords per word", "characters per subword", "unknown", "single bytes"]]
    for i, corpus in enumerate(data.train):
        corpus_counts = counted["corpora"][i]
        for side, (name, language) in enumerate(zip(("source", "target"), data.pair_of(corpus), strict=True)):
            side_counts: SideCounts = getattr(counts[i], name)
            subwords = sum(length * pairs for length, pairs in corpus_counts["lengths"][side])
            rows.append(
                [
                    f"{language} of {corpus.label}",
                    f"{side_counts.words:,}",
                    f"{subwords:,}",
                    _ratio(subwords, side_counts.words),
                    _ratio(side_counts.characters, subwords),
                    _share(corpus_counts["unknown"][side], subwords),
                    _share(corpus_counts["bytes"][side], subwords),
                ]
            )
    return rows


def _ratio(numerator: int, denominator: int) -> str:
    return f"{numerator / denominator:.2f}" if denominator else _NONE


def _share(part: int, whole: int) -> str:
    """A share as a percentage. Small shares have more digits; 0 means that there is nothing."""
    if not part or not whole:
        return "0" if whole else _NONE
    return f"{part / whole:.2%}" if part / whole >= 0.0001 else "< 0.01%"


def _vocabularies(config: schema.Config, counted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each vocabulary with its languages, and its coverage of the characters of each side."""
    pairs, shared = config.data.language_pairs, len(counted["vocabularies"]) == 1
    shown = []
    for i, vocabulary in enumerate(counted["vocabularies"]):
        sides = (0, 1) if shared else (i,)
        codes, covers = dict[str, None](), list[dict[str, Any]]()
        for side in sides:
            codes |= dict.fromkeys((pairs.sources, pairs.targets)[side])
            title = f"{('source', 'target')[side]} ({pairs.sides[side]})"
            covers.append({"side": title, **_coverage(counted["characters"][side])})
        shown.append(
            {
                "languages": ", ".join(codes),
                **vocabulary,
                "often": statistics.ENOUGH,
                "augmented": config.data.augment.changes_text,
                "characters": covers,
            }
        )
    return shown


def _coverage(characters: Mapping[str, Any]) -> dict[str, Any]:
    """`nmt.data.cleaning.statistics.coverage` with the names of the characters that it lists."""
    missing = characters["most_frequent_missing"]
    return {
        **characters,
        "most_frequent_missing": [(character, _name(character), times) for character, times in missing],
    }


def _name(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".strip()


def _settings(config: schema.Config) -> list[list[str]]:
    """A table: the settings of data and vocabulary that differ from their defaults."""
    default, sections = writer.defaults(config), ("data.", "vocabulary.")
    settings = {path: value for path, value in writer.flatten(config).items() if path.startswith(sections)}
    changed = [[path, value, default[path] or "required"] for path, value in settings.items() if value != default[path]]
    return [["setting", "value", "default"], *changed]
