"""The page of `nmt prepare --report`: what was prepared, as JSON, for the page's script.

Numbers that do not need the text are computed here; what needs it was counted while the text was read, and is in the
store (`nmt.data.cleaning.statistics`, `nmt.data.cleaning.rules.examples`, `nmt.data.cleaning.validation_overlap`).
"""

import datetime
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nmt import __version__
from nmt.config import schema, writer
from nmt.data.batches import token_store
from nmt.data.batches.mixing import Mix
from nmt.data.batches.stages import end_of, mix_of, stages_of, weights
from nmt.data.cleaning import cleaner as cleaning
from nmt.data.cleaning import statistics
from nmt.data.cleaning.rules import language_identifier
from nmt.data.cleaning.rules.examples import DropExamples, Example, RuleExamples
from nmt.data.cleaning.summary import CorpusCounts, SideCounts
from nmt.data.cleaning.suspicious import SCORES, SUSPICIONS
from nmt.data.prepare import PreparedData
from nmt.pages.html_page import html_page

SHOWN = 20  # pairs of a corpus that are shown as a sample
_CLEAR = 30  # characters of a line whose language can be guessed well
_LANGUAGES = 5  # that are listed for a side
_NONE = "–"


def page(config: schema.Config, prepared: PreparedData) -> str:
    """The page, as the text of an HTML file. Raises NmtError if what the store holds about the text is damaged."""
    return html_page("nmt.pages.prepare", f"{config.run_dir} – nmt prepare", to_data(config, prepared))


def to_data(config: schema.Config, prepared: PreparedData) -> dict[str, Any]:
    """The data of the page. Tables are rows of cells as text, the first row headings."""
    counted = statistics.read(prepared.folder)
    return {
        "nmt": __version__,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "folder": str(prepared.folder),
        "problems": [*cleaning.not_checked(config.data), *prepared.problems],
        "tables": prepared.summary.tables(),
        "mixes": _mixes(config.data, prepared.summary.counts),
        "overlaps": _overlaps(config.data, prepared),
        "corpora": [_corpus(config, prepared, counted, number) for number in range(len(config.data.train))],
        "text": _text(config.data, prepared.summary.counts, counted),
        "vocabularies": _vocabularies(config, counted),
        "settings": _settings(config),
    }


def _corpus(config: schema.Config, prepared: PreparedData, counted: Mapping[str, Any], number: int) -> dict[str, Any]:
    """What is known of a corpus. counted: as `statistics.read`."""
    counts, mine = prepared.summary.counts[number], counted["corpora"][number]
    return {
        "label": config.data.train[number].label,
        "languages": config.data.pair_of(config.data.train[number]),
        "read": counts.read,
        "kept": counts.kept,
        "drops": _drops(config.data, counts, _examples(prepared, mine, number)),
        "lengths": mine["lengths"],
        "ratios": mine["ratios"],
        "suspicious": [
            {"title": title, "score": SCORES[name], "examples": mine["suspicious"]["rules"][name]["nearly_dropped"]}
            for name, title in SUSPICIONS.items()
            if mine["suspicious"]["rules"].get(name, {}).get("nearly_dropped")
        ],
        "sample": mine["sample"][:: max(1, len(mine["sample"]) // SHOWN)][:SHOWN],
        "guesses": _guess_languages(mine["sample"]),
        "commonest": mine["commonest"],
    }


def _examples(prepared: PreparedData, mine: Mapping[str, Any], number: int) -> Mapping[str, RuleExamples]:
    """Of what was dropped from a corpus when it was cleaned, and when it was encoded, by reason."""
    both = DropExamples()
    both.merge(token_store.examples(prepared.folder)[number])
    both.merge(DropExamples.from_json(mine["examples"]))
    return both.rules


def _drops(data: schema.DataConfig, counts: CorpusCounts, examples: Mapping[str, RuleExamples]) -> list[dict[str, Any]]:
    """Each reason for which pairs can be dropped: its setting, how many were, and examples."""
    rows = []
    for dropped in counts.dropped:
        section, _, name = dropped.setting.rpartition(".")
        value = getattr(data.clean if section == "data.clean" else data, name, None)
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
    mixes = [stage.mix for stage in stages_of(data, [of_corpus.kept for of_corpus in counts])]
    if data.stages:
        titles = [f"Stage {number}, {end_of(stage)}" for number, stage in enumerate(data.stages, start=1)]
        notes = [f"Mixed: {mix_of(stage)}." for stage in data.stages]
        given = [weights(data, stage) for stage in data.stages]
    else:
        titles, notes, given = [""], [_mix_note(data)], [[corpus.weight for corpus in data.train]]
    return [
        {"title": title, "table": _mix(data, mix, of_mix), "note": note}
        for title, mix, of_mix, note in zip(titles, mixes, given, notes, strict=True)
    ]


def _mix_note(data: schema.DataConfig) -> str:
    if data.temperature is not None:
        return f"Weights follow from the sizes and data.temperature: {data.temperature:g}."
    if any(corpus.weight is not None for corpus in data.train):
        return "Shares follow from the weights."
    return "Without weights, each pair of each corpus is used once in an epoch."


def _mix(data: schema.DataConfig, mix: Mix, weights: Sequence[float | None]) -> list[list[str]]:
    """A table: what each corpus gives in an epoch of a mix."""
    rows = [["corpus", "pairs", "weight", "share", "pairs per epoch", "passes per epoch", "tokens before the text"]]
    tags = zip(*(data.tags_of(data.train, side) for side in (0, 1)), strict=True)
    for corpus, sides, size, share, weight in zip(data.train, tags, mix.sizes, mix.shares, weights, strict=True):
        given = float(share * mix.epoch)
        passes = f"{given / size:.2f}" if size else _NONE
        shown = _NONE if weight is None else f"{weight:g}"
        numbers = [f"{size:,}", shown, f"{float(share):.1%}", f"{given:,.0f}", passes]
        before = [" ".join(side) for side in sides if side]  # of the source, and of the target if it has some
        rows.append([corpus.label, *numbers, " → ".join(before) or _NONE])
    return rows


def _overlaps(data: schema.DataConfig, prepared: PreparedData) -> list[dict[str, Any]]:
    """What each validation set has in common with the training text."""
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
    """For each side: how many lines of the sample are long enough to guess their language, and how many of them are in
    each of the most frequent languages."""
    guesses = []
    for number in (0, 1):
        lines = [pair[number] for pair in sample if len(pair[number]) >= _CLEAR]
        names = (
            language_identifier.identifier().names(language_identifier.identifier().scores(lines)[0]) if lines else []
        )
        most = sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0]))[:_LANGUAGES]
        guesses.append({"lines": len(lines), "names": most})
    return guesses


