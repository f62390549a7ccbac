"""Beam search for outputs that contain required phrases: dynamic beam allocation (Post and Vilar 2018).

Shapes: B sentences still searched, K live hypotheses a sentence, V subwords, C candidates of a hypothesis.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.decoding.search.candidates import best_candidates
from nmt.decoding.search.decoder_model import (
    DecoderModel,
    Hypothesis,
    LogitsProcessor,
    SearchOptions,
    begin,
    length_penalty_tensor,
)
from nmt.decoding.search.finished import DROP_SHARE
from nmt.decoding.search.logits_processors import NextTokenMask
from nmt.decoding.search.phrase_automaton import Group, Phrase, Phrases, PhraseState

_WIDEST = 32  # the widest beam that phrases ask for; with more tokens than that, banks share hypotheses


def beam_width(groups: Sequence[Group], longest: int, options: SearchOptions) -> int:
    """The number of hypotheses that `constrained_beam_search` keeps for a sentence: the beam size, or more.

    One is kept for each number of phrase tokens that may still be needed, up to 32: with fewer, outputs would have to
    begin with the phrases.
    """
    return _Sentence(groups, longest, options).width


@torch.inference_mode()
def constrained_beam_search(
    model: DecoderModel,
    source: Tensor,
    max_lengths: Tensor,
    options: SearchOptions,
    required: Sequence[Sequence[Group]],
    processors: Sequence[LogitsProcessor] = (),
    starts: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """The best outputs found for each sentence that contain its required phrases, best first; at most n_best.

    source [B, S]; max_lengths [B]: the most tokens before EOS; required: for each sentence its groups (none: no
    requirement), for each group its phrases in tokens, of which one must appear, unbroken; with options.spellings its
    text is enough. Phrases may overlap, and the same tokens may meet several groups. A phrase followed by one of
    options.continuing does not count (▁Haus followed by es is another word); starts: as in `begin`. Everything else is
    as in `beam_search`, which this equals for sentences without groups. Raises ValueError if `required` is not as long
    as `source`.

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
    if not len(source):
        return []
    limits, device = map(int, max_lengths.tolist()), source.device
    searches = [_Sentence(*pair, options) for pair in zip(required, limits, strict=True)]
    sentences = searches  # those that are not over
    mask = NextTokenMask(max_lengths, options, processors, device)
    penalties = length_penalty_tensor(int(max_lengths.max()) + 1, options.decoding)  # of |Y| = 0, 1, …
    state, tokens = begin(model, source, options, starts)  # [B, K]
    live = torch.zeros(len(source), 1, device=device)  # [B, K]: log P so far; -inf: not live
    continuing = torch.tensor(sorted(options.continuing), dtype=torch.long, device=device)
    padding = _Node(None, 0, options.eos, -math.inf, PhraseState(), 0)
    for length in itertools.count():  # tokens that each live hypothesis has
        hidden, state = model.step(state, tokens)
        log_p = mask.log_probabilities(model.scores(hidden), length)
        penalties = penalties.to(log_p.dtype)
        for sentence, totals in zip(sentences, _candidates(log_p, live, sentences, continuing), strict=True):
            sentence.extend(totals, length, penalties)
        kept = [i for i, sentence in enumerate(sentences) if sentence.live]
        if not kept:
            return [sentence.hypotheses(log_p.dtype) for sentence in searches]
        if (len(sentences) - len(kept)) * DROP_SHARE < len(sentences):
            kept = list(range(len(sentences)))  # finished ones have no effect, however long they stay
        sentences = [sentences[i] for i in kept]
        most, old = max(len(sentence.live) for sentence in sentences), tokens.shape[1]
        padded = [[*sentence.live, *[padding] * (most - len(sentence.live))] for sentence in sentences]
        places = [[i * old + node.row for node in nodes] for i, nodes in zip(kept, padded, strict=True)]
        rows = torch.tensor(places, device=device)
        tokens = torch.tensor([[node.token for node in nodes] for nodes in padded], device=device)
        live = torch.tensor([[node.total for node in nodes] for nodes in padded], dtype=log_p.dtype, device=device)
        mask.keep(torch.tensor(kept, device=device))
        mask.advance(rows, tokens)
        state = model.reorder(state, rows)
    raise AssertionError("every search ends at the longest length")


@dataclass(frozen=True, eq=False)
class _Node:
    """An output so far: its newest token and the output `before`, hypothesis `row` of the step before, that this
    continues; total: log P of all its tokens; needed: tokens that it needs to meet all groups."""

    before: "_Node | None"
    row: int
    token: int
    total: float
    phrases: PhraseState
    needed: int

    def hypothesis(self, score: float, dtype: torch.dtype) -> Hypothesis:
        """This output, whose newest token is EOS."""
        nodes = [self]
        while nodes[-1].before is not None:
            nodes.append(nodes[-1].before)
        nodes.reverse()
        totals = torch.tensor([node.total for node in nodes], dtype=dtype)
        return Hypothesis([node.token for node in nodes[1:-1]], score, self.total, totals.diff().tolist())


