"""Compares an exported folder with its model: the same subwords, with the same log P?

Both search the same text, greedily and with the model's beam, and the exported one scores the model's outputs. Greedy
search is the same in every engine, so it decides together with the scores; other beam search outputs are only listed.
"""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Protocol

from nmt.config import schema
from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import DecodingConfig
from nmt.data.subwords.vocabulary import EOS, UNK, Tokenizer, Vocabulary
from nmt.decoding.engine_protocol import Searcher, SearchInput, batch_tokens
from nmt.decoding.search.stepper import Hypothesis, SearchOptions
from nmt.errors import NmtError
from nmt.files.table import table
from nmt.interop import export_folder

_SAMPLE_LINES, _SAMPLE_SUBWORDS = 16, 24


class Exported(Searcher, Protocol):
    """The engine of an exported folder."""

    def subwords(self, lines: Sequence[str], pairs: Sequence[LanguagePair] | None = None) -> list[list[int]]:
        """The subword ids of each line, without EOS, from the tokenizer in the folder; pairs: the languages of each, if
        the model has several pairs, which puts tokens before the line."""


@dataclass(frozen=True)
class Mismatch:
    """A line with different outputs, and the score that each engine gives its own output."""

    line: int
    ours: str
    theirs: str
    our_score: float  # of the hypothesis for beam search; log P of the first different token for greedy search
    their_score: float

    @property
    def tie(self) -> bool:
        """Whether the scores differ by no more than rounding, so either output may win."""
        return abs(self.our_score - self.their_score) <= 2 * _rounding(self.our_score)


@dataclass(frozen=True)
class Parity:
    """The result of a comparison."""

    lines: int  # how many were compared
    tokenized: list[int]  # numbers of the lines that the folder's tokenizer splits differently
    greedy: list[Mismatch]
    beam: list[Mismatch]
    beam_size: int
    largest: float  # difference of a token's log P
    scored: bool  # whether all these differences are within rounding
    other: str = "export"  # what is compared with the model
    scores: str = ""  # a table of scores, if the export was scored

    @property
    def holds(self) -> bool:
        """Whether the subwords are the same, except for ties, and all scores within rounding."""
        return self.scored and not self.tokenized and all(mismatch.tie for mismatch in self.greedy)

    def __str__(self) -> str:
        """Each line that differs, then the counts."""
        searches = {"greedy search": self.greedy, f"beam search (size {self.beam_size})": self.beam}
        rows = [f"line {number}: split into different subwords" for number in self.tokenized]
        for name, mismatches in searches.items():
            for mismatch in mismatches:
                outputs = [
                    ["  model", f"{mismatch.our_score:.5f}", mismatch.ours],
                    [f"  {self.other}", f"{mismatch.their_score:.5f}", mismatch.theirs],
                ]
                rows += [
                    f"line {mismatch.line}, {name}{' (a tie)' if mismatch.tie else ''}",
                    table(outputs, left=(0, 2)),
                ]
        counts = [f"subwords {self.lines - len(self.tokenized)}"]
        counts += [f"{name} {self.lines - len(mismatches)}" for name, mismatches in searches.items()]
        rows.append(f"{self.lines} lines compared; identical: {', '.join(counts)}")
        rows.append(f"log P of a token differs by at most {self.largest:.1e}")
        return "\n".join([*rows, *filter(None, [self.scores])])


def sample(tokenizer: Tokenizer) -> list[str]:
    """Lines of random subwords, always the same, for a model whose data is not available."""
    pieces = tokenizer.every_piece()
    spellable = [i for i in range(EOS + 1, len(pieces)) if not pieces[i].startswith("<0x")] or [UNK]
    chance = random.Random(1)
    return tokenizer.decode([chance.choices(spellable, k=1 + 5 * n % _SAMPLE_SUBWORDS) for n in range(_SAMPLE_LINES)])


def comparable(lines: Sequence[str], settings: schema.Config, tokenizer: Tokenizer) -> dict[int, list[int]]:
    """The source ids, by line number, of lines that are not empty and not too long. NmtError if there are none."""
    tags = settings.data.language_pairs.tag_count()
    limit = min(settings.longest_source, export_folder.longest_position(settings) - 1 - tags)
    encoded = dict(enumerate(tokenizer.encode(list(lines)), start=1))
    kept = {number: ids for number, ids in encoded.items() if 0 < len(ids) <= limit}
    if not kept:
        empty = sum(not ids for ids in encoded.values())
        raise NmtError(
            f"--sample: none of its {len(encoded)} lines can be compared: {empty} empty, {len(encoded) - empty} longer "
            f"than {limit} subwords: give another file"
        )
    return kept


