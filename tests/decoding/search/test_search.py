"""Search against all possible outputs, on models that are lookup tables."""

import math

import pytest
import torch
from helpers.tables import (
    EOS,
    OPTIONS,
    FixedTable,
    Table,
    all_outputs,
    alphas,
    assert_equal,
    assert_same,
    changed,
    penalty,
    seeds,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.config.schema import DecodingConfig
from nmt.decoding.search.candidates import best_candidates
from nmt.decoding.search.decoder_model import Hypothesis, SearchOptions, length_penalty_tensor
from nmt.decoding.search.search import search
from nmt.decoding.search.step_graphs import StepGraphs


def run(table: Table, sentences: list[int], longest: list[int], options: SearchOptions) -> list[list[Hypothesis]]:
    """Search, and compare with a search whose steps have fixed shapes, as in CUDA graphs."""
    arguments = torch.tensor([[sentence, EOS] for sentence in sentences]), torch.tensor(longest), options
    found = search(table, *arguments)
    if 2 * options.decoding.beam_size <= table.table.shape[1]:
        fixed = search(FixedTable(table), *arguments, graphs=StepGraphs(torch.device("cpu")))
        assert_equal(fixed, found, rounding=1e-5)  # token scores are differences of sums, unlike those of `greedy`
    return found


@settings(max_examples=30, deadline=None)
@given(seed=seeds, alpha=alphas, vocabulary=st.integers(5, 7), longest=st.integers(0, 3))
def test_a_wide_enough_beam_is_exhaustive(seed: int, alpha: float, vocabulary: int, longest: int) -> None:
    table = Table(seed, vocabulary)
    outputs = all_outputs(table, 0, longest, alpha)
    options = changed(OPTIONS, beam_size=len(outputs), length_penalty=alpha, n_best=len(outputs))
    [found] = run(table, [0], [longest], options)
    assert_same(found, outputs)
    [best] = run(table, [0], [longest], changed(options, n_best=1))
    assert_same(best, outputs, 1)


@pytest.mark.parametrize("size", [1, 4])
def test_batched_equals_one_by_one(size: int) -> None:
    """Though sentences of all lengths leave the batch at different steps."""
    table = Table(seed=3, vocabulary=40, spread=3.0)
    options = changed(OPTIONS, beam_size=size, n_best=size)
    sentences, longest = list(range(50)), [1 + 3 * i % 40 for i in range(50)]
    together = run(table, sentences, longest, options)
    assert table.steps[0] == 50
    assert len(set(table.steps)) > 5, "finished sentences did not leave"
    assert min(table.steps) < 10
    alone = [run(table, [i], [longest[i]], options)[0] for i in sentences]
    assert_equal(together, alone)


@pytest.mark.parametrize(("n_best", "steps"), [(1, 1), (2, 2), (4, 2)])
def test_stops_when_nothing_better_can_come(n_best: int, steps: int) -> None:
    """A sure ending stops the search of the best one at once; the n best are waited for."""
    table = Table(seed=1, vocabulary=8)
    table.table.zero_()
    table.table[:, EOS] = 20.0  # so each hypothesis's best way on is to end
    [found] = run(table, [0], [60], changed(OPTIONS, beam_size=4, n_best=n_best))
    assert [len(hypothesis.tokens) for hypothesis in found] == [0, 1, 1, 1][:n_best]
    assert len(table.steps) == steps


@settings(max_examples=30, deadline=None)
@given(seed=seeds, size=st.integers(1, 9), data=st.data())
def test_two_stages_select_what_one_does(seed: int, size: int, data: st.DataObject) -> None:
    vocabulary = data.draw(st.integers(1, 30) | st.integers(1, 300))
    count = data.draw(st.integers(1, min(40, size * vocabulary + 5)))
    block = data.draw(st.integers(1, vocabulary) | st.just(64))
    generator = torch.Generator().manual_seed(seed)
    log_p = torch.randn(3, size, vocabulary, generator=generator).log_softmax(-1)
    log_p[2] = log_p[2].masked_fill(log_p[2] < data.draw(st.sampled_from([-math.inf, -3.0, 0.0])), -math.inf)
    live = torch.randn(3, size, generator=generator)
    live[1, 0] = -math.inf
    totals, parents, tokens = best_candidates(log_p, live, count, block)
    expected, at = (live[:, :, None] + log_p).flatten(1).topk(min(count, size * vocabulary))
    assert torch.equal(totals, expected)
    number = totals > -math.inf  # which of several conflicts ones is taken does not matter
    assert torch.equal((parents * vocabulary + tokens)[number], at[number])
    assert ((parents < size) & (tokens < vocabulary)).all()


def test_scores_that_are_no_probabilities() -> None:
    """Where the model has no probabilities there is no hypothesis; the other sentences are as without it."""
    options = changed(OPTIONS, beam_size=1, n_best=1)

    class Spoiled(Table):
        def after(self, sentences: Tensor, prefixes: Tensor) -> Tensor:
            scores = super().after(sentences, prefixes)
            return torch.where((sentences == 1)[..., None], -math.inf, scores)

    found = run(Spoiled(seed=2, vocabulary=100), [0, 1, 2], [6, 6, 6], options)
    assert found[1] == []
    assert_equal([found[0], found[2]], run(Table(seed=2, vocabulary=100), [0, 2], [6, 6], options))


@pytest.mark.parametrize("size", [1, 3])
def test_dead_hypotheses_beside_live_ones(size: int) -> None:
    """One NaN spoils the row it is in and no other; what the model rules out is never produced."""

    class Holes(Table):
        def after(self, sentences: Tensor, prefixes: Tensor) -> Tensor:
            scores = super().after(sentences, prefixes).clone()
            scores[..., 6] = -math.inf
            if prefixes.shape[-1] > 1:
                scores[..., 4] = torch.where(prefixes[..., -1] == 5, math.nan, scores[..., 4])
            return scores

    for hypotheses in run(Holes(seed=4, vocabulary=8), list(range(20)), [5] * 20, changed(OPTIONS, beam_size=size)):
        for hypothesis in hypotheses:
            assert not {5, 6} & set(hypothesis.tokens), "5 leads nowhere and 6 is conflicts"


def test_length_penalties_are_the_formula_and_in_order() -> None:
    for alpha in (0.0, 1e-15, 1e-9, 0.6, 1.0, 20.0):
        penalties = length_penalty_tensor(300, DecodingConfig(length_penalty=alpha))
        assert (penalties[1:] >= penalties[:-1]).all()
        assert penalties[[0, 1, 300]].tolist() == pytest.approx([penalty(n, alpha) for n in (0, 1, 300)], rel=1e-6)


def test_other_normalizations() -> None:
    average = length_penalty_tensor(40, DecodingConfig(normalization="average", length_penalty=1.0))
    assert average[1:].tolist() == list(range(1, 41))
    assert length_penalty_tensor(40, DecodingConfig(normalization="none")).tolist() == [1.0] * 41