class _Sentence:
    """The search of one sentence, for outputs of up to `limit` tokens."""

    def __init__(self, groups: Sequence[Group], limit: int, options: SearchOptions):
        self.limit, self.options = limit, options
        never, continuing = {options.eos, *options.never}, options.continuing

        def possible(phrase: Phrase) -> bool:
            return len(phrase) <= limit and never.isdisjoint(phrase) and not (phrase and phrase[0] in continuing)

        kept = [[phrase for phrase in group if possible(phrase)] for group in groups]
        # An empty phrase is in every output.
        possible_groups = [group for group in kept if group and all(map(len, group))]
        self.phrases = Phrases(possible_groups, continuing, options.spellings)
        self.needed = self.phrases.needed(PhraseState())
        self.width = max(options.decoding.beam_size, min(_WIDEST, self.needed + 1))
        self.live = [_Node(None, 0, options.bos, 0.0, PhraseState(), self.needed)]  # empty: the search is over
        self.ended: list[tuple[int, float, _Node]] = []  # the n best: groups left unmet, score, output with EOS
        self.ended_count = 0  # of those that meet all

    def wanted(self) -> Iterator[tuple[int, int]]:
        """(hypothesis, token) of each candidate however unlikely it is: EOS and the next tokens of phrases."""
        for row, node in enumerate(self.live):
            yield row, self.options.eos
            yield from ((row, token) for token in self.phrases.next[node.phrases.node])

    def extend(self, totals: dict[tuple[int, int], float], length: int, penalties: Tensor) -> None:
        """Add one token to every hypothesis of `length` tokens.

        totals: log P of each candidate (hypothesis, token); penalties: lp of |Y| = 0, 1, …
        """
        nodes = [self._node(*at, total) for at, total in totals.items() if total > -math.inf]
        nodes.sort(key=lambda node: -node.total)
        for node in self._allot(nodes):
            if node.token == self.options.eos:
                unmet = self.phrases.unmet(node.phrases)
                score = float(torch.tensor(node.total, dtype=penalties.dtype) / penalties[length + 1])
                self.ended_count += not unmet
                self.ended.append((unmet, score, node))
        self.ended.sort(key=lambda ended: (ended[0], -ended[1]))
        del self.ended[self.options.n_best :]
        going = self._allot([node for node in nodes if node.token != self.options.eos])
        self.live = sorted(going, key=lambda node: -node.total)
        if self.live:
            bound = self.live[0].total / float(penalties[self.limit + 1])  # none can score more: see `beam_search`
            nth = self.ended[self.options.n_best - 1 :]  # empty: fewer have ended
            if self.ended_count >= self.width or any(unmet == 0 and score > bound for unmet, score, _ in nth):
                self.live = []

    def _node(self, row: int, token: int, total: float) -> _Node:
        before = self.live[row]
        state = before.phrases if token == self.options.eos else self.phrases.after(before.phrases, token)
        return _Node(before, row, token, total, state, self.phrases.needed(state))

    def _allot(self, nodes: list[_Node]) -> list[_Node]:
        """The outputs (given best first) that are kept: the best of each bank, then the second of each, …

        One that needs the fewest tokens is always kept, so that all groups can be met in time.
        """
        if len(nodes) <= self.width:
            return nodes
        nearest = min(nodes, key=lambda node: node.needed)
        ranks: Counter[int] = Counter()
        order = []
        for place, node in enumerate(nodes):
            bank = node.needed * self.width // (self.needed + 1)  # one for each number, if the beam is wide enough
            order.append((node is not nearest, ranks[bank], bank, place))
            ranks[bank] += 1
        return [nodes[place] for *_, place in sorted(order)[: self.width]]

    def hypotheses(self, dtype: torch.dtype) -> list[Hypothesis]:
        """The best outputs found, all with the fewest groups unmet."""
        return [node.hypothesis(score, dtype) for unmet, score, node in self.ended if unmet == self.ended[0][0]]


def _candidates(
    log_p: Tensor, live: Tensor, sentences: Sequence[_Sentence], continuing: Tensor
) -> list[dict[tuple[int, int], float]]:
    """For each sentence, log P of the candidates (hypothesis, token): the likeliest tokens of each hypothesis, and
    those that are `wanted`.

    log_p [B, K, V], live [B, K]; continuing: the tokens that continue a word.
    """
    wanted = [(b, *pair) for b, sentence in enumerate(sentences) for pair in sentence.wanted()]
    # Beyond those wanted, a bank holds at most `width` tokens of a hypothesis, the likeliest ones.
    count = max(Counter(at[:2] for at in wanted).values()) + max(sentence.width for sentence in sentences)
    candidates: list[dict[tuple[int, int], float]] = [{} for _ in sentences]

    def index(places: Sequence[tuple[int, ...]]) -> tuple[Tensor, ...]:
        return tuple(torch.tensor(column, device=log_p.device) for column in zip(*places, strict=True))

    def add_likeliest(log_p: Tensor, rows: list[tuple[int, int]]) -> None:
        at = index(rows)
        totals, _, tokens = best_candidates(log_p[at][:, None], live[at][:, None], count)  # [N, C]
        for (b, row), *columns in zip(rows, totals.tolist(), tokens.tolist(), strict=True):
            pairs = zip(*columns, strict=True)
            candidates[b].update(((row, token), total) for total, token in pairs if total > -math.inf)

    batch, hypotheses, tokens = index(wanted)
    totals = log_p[batch, hypotheses, tokens] + live[batch, hypotheses]
    for (b, row, token), total in zip(wanted, totals.tolist(), strict=True):
        candidates[b][row, token] = total
    nodes = [(b, row, node) for b, sentence in enumerate(sentences) for row, node in enumerate(sentence.live)]
    add_likeliest(log_p, [(b, row) for b, row, _ in nodes])
    closing = [(b, row) for b, row, node in nodes if len(continuing) and sentences[b].phrases.is_closing(node.phrases)]
    if closing:  # a group is met unless the next token continues the word; the likeliest may all do, in other banks
        add_likeliest(log_p.index_fill(2, continuing, -math.inf), closing)
    return candidates
