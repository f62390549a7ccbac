"""Beam search for outputs that contain required phrases: dynamic beam allocation (Post and Vilar 2018).

Shapes: B sentences still searched, K live hypotheses per sentence, V subwords, C candidates per hypothesis.
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

_WIDEST = 32  # the widest beam for phrases; with more phrase tokens, banks share hypotheses


def beam_width(groups: Sequence[Group], longest: int, options: SearchOptions) -> int:
    """The number of hypotheses that `constrained_beam_search` keeps for a sentence: the beam size, or more.

    There is one for each number of phrase tokens that may still be needed, up to 32. With fewer hypotheses, outputs
    would have to begin with the phrases.
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
    requirement), for each group its phrases in tokens; one of them must appear in one piece. With options.spellings the
    text of a phrase is enough. Phrases may overlap, and the same tokens may meet several groups. A phrase followed by
    one of options.continuing does not count (▁Haus followed by es is another word). starts: as in `begin`. Everything
    else is as in `beam_search`; for sentences without groups the results are equal. Raises ValueError if `required` is
    not as long as `source`.

    An output with unmet groups is returned only if no output with fewer unmet groups was found. A group is ignored if
    each of its phrases is over the limit, begins inside a word, or contains EOS or one of options.never. If the
    shortest phrases of all other groups fit into the limit one after the other, an output that meets all groups is
    found, unless the model or the processors exclude all such outputs.

    A bank consists of the hypotheses that need the same number of further tokens to meet all groups. The best of each
    bank is kept, then the second of each, and so on, `beam_width` in all (Post and Vilar 2018, section 3, have banks by
    the number of tokens already produced). The next token of a phrase is a candidate even if it is very unlikely. A
    finished hypothesis counts if it is among the kept. A sentence is finished when `beam_width` finished hypotheses
    meet all groups.
    """
    if len(required) != len(source):
        raise ValueError(f"{len(required)} lists of required phrases for {len(source)} sentences")
    if not len(source):
        return []
    limits, device = map(int, max_lengths.tolist()), source.device
    searches = [_Sentence(*pair, options) for pair in zip(required, limits, strict=True)]
    sentences = searches  # whose search is not over
    mask = NextTokenMask(max_lengths, options, processors, device)
    penalties = length_penalty_tensor(int(max_lengths.max()) + 1, options.decoding)  # of |Y| = 0, 1, …
    state, tokens = begin(model, source, options, starts)  # [B, K]
    live = torch.zeros(len(source), 1, device=device)  # [B, K]: log P so far; -inf: not live
    continuing = torch.tensor(sorted(options.continuing), dtype=torch.long, device=device)
    padding = _Node(None, 0, options.eos, -math.inf, PhraseState(), 0)
    for length in itertools.count():  # length: tokens of each live hypothesis
        hidden, state = model.step(state, tokens)
        log_p = mask.log_probabilities(model.scores(hidden), length)
        penalties = penalties.to(log_p.dtype)
        for sentence, totals in zip(sentences, _candidates(log_p, live, sentences, continuing), strict=True):
            sentence.extend(totals, length, penalties)
        staying = [i for i, sentence in enumerate(sentences) if sentence.live]
        if not staying:
            return [sentence.hypotheses(log_p.dtype) for sentence in searches]
        if (len(sentences) - len(staying)) * DROP_SHARE < len(sentences):
            staying = list(range(len(sentences)))  # finished sentences have no effect while they stay
        sentences = [sentences[i] for i in staying]
        width = max(len(sentence.live) for sentence in sentences)
        padded = [[*sentence.live, *[padding] * (width - len(sentence.live))] for sentence in sentences]
        first_rows = tokens.shape[1] * torch.tensor(staying, device=device)[:, None]
        rows = first_rows + torch.tensor([[node.row for node in nodes] for nodes in padded], device=device)
        tokens = torch.tensor([[node.token for node in nodes] for nodes in padded], device=device)
        live = torch.tensor([[node.total for node in nodes] for nodes in padded], dtype=log_p.dtype, device=device)
        mask.keep(torch.tensor(staying, device=device))
        mask.advance(rows, tokens)
        state = model.reorder(state, rows)
    raise AssertionError("every search ends at the longest length")


@dataclass(frozen=True, eq=False)
class _Node:
    """An unfinished output. before: the output that it continues, hypothesis `row` of the previous step; token: its
    newest token; total: log P of all its tokens; needed: the number of further tokens that it needs to meet all
    groups."""

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

        def is_possible(phrase: Phrase) -> bool:
            return len(phrase) <= limit and never.isdisjoint(phrase) and not (phrase and phrase[0] in continuing)

        possible_phrases = [list(filter(is_possible, group)) for group in groups]
        # An empty phrase is in every output.
        possible_groups = [group for group in possible_phrases if group and all(map(len, group))]
        self.phrases = Phrases(possible_groups, continuing, options.spellings)
        self.needed = self.phrases.needed(PhraseState())
        self.width = max(options.decoding.beam_size, min(_WIDEST, self.needed + 1))
        self.live = [_Node(None, 0, options.bos, 0.0, PhraseState(), self.needed)]  # empty: the search is over
        self.ended: list[tuple[int, float, _Node]] = []  # the n best: unmet groups, score, output with EOS
        self.ended_count = 0  # finished outputs that meet all groups

    def required_candidates(self) -> Iterator[tuple[int, int]]:
        """(hypothesis, token) of each candidate that may be very unlikely: EOS and the next tokens of phrases."""
        for row, node in enumerate(self.live):
            yield row, self.options.eos
            yield from ((row, token) for token in self.phrases.next[node.phrases.node])

    def extend(self, totals: dict[tuple[int, int], float], length: int, penalties: Tensor) -> None:
        """Add one token to every hypothesis of `length` tokens.

        totals: log P of each candidate (hypothesis, token); penalties: lp of |Y| = 0, 1, …
        """
        nodes = [self._node(*candidate, total) for candidate, total in totals.items() if total > -math.inf]
        nodes.sort(key=lambda node: -node.total)
        for node in self._allot(nodes):
            if node.token == self.options.eos:
                unmet = self.phrases.unmet(node.phrases)
                score = float(torch.tensor(node.total, dtype=penalties.dtype) / penalties[length + 1])
                self.ended_count += not unmet
                self.ended.append((unmet, score, node))
        self.ended.sort(key=lambda ended: (ended[0], -ended[1]))
        del self.ended[self.options.n_best :]
        unfinished = self._allot([node for node in nodes if node.token != self.options.eos])
        self.live = sorted(unfinished, key=lambda node: -node.total)
        if self.live:
            # No live output can reach a higher score than this: see `_done` in beam.py.
            bound = self.live[0].total / float(penalties[self.limit + 1])
            nth = self.ended[self.options.n_best - 1 :]  # empty: fewer are finished
            if self.ended_count >= self.width or any(unmet == 0 and score > bound for unmet, score, _ in nth):
                self.live = []

    def _node(self, row: int, token: int, total: float) -> _Node:
        before = self.live[row]
        state = before.phrases if token == self.options.eos else self.phrases.after(before.phrases, token)
        return _Node(before, row, token, total, state, self.phrases.needed(state))

    def _allot(self, nodes: list[_Node]) -> list[_Node]:
        """Select outputs, which are best first: the best of each bank, then the second of each, …

        An output that needs the fewest tokens is always selected, so that all groups can be met within the limit.
        """
        if len(nodes) <= self.width:
            return nodes
        nearest = min(nodes, key=lambda node: node.needed)
        ranks: Counter[int] = Counter()
        order = []
        for i, node in enumerate(nodes):
            bank = node.needed * self.width // (self.needed + 1)  # a bank per number, if the beam is wide enough
            order.append((node is not nearest, ranks[bank], bank, i))
            ranks[bank] += 1
        return [nodes[i] for *_, i in sorted(order)[: self.width]]

    def hypotheses(self, dtype: torch.dtype) -> list[Hypothesis]:
        """The best outputs, all with the lowest number of unmet groups."""
        return [node.hypothesis(score, dtype) for unmet, score, node in self.ended if unmet == self.ended[0][0]]


def _candidates(
    log_p: Tensor, live: Tensor, sentences: Sequence[_Sentence], continuing: Tensor
) -> list[dict[tuple[int, int], float]]:
    """For each sentence, log P of the candidates (hypothesis, token): the likeliest tokens of each hypothesis, and the
    `required_candidates`.

    log_p [B, K, V], live [B, K]; continuing: the tokens that continue a word.
    """
    required = list[tuple[int, int, int]]()  # sentence, hypothesis, token
    for b, sentence in enumerate(sentences):
        required += [(b, row, token) for row, token in sentence.required_candidates()]
    # Besides these, a bank holds at most `width` tokens of a hypothesis, the likeliest ones.
    count = max(Counter((b, row) for b, row, _ in required).values()) + max(sentence.width for sentence in sentences)
    candidates: list[dict[tuple[int, int], float]] = [{} for _ in sentences]

    def columns_of(rows: Sequence[tuple[int, ...]]) -> tuple[Tensor, ...]:
        return tuple(torch.tensor(column, device=log_p.device) for column in zip(*rows, strict=True))

    def add_likeliest(log_p: Tensor, rows: list[tuple[int, int]]) -> None:
        index = columns_of(rows)
        totals, _, tokens = best_candidates(log_p[index][:, None], live[index][:, None], count)  # [N, C]
        for (b, row), *columns in zip(rows, totals.tolist(), tokens.tolist(), strict=True):
            pairs = zip(*columns, strict=True)
            candidates[b].update(((row, token), total) for total, token in pairs if total > -math.inf)

    batch, hypotheses, tokens = columns_of(required)
    totals = log_p[batch, hypotheses, tokens] + live[batch, hypotheses]
    for (b, row, token), total in zip(required, totals.tolist(), strict=True):
        candidates[b][row, token] = total
    rows, closing = list[tuple[int, int]](), list[tuple[int, int]]()
    for b, sentence in enumerate(sentences):
        rows += [(b, row) for row in range(len(sentence.live))]
        closing += [(b, row) for row, node in enumerate(sentence.live) if sentence.phrases.is_closing(node.phrases)]
    add_likeliest(log_p, rows)
    # A closing group is met unless the next token continues the word. All of the likeliest tokens may do so.
    if closing and len(continuing):
        add_likeliest(log_p.index_fill(2, continuing, -math.inf), closing)
    return candidates
