"""Whether an exported folder translates as our model does: the same subwords, at the same log P.

Both sides search the same text, greedily and with the model's beam, and the other one scores what ours found.
Greedy search means the same in every engine, so it decides, with the scores; what differs with a beam is listed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nmt.checkpoints import export_folder
from nmt.config import schema
from nmt.data.vocabulary import BOS, EOS, PAD, UNK, Tokenizer, Vocabulary
from nmt.decoding.engine import Searcher, SearchInput
from nmt.decoding.search.interface import Hypothesis, Options
from nmt.errors import NmtError

_SAMPLE_LINES, _SAMPLE_SUBWORDS = 16, 24
_ROUNDING = 1e-4  # of a log P, relative to it where it is beyond 1: float32 sums in another order


class Exported(Searcher, Protocol):
    """An engine on an exported folder."""

    def subwords(self, lines: Sequence[str]) -> list[list[int]]:
        """Each line's subword ids, without EOS, by the folder's own tokenizer."""


@dataclass(frozen=True)
class Difference:
    """A line that came out otherwise, with what each engine says of its own output: of a beam's its score, of greedy
    search's log P of the first token that differs. A tie: no further apart than rounding, so that either may win."""

    line: int
    ours: str
    theirs: str
    our_score: float
    their_score: float

    @property
    def tie(self) -> bool:
        return abs(self.our_score - self.their_score) <= 2 * _rounding(self.our_score)


@dataclass(frozen=True)
class Parity:
    """What a comparison found.

    tokenized: the numbers of the lines that the folder's tokenizer cuts otherwise; largest: the largest difference
    of a token's log P; scored: whether all of them are within rounding.
    """

    lines: int
    tokenized: list[int]
    greedy: list[Difference]
    beam: list[Difference]
    beam_size: int
    largest: float
    scored: bool

    @property
    def holds(self) -> bool:
        """Same subwords in and out, but for ties, and scores within rounding."""
        return self.scored and not self.tokenized and all(difference.tie for difference in self.greedy)

    def __str__(self) -> str:
        """Each line of text that differs, then the figures."""
        searches = {"greedy": self.greedy, f"beam {self.beam_size}": self.beam}
        rows = [f"line {number}: cut into other subwords" for number in self.tokenized]
        for name, differences in searches.items():
            for found in differences:
                tie = " (a tie)" if found.tie else ""
                rows.append(f"line {found.line}, {name}{tie}")
                rows.append(f"  ours   {found.our_score:.5f}  {found.ours}")
                rows.append(f"  theirs {found.their_score:.5f}  {found.theirs}")
        same = {"subwords in": self.lines - len(self.tokenized)}
        same |= {name: self.lines - len(differences) for name, differences in searches.items()}
        rows.append(f"of {self.lines} lines the same: " + ", ".join(f"{name} {count}" for name, count in same.items()))
        rows.append(f"log P of a token differs by at most {self.largest:.1e}")
        return "\n".join(rows)


def sample(tokenizer: Tokenizer) -> list[str]:
    """Lines of random subwords, the same each time: text for a model whose data is not at hand."""
    pieces = tokenizer.every_piece()
    spelling = [i for i in range(EOS + 1, len(pieces)) if not pieces[i].startswith("<0x")] or [UNK]
    chance = random.Random(1)
    return tokenizer.decode([chance.choices(spelling, k=1 + 5 * n % _SAMPLE_SUBWORDS) for n in range(_SAMPLE_LINES)])


def comparable(lines: Sequence[str], settings: schema.Config, tokenizer: Tokenizer) -> dict[int, list[int]]:
    """The source ids of the lines to compare, by number: those that are empty or too long are left out.

    Raises NmtError where that leaves none, as nothing would be proven.
    """
    limit = min(settings.longest_source, export_folder.longest_position(settings) - 1)
    cut = dict(enumerate(tokenizer.encode(list(lines)), start=1))
    kept = {number: ids for number, ids in cut.items() if 0 < len(ids) <= limit}
    if not kept:
        empty = sum(not ids for ids in cut.values())
        raise NmtError(
            f"--sample: none of its {len(cut)} lines can be compared: {empty} empty, {len(cut) - empty} longer than "
            f"{limit} subwords: give a file with others"
        )
    return kept


