"""Plant faults of each kind in parallel text and count which rules of cleaning find them.

    PYTHONPATH=tests python -m helpers.cleaning_faults [--source FILE --target FILE --languages en de] [--pairs 20000]
                                                       [--seed 1] [--write FOLDER] [--scores FILE]

The text is the demo corpus, or two files. One pair of three gets a fault, of all kinds equally many; the others are
left as they are, and those that a rule drops are its false alarms. Prints two tables.

For the rule `score`, write the faulty pairs with --write, score them with `nmt score`, and give what it printed with
--scores. The log-probability per subword, its last column, counts.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt.commands import demo_corpus
from nmt.config.schema import CleaningConfig
from nmt.data.cleaning.cleaner import SeenPairs
from nmt.data.cleaning.rules.judge import judge, rules_of
from nmt.data.cleaning.rules.near_duplicates import folded_hashes
from nmt.data.cleaning.score_survey import bounds_of

Pair = tuple[str, str]
SENTENCES = Path(__file__).with_name("cleaning_sentences.tsv")  # the same 32 sentences in eight languages
CHUNK = 4096
CLEAN = "none"


class Faults:
    """Each method spoils a pair in one way. `earlier` are good pairs before it, `others` sentences of other languages,
    by language."""

    def __init__(self, seed: int, others: dict[str, list[str]]) -> None:
        self.dice, self.others = random.Random(seed), others

    def other_language(self, pair: Pair, earlier: Sequence[Pair]) -> Pair:
        return self._on_one_side(pair, lambda _: self.dice.choice(self.others[self.dice.choice(sorted(self.others))]))

    def misaligned(self, pair: Pair, earlier: Sequence[Pair]) -> Pair:
        return pair[0], self.dice.choice(earlier)[1]

    def swapped_sides(self, pair: Pair, earlier: Sequence[Pair]) -> Pair:
        return pair[1], pair[0]

    def boilerplate(self, pair: Pair, earlier: Sequence[Pair]) -> Pair:
        n = self.dice.randrange(10, 100_000)
        texts = [
            *(f"https://www.example.com/news/{n}.html", f"info{n}@example.com | www.example.com"),
            *(f"<< | {n} | >> | [+] [-] | ** | --", f"{n} ............................. {n}"),
            *(f"Home | News | Shop | Contact | Login ({n})", f"Cookies help us deliver our services. Read more ({n})"),
        ]
        text = self.dice.choice(texts)
        return text, text

    def wrong_encoding(self, pair: Pair, earlier: Sequence[Pair]) -> Pair:
        def spoil(text: str) -> str:
            if text.isascii():
                middle = len(text) // 2
                return f"{text[:middle]}\ufffd{text[middle + 1 :]}"
            return text.encode().decode(self.dice.choice(("latin-1", "cp1252")), "replace")

        return pair[0], spoil(pair[1])

    def near_duplicate(self, pair: Pair, earlier: Sequence[Pair]) -> Pair:
        source, target = self.dice.choice(earlier)
        changes: list[Callable[[str], str]] = [str.upper, lambda text: f"{text}!", lambda text: f"- {text} 12"]
        return self._on_one_side((source, target), self.dice.choice(changes))

    def other_number(self, pair: Pair, earlier: Sequence[Pair]) -> Pair:
        one, other = self.dice.sample(range(11, 10_000), 2)
        return f"{pair[0]} ({one})", f"{pair[1]} ({other})"

    def symbols(self, pair: Pair, earlier: Sequence[Pair]) -> Pair:
        return self._on_one_side(pair, lambda text: f"{text} " + "".join(self.dice.choices("|*~#=_^/\\", k=len(text))))

    def repetition(self, pair: Pair, earlier: Sequence[Pair]) -> Pair:
        def repeat(text: str) -> str:
            part = self.dice.choice((text[-1], text[-4:], f" {text[:12]}"))
            return text + part * (60 // len(part))

        return self._on_one_side(pair, repeat)

    def html(self, pair: Pair, earlier: Sequence[Pair]) -> Pair:
        forms = ("<p>{}</p>", "{}<br/>", '<a href="/page">{}</a>', "{}&nbsp;", "&quot;{}&#39;")
        return self._on_one_side(pair, self.dice.choice(forms).format)

    def copied(self, pair: Pair, earlier: Sequence[Pair]) -> Pair:
        return self.dice.choice(((pair[0], pair[0]), (pair[0], " ".join(pair)), (pair[1], pair[1])))

    def _on_one_side(self, pair: Pair, change: Callable[[str], str]) -> Pair:
        source, target = pair
        return (change(source), target) if self.dice.random() < 0.5 else (source, change(target))


KINDS = [name for name in vars(Faults) if not name.startswith("_")]


class Result(NamedTuple):
    kinds: list[str]  # of each pair: its fault, or CLEAN
    rules: list[str | None]  # of each pair: the rule that drops it; None: kept
    seconds: float


def plant(pairs: Sequence[Pair], languages: tuple[str, str], seed: int) -> Iterator[tuple[str, Pair]]:
    """The pairs, of which every third one gets a fault, and the kind of each."""
    faults = Faults(seed, {name: lines for name, lines in sentences().items() if name not in languages})
    earlier: list[Pair] = []
    for number, pair in enumerate(pairs):
        if number % 3 == 2:
            kind = KINDS[number // 3 % len(KINDS)]
            yield kind, getattr(faults, kind)(pair, earlier)
        else:
            earlier.append(pair)
            yield CLEAN, pair


def sentences() -> dict[str, list[str]]:
    """The sentences of each language, line by line."""
    rows = [line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").rstrip("\n").split("\n")]
    return {name: list(column) for name, *column in zip(*rows, strict=True)}


def without_near_duplicates(pairs: Sequence[Pair]) -> list[Pair]:
    new = SeenPairs().add_hashes(folded_hashes(pairs))
    return [pair for pair, is_new in zip(pairs, new, strict=True) if is_new]


def find(
    planted: Sequence[tuple[str, Pair]],
    languages: tuple[str, str],
    settings: CleaningConfig,
    scores: Sequence[float] | None = None,
) -> Result:
    """Which rule drops each of the planted pairs."""
    given = {} if scores is None else {"score": np.array(scores, np.float32)}
    rules, seen, found = rules_of(settings, languages, bounds_of(settings, given)), SeenPairs(), []
    judge([("a", "b")], rules, {name: values[:1] for name, values in given.items()})  # loads what is loaded once
    start = time.process_time()
    for first in range(0, len(planted), CHUNK):
        pairs = [pair for _, pair in planted[first : first + CHUNK]]
        judgement = judge(pairs, rules, {name: values[first : first + CHUNK] for name, values in given.items()})
        dropped_by: list[str | None] = [None if rule < 0 else rules[rule].name for rule in judgement.dropped_by]
        kept = np.flatnonzero(judgement.kept)
        new = seen.add_hashes(folded_hashes([pairs[place] for place in kept]))
        for place in kept[~new]:
            dropped_by[place] = "near_duplicates"
        found += dropped_by
    return Result([kind for kind, _ in planted], found, time.process_time() - start)


def tables(result: Result) -> str:
    """Markdown: which rules found the faults of each kind, and the false alarms of each rule."""
    counts = Counter(zip(result.kinds, result.rules, strict=True))
    lines = ["| fault | planted | found | by the rules |", "| --- | ---: | ---: | --- |"]
    for kind in KINDS:
        planted = result.kinds.count(kind)
        by = sorted(((counts[kind, rule], rule) for rule in set(result.rules) - {None}), reverse=True)  # type: ignore[type-var]
        rules = ", ".join(f"{rule} {number / planted:.0%}" for number, rule in by if number / planted >= 0.005)
        share = 1 - counts[kind, None] / planted
        lines.append(f"| {kind.replace('_', ' ')} | {planted:,} | {share:.1%} | {rules} |")
    clean = result.kinds.count(CLEAN)
    alarms = {rule: counts[CLEAN, rule] for rule in set(result.rules) - {None}}
    wrong = ", ".join(f"{rule} {number / clean:.2%}" for rule, number in sorted(alarms.items()) if number)  # type: ignore[type-var]
    total = f"{sum(alarms.values()) / clean:.2%} of {clean:,} good pairs dropped" + (f": {wrong}" if wrong else "")
    return "\n".join([*lines, "", f"False alarms: {total}."])


def read_pairs(source: Path, target: Path) -> list[Pair]:
    sides = (path.read_text(encoding="utf-8").rstrip("\n").split("\n") for path in (source, target))
    return [(one, other) for one, other in zip(*sides, strict=True) if one.strip() and other.strip()]


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant faults in parallel text and count which rules find them.")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--languages", nargs=2, default=["en", "de"], metavar=("SOURCE", "TARGET"))
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the faulty pairs there and stop")
    parser.add_argument("--scores", type=Path, help="what nmt score printed for the pairs that --write wrote")
    parser.add_argument("--score-below", type=float, metavar="SCORE", help="drop pairs with a lower score")
    given = parser.parse_args()
    if given.source and given.target:
        text = read_pairs(given.source, given.target)
    else:
        text = list(islice(demo_corpus.pairs(given.seed), 2 * given.pairs))
    languages = (given.languages[0], given.languages[1])
    planted = list(plant(without_near_duplicates(text)[: given.pairs], languages, given.seed))
    if given.write:
        given.write.mkdir(parents=True, exist_ok=True)
        for side, name in enumerate(("source", "target")):
            (given.write / name).write_text("".join(f"{pair[side]}\n" for _, pair in planted), encoding="utf-8")
        return 0
    scores = None
    if given.scores:
        scores = [float(line.split("\t")[-1]) for line in given.scores.read_text().rstrip("\n").split("\n")]
    result = find(planted, languages, CleaningConfig(score=given.score_below), scores)
    print(tables(result))
    print(f"{len(planted) / result.seconds:,.0f} pairs per second of one core", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