def compare(
    ours: Searcher, theirs: Exported, vocabulary: Vocabulary, settings: schema.Config, lines: Sequence[str]
) -> Parity:
    """Translate the `comparable` lines with both engines, those of a model of several pairs of languages in turns into
    each language. Raises NmtError if there are none, or a search fails."""
    positions = min((engine.positions for engine in (ours, theirs) if engine.positions is not None), default=None)
    decoding, kept = settings.decoding, comparable(lines, settings, vocabulary.source)
    known = settings.data.language_pairs
    pairs = list(islice(cycle(known.pairs), len(kept)))
    if positions is not None:
        positions -= known.tag_count(side=1)
    starts = [tuple(vocabulary.target.tags(known.tags(pair, side=1))) for pair in pairs]
    for (number, ids), pair in zip(kept.items(), pairs, strict=True):
        kept[number] = vocabulary.source.tags(known.tags(pair)) + ids
    sources = [
        SearchInput(ids, decoding.longest_output(len(ids), positions), start=start)
        for ids, start in zip(kept.values(), starts, strict=True)
    ]
    given = vocabulary.source.prepared([lines[number - 1] for number in kept])
    others = theirs.subwords(given, pairs if known.has_tags else None)

    def search(engine: Searcher, beam_size: int) -> dict[int, Hypothesis]:
        options = SearchOptions(
            DecodingConfig(
                beam_size=beam_size, length_penalty=decoding.length_penalty, normalization=decoding.normalization
            )
        )
        results = engine.search(sources, options, batch_tokens(engine, decoding))
        for number, hypotheses in zip(kept, results, strict=True):
            if not hypotheses:
                raise NmtError(f"line {number}: the scores are not finite: the weights are damaged or too large")
        return {number: best for number, (best, *_) in zip(kept, results, strict=True)}

    greedy, beam = search(ours, 1), search(ours, decoding.beam_size)
    outputs = [source.pair(hypothesis.tokens) for source, hypothesis in zip(sources, beam.values(), strict=True)]
    scored = theirs.score(outputs, batch_tokens(theirs, decoding))
    by_line = zip(starts, beam.values(), scored, strict=True)
    log_p = [both for start, mine, its in by_line for both in zip(mine.token_scores, its[len(start) :], strict=True)]
    return Parity(
        lines=len(kept),
        tokenized=[number for (number, ids), its in zip(kept.items(), others, strict=True) if ids != its],
        greedy=_mismatches(greedy, search(theirs, 1), vocabulary.target, first_different=True),
        beam=_mismatches(beam, search(theirs, decoding.beam_size), vocabulary.target, first_different=False),
        beam_size=decoding.beam_size,
        largest=largest_of(abs(our - their) for our, their in log_p),
        scored=all(abs(our - their) <= _rounding(our) for our, their in log_p),
    )


def _mismatches(
    ours: dict[int, Hypothesis], theirs: dict[int, Hypothesis], tokenizer: Tokenizer, *, first_different: bool
) -> list[Mismatch]:
    """The lines with different tokens, with the scores of the outputs or of the first different tokens."""
    mismatches = []
    for number, mine in ours.items():
        its = theirs[number]
        if mine.tokens == its.tokens:
            continue
        scores = mine.score, its.score
        if first_different:
            pairs = zip([*mine.tokens, EOS], [*its.tokens, EOS], strict=False)
            fork = next(i for i, (one, other) in enumerate(pairs) if one != other)
            scores = mine.token_scores[fork], its.token_scores[fork]
        our_text, their_text = tokenizer.decode([mine.tokens, its.tokens])
        mismatches.append(Mismatch(number, our_text, their_text, *scores))
    return mismatches


def largest_of(differences: Iterable[float]) -> float:
    """The largest; NaN if one of them is: `max` would lose it."""
    return max(differences, key=lambda each: math.inf if math.isnan(each) else each, default=0.0)


def _rounding(log_p: float) -> float:
    """The largest difference that is only rounding: relative beyond 1, because float32 sums depend on the order."""
    return 1e-4 * max(1.0, abs(log_p))
