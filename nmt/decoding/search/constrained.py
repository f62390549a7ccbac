"""Beam search for outputs that contain required phrases: dynamic beam allocation (Post and Vilar 2018).

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

from nmt.decoding.search.candidates import best_candidates
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
from nmt.decoding.search.logits_processors import NextTokenMask
from nmt.decoding.search.phrase_automaton import Group, Phrase, Phrases, PhraseState

_WIDEST = 32  # the widest beam that phrases ask for; with more tokens than that, banks share hypotheses


def beam_width(groups: Sequence[Group], longest: int, options: Options) -> int:
    """The number of hypotheses that `constrained_beam_search` keeps for a sentence: options.beam_size, or more.

    One is kept for each number of phrase tokens that may still be needed, up to 32: with fewer, outputs would have to
    begin with the phrases.
    """
    return _width(_phrases(groups, longest, options), options)


def _width(phrases: Phrases, options: Options) -> int:
    return max(options.beam_size, min(_WIDEST, phrases.needed(PhraseState()) + 1))


@torch.inference_mode()
def constrained_beam_search(
    stepper: Stepper[Memory, State],
    source: Tensor,
    max_lengths: Tensor,
    options: Options,
    required: Sequence[Sequence[Group]],
    processors: Sequence[LogitsProcessor] = (),
) -> list[list[Hypothesis]]:
    """The best outputs found for each sentence that contain its required phrases, best first; at most n_best.

    source [B, S]; max_lengths [B]: the most tokens before EOS; required: for each sentence its groups (none: no
    requirement), for each group its phrases in tokens, of which one must appear, unbroken. Phrases may overlap, and
    the same tokens may meet several groups. A phrase followed by one of options.continuing does not count (▁Haus
    followed by es is another word). Everything else is as in `beam_search`, which this equals for sentences without
    groups. Raises ValueError if `required` is not as long as `source`.

    An output that leaves groups unmet is returned only if no output was found that leaves fewer unmet: the caller
    counts. A group is ignored if each of its phrases is over the limit, begins inside a word, or contains EOS or one
    of options.never. If the limit has room for the others one after the other, taking the shortest phrase of each,
    an output that meets them all is found, unless the model or the processors exclude all of them.

    Hypotheses compete with those that need as many more tokens to meet all groups: the best of each such bank is
    kept, then the second of each, and so on, `beam_width` in all (Post and Vilar 2018, section 3, do the same with
    the tokens already produced). The next token of a phrase is a candidate however unlikely it is. An ending counts
    if it is among the kept. A sentence is finished when `beam_width` endings meet all groups.
    """
    if len(required) != len(source):
        raise ValueError(f"{len(required)} lists of required phrases for {len(source)} sentences")
    return _Search(stepper, source, max_lengths, options, required, processors).run() if len(source) else []


def _phrases(groups: Sequence[Group], longest: int, options: Options) -> Phrases:
    """The phrases that an output of up to `longest` tokens can contain, in the groups that need to be met."""
    never, continuing = {options.eos, *options.never}, options.continuing

    def possible(phrase: Phrase) -> bool:
        return len(phrase) <= longest and never.isdisjoint(phrase) and not (phrase and phrase[0] in continuing)

    kept = [[phrase for phrase in group if possible(phrase)] for group in groups]
    # An empty phrase is in every output.
    return Phrases([group for group in kept if group and all(map(len, group))], continuing)


@dataclass(frozen=True, eq=False)
class _Node:
    """An output so far: its newest token and the output that this continues; total is log P of all its tokens."""

    before: "_Node | None"
    token: int
    total: float
    phrases: PhraseState

    def hypothesis(self, score: float, dtype: torch.dtype) -> Hypothesis:
        """This output, whose newest token is EOS."""
        nodes = [self]
        while nodes[-1].before is not None:
            nodes.append(nodes[-1].before)
        nodes.reverse()
        totals = torch.tensor([node.total for node in nodes], dtype=dtype)
        return Hypothesis([node.token for node in nodes[1:-1]], score, self.total, totals.diff().tolist())


@dataclass(frozen=True)
class _Candidate:
    """A continuation of hypothesis `row` of a sentence; needed: tokens that it needs to meet all groups."""

    row: int
    node: _Node
    needed: int


@dataclass(frozen=True)
class _Ended:
    """An output with EOS; unmet: the number of groups that it leaves unmet."""

    unmet: int
    score: float
    node: _Node


class _Sentence:
    """The search of one sentence."""

    def __init__(self, number: int, phrases: Phrases, limit: int, options: Options):
        self.number, self.phrases, self.limit, self.options = number, phrases, limit, options
        self.needed = self.phrases.needed(PhraseState())
        self.width = _width(self.phrases, options)
        self.live = [_Node(None, options.bos, 0.0, PhraseState())]  # empty: the search is over
        self.rows = [0]  # of the step before, which the live hypotheses continue
        self.ended: list[_Ended] = []  # the n best
        self.ended_count = 0  # of those that meet all

    def wanted(self) -> Iterator[tuple[int, int]]:
        """(hypothesis, token) of each candidate however unlikely it is: EOS and the next tokens of phrases."""
        for row, node in enumerate(self.live):
            yield row, self.options.eos
            yield from ((row, token) for token in self.phrases.next[node.phrases.node])

    def closing(self) -> list[int]:
        """The hypotheses in which a group is met unless the next token continues the word."""
        if not self.phrases.continuing:
            return []
        return [row for row, node in enumerate(self.live) if self.phrases.is_closing(node.phrases)]

    def extend(
        self, totals: dict[tuple[int, int], float], penalty: Tensor, longest: Tensor, dtype: torch.dtype
    ) -> None:
        """Add one token to every hypothesis.

        totals: log P of each candidate (hypothesis, token); penalty: lp of an output that ends now, longest: lp of the
        longest one.
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
        state = before.phrases if token == self.options.eos else self.phrases.after(before.phrases, token)
        return _Candidate(row, _Node(before, token, total, state), self.phrases.needed(state))

    def _allot(self, candidates: list[_Candidate]) -> list[_Candidate]:
        """The candidates (given best first) that are kept: the best of each bank, then the second of each, …

        One that needs the fewest tokens is always kept, so that all groups can be met in time.
        """
        if len(candidates) <= self.width:
            return candidates
        nearest = min(candidates, key=lambda candidate: candidate.needed)
        ranks: Counter[int] = Counter()
        order = []
        for place, candidate in enumerate(candidates):
            bank = candidate.needed * self.width // (self.needed + 1)  # one for each number, if the beam is wide enough
            order.append((candidate is not nearest, ranks[bank], bank, place))
            ranks[bank] += 1
        return [candidates[place] for *_, place in sorted(order)[: self.width]]

    def _end(self, node: _Node, score: float) -> None:
        unmet = self.phrases.unmet(node.phrases)
        self.ended_count += not unmet
        self.ended.append(_Ended(unmet, score, node))
        self.ended.sort(key=lambda ended: (ended.unmet, -ended.score))
        del self.ended[self.options.n_best :]

    def _decided(self, bound: float) -> bool:
        """Whether the n best are known, if no live hypothesis can score more than `bound` (see `beam_search`)."""
        if len(self.ended) < self.options.n_best:
            return False
        last = self.ended[-1]
        return last.unmet == 0 and last.score > bound

    def hypotheses(self, dtype: torch.dtype) -> list[Hypothesis]:
        """The best outputs found, all with the fewest groups unmet."""
        best = [ended for ended in self.ended if ended.unmet == self.ended[0].unmet]
        return [ended.node.hypothesis(ended.score, dtype) for ended in best]


