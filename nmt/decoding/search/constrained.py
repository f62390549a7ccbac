"""Beam search for outputs that hold required phrases: dynamic beam allocation (Post and Vilar 2018).

Shapes: B sentences still searched, K live hypotheses a sentence, V subwords, C candidates of a hypothesis.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor

from nmt.decoding.search.interface import (
    DROP_SHARE,
    Hypothesis,
    LogitsProcessor,
    Memory,
    Options,
    State,
    Stepper,
    length_penalties,
)
from nmt.decoding.search.next_token import NextToken
from nmt.decoding.search.phrase_automaton import Group, Phrase, Phrases, Said

_WIDEST = 32  # hypotheses that phrases add for; longer ones share


def beam_width(groups: Sequence[Group], longest: int, options: Options) -> int:
    """The hypotheses that `constrained_beam_search` keeps of a sentence: options.beam_size, or more for phrases.

    One is kept for each number of tokens that may still be needed, up to 32: fewer would have to say the phrases
    before anything else.
    """
    return _width(_phrases(groups, longest, options), options)


def _width(phrases: Phrases, options: Options) -> int:
    return max(options.beam_size, min(_WIDEST, phrases.needed(Said()) + 1))


@torch.inference_mode()
def constrained_beam_search(
    stepper: Stepper[Memory, State],
    source: Tensor,
    max_lengths: Tensor,
    options: Options,
    required: Sequence[Sequence[Group]],
    rules: Sequence[LogitsProcessor] = (),
) -> list[list[Hypothesis]]:
    """The best outputs found for each sentence that hold its required phrases, best first; at most n_best.

    source [B, S]; max_lengths [B]: the most tokens before EOS; required: for each sentence its groups, for each
    group its phrases in tokens, of which one is to appear, in one piece; empty: nothing is asked. Phrases may
    overlap, and one place may meet several groups. Everything else is as in `beam_search`, which this is for
    sentences without groups. What comes before one of options.continuing is not a phrase's end (▁Haus, es is another
    word). Raises ValueError where `required` is not as long as `source`.

    What leaves a group unmet is returned only where nothing was found that leaves fewer unmet: the caller counts.
    Groups are not searched for whose phrases all are over the limit, begin amid a word, or hold EOS or one of
    options.never. Where there is room for the others one after the other, the shortest phrase of each, an output
    that meets them all is found, unless the model or the rules leave no way to it.

    Hypotheses compete with those that need as many more tokens to meet all groups: of each such bank the best is
    kept, then of each the second, and so on, `beam_width` in all (Post and Vilar 2018, section 3, allot the beam
    alike, but by tokens said). What says the next token of a phrase is a candidate however unlikely it is. An
    ending counts that is among the kept; as many endings that meet all finish a sentence.
    """
    if len(required) != len(source):
        raise ValueError(f"{len(required)} lists of required phrases for {len(source)} sentences")
    return _Search(stepper, source, max_lengths, options, required, rules).run() if len(source) else []


def _phrases(groups: Sequence[Group], longest: int, options: Options) -> Phrases:
    """The phrases that an output of up to `longest` tokens can hold, of the groups that ask for something."""
    never, continuing = {options.eos, *options.never}, options.continuing

    def possible(phrase: Phrase) -> bool:
        return len(phrase) <= longest and never.isdisjoint(phrase) and not (phrase and phrase[0] in continuing)

    kept = [[phrase for phrase in group if possible(phrase)] for group in groups]
    # an empty phrase is in every output
    return Phrases([group for group in kept if group and all(map(len, group))], continuing)


@dataclass(frozen=True, eq=False)
class _Node:
    """An output so far: its newest token and the output that this continues; total is log P of all of it."""

    before: "_Node | None"
    token: int
    total: float
    said: Said

    def hypothesis(self, score: float, dtype: torch.dtype) -> Hypothesis:
        """This output, which has ended."""
        nodes = [self]
        while nodes[-1].before is not None:
            nodes.append(nodes[-1].before)
        nodes.reverse()
        totals = torch.tensor([node.total for node in nodes], dtype=dtype)
        return Hypothesis([node.token for node in nodes[1:-1]], score, self.total, totals.diff().tolist())


@dataclass(frozen=True)
class _Candidate:
    """One more token for hypothesis `row` of a sentence."""

    row: int
    node: _Node
    needed: int


@dataclass(frozen=True)
class _Ended:
    """An output with EOS: how many groups it leaves unmet."""

    unmet: int
    score: float
    node: _Node


class _Sentence:
    """The search of one sentence."""

    def __init__(self, number: int, phrases: Phrases, limit: int, options: Options):
        self.number, self.phrases, self.limit, self.options = number, phrases, limit, options
        self.needed = self.phrases.needed(Said())
        self.width = _width(self.phrases, options)
        self.live = [_Node(None, options.bos, 0.0, Said())]  # none: the search is over
        self.rows = [0]  # of the step before, that each live one continues
        self.ended: list[_Ended] = []  # the n best
        self.ended_count = 0  # of those that meet all

    def wanted(self) -> Iterator[tuple[int, int]]:
        """What is a candidate however unlikely it is: (hypothesis, token), EOS and what phrases go on with."""
        for row, node in enumerate(self.live):
            yield row, self.options.eos
            yield from ((row, token) for token in self.phrases.next[node.said.node])

    def closing(self) -> list[int]:
        """The hypotheses in which a group is met unless the next token continues the word."""
        if not self.phrases.continuing:
            return []
        return [row for row, node in enumerate(self.live) if self.phrases.closing(node.said)]

    def extend(
        self, totals: dict[tuple[int, int], float], penalty: Tensor, longest: Tensor, dtype: torch.dtype
    ) -> None:
        """One more token for every hypothesis.

        totals: log P of each candidate (hypothesis, token); penalty: lp of what ends now, longest: of the limit.
        """
        candidates = [self._candidate(*at, total) for at, total in totals.items() if total > -math.inf]
        candidates.sort(key=lambda candidate: -candidate.node.total)
        eos = self.options.eos
        for kept in self._allot(candidates):
            if kept.node.token == eos:
                self._end(kept.node, float(torch.tensor(kept.node.total, dtype=dtype) / penalty))
        going = self._allot([candidate for candidate in candidates if candidate.node.token != eos])
        going.sort(key=lambda candidate: -candidate.node.total)
        if self.ended_count >= self.width or not going or self._decided(going[0].node.total / float(longest)):
            going = []
        self.live, self.rows = [kept.node for kept in going], [kept.row for kept in going]

    def _candidate(self, row: int, token: int, total: float) -> _Candidate:
        before = self.live[row]
        said = before.said if token == self.options.eos else self.phrases.after(before.said, token)
        return _Candidate(row, _Node(before, token, total, said), self.phrases.needed(said))

    def _allot(self, candidates: list[_Candidate]) -> list[_Candidate]:
        """Those of the candidates, best first, that are kept: of each bank the best, then the second, …

        One that needs the fewest tokens is always among them, so that all groups are met in time.
        """
        if len(candidates) <= self.width:
            return candidates
        nearest = min(candidates, key=lambda candidate: candidate.needed)
        ranks: Counter[int] = Counter()
        order = []
        for place, candidate in enumerate(candidates):
            bank = candidate.needed * self.width // (self.needed + 1)  # its own for each number, if there are enough
            order.append((candidate is not nearest, ranks[bank], bank, place))
            ranks[bank] += 1
        return [candidates[place] for *_, place in sorted(order)[: self.width]]

    def _end(self, node: _Node, score: float) -> None:
        unmet = self.phrases.unmet(node.said)
        self.ended_count += not unmet
        self.ended.append(_Ended(unmet, score, node))
        self.ended.sort(key=lambda ended: (ended.unmet, -ended.score))
        del self.ended[self.options.n_best :]

    def _decided(self, bound: float) -> bool:
        """Whether the n best are known, if no live hypothesis can come to more than `bound` (see `beam_search`)."""
        if len(self.ended) < self.options.n_best:
            return False
        last = self.ended[-1]
        return last.unmet == 0 and last.score > bound

    def hypotheses(self, dtype: torch.dtype) -> list[Hypothesis]:
        """What has been found."""
        best = [ended for ended in self.ended if ended.unmet == self.ended[0].unmet]
        return [ended.node.hypothesis(ended.score, dtype) for ended in best]


class _Search(Generic[Memory, State]):
    """One call of `constrained_beam_search`: what is done for all sentences at once."""

    def __init__(
        self,
        stepper: Stepper[Memory, State],
        source: Tensor,
        max_lengths: Tensor,
        options: Options,
        required: Sequence[Sequence[Group]],
        rules: Sequence[LogitsProcessor],
    ):
        self.stepper, self.options, self.device = stepper, options, source.device
        self.next = NextToken(max_lengths, options, rules, source.device)
        self.state = stepper.start(stepper.encode(source))
        self.tokens = torch.full((len(source), 1), options.bos, device=source.device)  # [B, K]
        self.live = torch.zeros(len(source), 1, device=source.device)  # [B, K]: log P so far; -inf: not live
        self.sentences = [
            _Sentence(number, _phrases(groups, limit, options), limit, options)
            for number, (groups, limit) in enumerate(zip(required, map(int, max_lengths.tolist()), strict=True))
        ]
        self.penalties = length_penalties(int(max_lengths.max()) + 1, options)  # of |Y| = 0, 1, …
        self.continuing = torch.tensor(sorted(options.continuing), dtype=torch.long, device=source.device)

    def run(self) -> list[list[Hypothesis]]:
        found: dict[int, list[Hypothesis]] = {}
        for length in itertools.count():  # tokens that each live hypothesis has
            hidden, self.state = self.stepper.step(self.state, self.tokens)
            totals = self._totals(self.stepper.scores(hidden), length)
            for sentence, candidates in zip(self.sentences, self._candidates(totals), strict=True):
                longest = self.penalties[sentence.limit + 1]
                sentence.extend(candidates, self.penalties[length + 1], longest, totals.dtype)
            finished = [i for i, sentence in enumerate(self.sentences) if not sentence.live]
            kept = list(range(len(self.sentences)))
            if len(finished) * DROP_SHARE >= len(kept):  # what is finished is inert, however long it stays
                found |= {self.sentences[i].number: self.sentences[i].hypotheses(totals.dtype) for i in finished}
                kept = [i for i in kept if self.sentences[i].live]
                if not kept:
                    break
            self._follow(kept, totals.dtype)
        return [found[number] for number in sorted(found)]

    def _totals(self, scores: Tensor, length: int) -> Tensor:
        """Scores [B, K, V] → log P of each hypothesis with each token; -inf where it may not come next."""
        log_p = self.next.log_probabilities(scores, length)
        return log_p.add_(self.live[:, :, None]).nan_to_num_(nan=-math.inf, neginf=-math.inf)

    def _candidates(self, totals: Tensor) -> list[dict[tuple[int, int], float]]:
        """Of each sentence's hypotheses, log P with its likeliest tokens and with those wanted in any case."""
        wanted = [(b, *pair) for b, sentence in enumerate(self.sentences) for pair in sentence.wanted()]
        most = max(Counter(at[:2] for at in wanted).values())
        # A bank holds no more than `width` of a hypothesis's tokens that are not wanted; and these go by likelihood.
        count = min(totals.shape[2], most + max(sentence.width for sentence in self.sentences))
        rows = [(b, row) for b, sentence in enumerate(self.sentences) for row in range(len(sentence.live))]
        closing = [(b, row) for b, sentence in enumerate(self.sentences) for row in sentence.closing()]
        found: list[dict[tuple[int, int], float]] = [{} for _ in self.sentences]
        for (b, row, token), total in zip(wanted, totals[self._index(wanted)].tolist(), strict=True):
            found[b][row, token] = total
        self._likeliest(totals, rows, count, found)
        if closing:  # the likeliest may all continue the word, and so lead to other banks
            self._likeliest(totals.index_fill(2, self.continuing, -math.inf), closing, count, found)
        return found

    def _likeliest(
        self, totals: Tensor, rows: list[tuple[int, int]], count: int, found: list[dict[tuple[int, int], float]]
    ) -> None:
        """Add the likeliest tokens of these hypotheses to what has been found."""
        best = totals[self._index(rows)].topk(count)  # [N, C]
        for (b, row), values, tokens in zip(rows, best.values.tolist(), best.indices.tolist(), strict=True):
            pairs = zip(tokens, values, strict=True)
            found[b].update(((row, token), value) for token, value in pairs if value > -math.inf)

    def _index(self, places: Sequence[tuple[int, ...]]) -> tuple[Tensor, ...]:
        return tuple(torch.tensor(column, device=self.device) for column in zip(*places, strict=True))

    def _follow(self, kept: list[int], dtype: torch.dtype) -> None:
        """Go on with the live hypotheses of these sentences; behind those of a sentence come others that are inert."""
        old = self.tokens.shape[1]
        sentences = [self.sentences[i] for i in kept]
        size = max(len(sentence.live) for sentence in sentences)

        def padded(values: Sequence[float], filling: float) -> list[float]:
            return [*values, *[filling] * (size - len(values))]

        rows, tokens, live = [], [], []
        for i, sentence in zip(kept, sentences, strict=True):
            rows.append(padded([i * old + row for row in sentence.rows], i * old))
            tokens.append(padded([node.token for node in sentence.live], self.options.eos))
            live.append(padded([node.total for node in sentence.live], -math.inf))
        places = torch.tensor(rows, device=self.device)
        self.tokens = torch.tensor(tokens, device=self.device)
        self.live = torch.tensor(live, dtype=dtype, device=self.device)
        self.sentences = sentences
        self.next.keep(torch.tensor(kept, device=self.device))
        self.next.advance(places, self.tokens)
        self.state = self.stepper.reorder(self.state, places)