def compare(
    ours: Searcher, theirs: Exported, vocabulary: Vocabulary, settings: schema.Config, lines: Sequence[str]
) -> Parity:
    """Translate those lines that are `comparable` with both engines.

    Raises NmtError where there are none, a model's scores are not numbers, or an engine cannot search so.
    """
    positions = min((engine.positions for engine in (ours, theirs) if engine.positions is not None), default=None)
    decoding, kept = settings.decoding, comparable(lines, settings, vocabulary.source)
    sources = [SearchInput(ids, _longest(ids, decoding, positions)) for ids in kept.values()]
    others = theirs.subwords([lines[number - 1] for number in kept])

    def found(engine: Searcher, beam_size: int) -> dict[int, Hypothesis]:
        options = Options(
            bos=BOS,
            eos=EOS,
            never=(PAD, UNK, BOS),
            beam_size=beam_size,
            length_penalty=decoding.length_penalty,
            normalization=decoding.normalization,
        )
        results = engine.search(sources, options, decoding.batch_tokens)
        return {number: _first(number, hypotheses) for number, hypotheses in zip(kept, results, strict=True)}

    greedy, beam = found(ours, 1), found(ours, decoding.beam_size)
    targets = [hypothesis.tokens for hypothesis in beam.values()]
    scored = theirs.score(list(zip(kept.values(), targets, strict=True)), decoding.batch_tokens)
    pairs = [
        pair
        for mine, its in zip(beam.values(), scored, strict=True)
        for pair in zip(mine.token_scores, its, strict=True)
    ]
    return Parity(
        lines=len(kept),
        tokenized=[number for (number, ids), its in zip(kept.items(), others, strict=True) if ids != its],
        greedy=_differences(greedy, found(theirs, 1), vocabulary.target, at_the_fork=True),
        beam=_differences(beam, found(theirs, decoding.beam_size), vocabulary.target, at_the_fork=False),
        beam_size=decoding.beam_size,
        largest=max((abs(mine - its) for mine, its in pairs), default=0.0),
        scored=all(abs(mine - its) <= _rounding(mine) for mine, its in pairs),
    )


def _longest(ids: list[int], decoding: schema.DecodingConfig, positions: int | None) -> int:
    longest = decoding.longest_output(len(ids))
    return longest if positions is None else min(longest, positions)


def _first(number: int, hypotheses: list[Hypothesis]) -> Hypothesis:
    if not hypotheses:
        raise NmtError(f"line {number}: the scores are not numbers: the weights are damaged, or too large")
    return hypotheses[0]


def _differences(
    ours: dict[int, Hypothesis], theirs: dict[int, Hypothesis], tokenizer: Tokenizer, *, at_the_fork: bool
) -> list[Difference]:
    """The lines with other tokens, and the scores of the whole outputs or of the first tokens that differ."""
    differences = []
    for number, mine in ours.items():
        its = theirs[number]
        if mine.tokens == its.tokens:
            continue
        scores = mine.score, its.score
        if at_the_fork:
            pairs = zip([*mine.tokens, EOS], [*its.tokens, EOS], strict=False)
            fork = next(i for i, (one, other) in enumerate(pairs) if one != other)
            scores = mine.token_scores[fork], its.token_scores[fork]
        our_text, their_text = tokenizer.decode([mine.tokens, its.tokens])
        differences.append(Difference(number, our_text, their_text, *scores))
    return differences


def _rounding(log_p: float) -> float:
    return _ROUNDING * max(1.0, abs(log_p))