def _text(data: schema.DataConfig, counts: Sequence[CorpusCounts], counted: Mapping[str, Any]) -> list[list[str]]:
    """A table: how the text of each side of each corpus is cut into subwords."""
    rows = [["side", "words", "subwords", "subwords per word", "characters per subword", "unknown", "single bytes"]]
    for i, corpus in enumerate(data.train):
        mine = counted["corpora"][i]
        for number, (side, language) in enumerate(zip(("source", "target"), data.pair_of(corpus), strict=True)):
            of_side: SideCounts = getattr(counts[i], side)
            subwords = sum(length * pairs for length, pairs in mine["lengths"][number])
            rows.append(
                [
                    f"{language} of {corpus.label}",
                    f"{of_side.words:,}",
                    f"{subwords:,}",
                    _ratio(subwords, of_side.words),
                    _ratio(of_side.characters, subwords),
                    _share(mine["unknown"][number], subwords),
                    _share(mine["bytes"][number], subwords),
                ]
            )
    return rows


def _ratio(one: int, other: int) -> str:
    return f"{one / other:.2f}" if other else _NONE


def _share(part: int, whole: int) -> str:
    """As a percentage; small ones with more digits, and 0 only if there is none."""
    if not part or not whole:
        return "0" if whole else _NONE
    return f"{part / whole:.2%}" if part / whole >= 0.0001 else "< 0.01%"


def _vocabularies(config: schema.Config, counted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each vocabulary with the languages that it is for, and how it covers the characters of each side."""
    pairs, shared = config.data.language_pairs, len(counted["vocabularies"]) == 1
    shown = []
    for number, vocabulary in enumerate(counted["vocabularies"]):
        sides = (0, 1) if shared else (number,)
        codes = dict.fromkeys(code for side in sides for code in (pairs.sources, pairs.targets)[side])
        covers = [
            {"side": f"{('source', 'target')[side]} ({pairs.sides[side]})", **_coverage(counted["characters"][side])}
            for side in sides
        ]
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
    """A table: the settings of data and vocabulary that are not at their defaults."""
    default, sections = writer.defaults(config), ("data.", "vocabulary.")
    settings = {path: value for path, value in writer.flatten(config).items() if path.startswith(sections)}
    changed = [[path, value, default[path] or "required"] for path, value in settings.items() if value != default[path]]
    return [["setting", "value", "default"], *changed]