class _Search(Generic[Memory, State]):
    """One call of `constrained_beam_search`: the computations for all sentences together."""

    def __init__(
        self,
        stepper: Stepper[Memory, State],
        source: Tensor,
        max_lengths: Tensor,
        options: Options,
        required: Sequence[Sequence[Group]],
        processors: Sequence[LogitsProcessor],
    ):
        self.stepper, self.options, self.device = stepper, options, source.device
        self.mask = NextTokenMask(max_lengths, options, processors, source.device)
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
            log_p = self.mask.log_probabilities(self.stepper.scores(hidden), length)
            for sentence, candidates in zip(self.sentences, self._candidates(log_p), strict=True):
                longest = self.penalties[sentence.limit + 1]
                sentence.extend(candidates, self.penalties[length + 1], longest, log_p.dtype)
            finished = [i for i, sentence in enumerate(self.sentences) if not sentence.live]
            kept = list(range(len(self.sentences)))
            if len(finished) * DROP_SHARE >= len(kept):  # the others have no effect, however long they stay
                found |= {self.sentences[i].number: self.sentences[i].hypotheses(log_p.dtype) for i in finished}
                kept = [i for i in kept if self.sentences[i].live]
                if not kept:
                    break
            self._keep(kept, log_p.dtype)
        return [found[number] for number in sorted(found)]

    def _candidates(self, log_p: Tensor) -> list[dict[tuple[int, int], float]]:
        """For each sentence, log P of the candidates (hypothesis, token): the likeliest tokens of each hypothesis, and
        those that are candidates however unlikely they are. log_p [B, K, V]."""
        wanted = [(b, *pair) for b, sentence in enumerate(self.sentences) for pair in sentence.wanted()]
        most = max(Counter(at[:2] for at in wanted).values())
        # Beyond those wanted, a bank holds at most `width` tokens of a hypothesis, the likeliest ones.
        count = most + max(sentence.width for sentence in self.sentences)
        rows = [(b, row) for b, sentence in enumerate(self.sentences) for row in range(len(sentence.live))]
        closing = [(b, row) for b, sentence in enumerate(self.sentences) for row in sentence.closing()]
        found: list[dict[tuple[int, int], float]] = [{} for _ in self.sentences]
        sentences, hypotheses, tokens = self._index(wanted)
        totals = log_p[sentences, hypotheses, tokens] + self.live[sentences, hypotheses]
        for (b, row, token), total in zip(wanted, totals.tolist(), strict=True):
            found[b][row, token] = total
        self._add_likeliest(log_p, rows, count, found)
        if closing:  # the likeliest may all continue the word, and so be in other banks
            self._add_likeliest(log_p.index_fill(2, self.continuing, -math.inf), closing, count, found)
        return found

    def _add_likeliest(
        self, log_p: Tensor, rows: list[tuple[int, int]], count: int, found: list[dict[tuple[int, int], float]]
    ) -> None:
        """Add the likeliest tokens of these hypotheses to what has been found."""
        index = self._index(rows)
        totals, _, tokens = best_candidates(log_p[index][:, None], self.live[index][:, None], count)  # [N, C]
        for (b, row), *candidates in zip(rows, totals.tolist(), tokens.tolist(), strict=True):
            pairs = zip(*candidates, strict=True)
            found[b].update(((row, token), total) for total, token in pairs if total > -math.inf)

    def _index(self, places: Sequence[tuple[int, ...]]) -> tuple[Tensor, ...]:
        return tuple(torch.tensor(column, device=self.device) for column in zip(*places, strict=True))

    def _keep(self, kept: list[int], dtype: torch.dtype) -> None:
        """Continue with the live hypotheses of these sentences, padded to the same number with some of log P -inf."""
        old = self.tokens.shape[1]
        sentences = [self.sentences[i] for i in kept]
        size = max(len(sentence.live) for sentence in sentences)

        def padded(values: Sequence[float], padding: float) -> list[float]:
            return [*values, *[padding] * (size - len(values))]

        rows, tokens, live = [], [], []
        for i, sentence in zip(kept, sentences, strict=True):
            rows.append(padded([i * old + row for row in sentence.rows], i * old))
            tokens.append(padded([node.token for node in sentence.live], self.options.eos))
            live.append(padded([node.total for node in sentence.live], -math.inf))
        places = torch.tensor(rows, device=self.device)
        self.tokens = torch.tensor(tokens, device=self.device)
        self.live = torch.tensor(live, dtype=dtype, device=self.device)
        self.sentences = sentences
        self.mask.keep(torch.tensor(kept, device=self.device))
        self.mask.advance(places, self.tokens)
        self.state = self.stepper.reorder(self.state, places)
