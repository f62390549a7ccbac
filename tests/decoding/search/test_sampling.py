"""Samples follow the model's distribution, and from their seed alone."""

import math
from collections import Counter

import pytest
import torch
from helpers.tables import EOS, OPTIONS, Table, changed, log_probabilities

from nmt.decoding.search.decoder_model import Hypothesis, SearchOptions
from nmt.decoding.search.sampling import _draw, _draws, sample

SAMPLES = changed(OPTIONS, method="sample")
IN_BOTH_WAYS = pytest.mark.parametrize("top_k", [None, 10**6])  # in the order of the ids, and sorted
GREATEST = 1 - 2**-24  # the greatest number of torch.rand


def sampled(
    table: Table, sentences: list[int], n: int, options: SearchOptions, seeds: list[int], longest: int = 4
) -> list[list[Hypothesis]]:
    source = torch.tensor([[sentence, EOS] for sentence in sentences])
    return sample(table, source, torch.full((len(sentences),), longest), changed(options, n_best=n), seeds)


def first_tokens(table: Table, options: SearchOptions, n: int = 5_000) -> dict[int, float]:
    """The share of each first token among samples (EOS: of the empty output)."""
    [samples] = sampled(table, [0], n, options, [7], longest=1)
    counts = Counter([*one.tokens, EOS][0] for one in samples)
    return {token: count / n for token, count in counts.items()}


def distribution(table: Table, temperature: float = 1.0) -> dict[int, float]:
    """Of the first token, among those that may come."""
    log_p = log_probabilities(table, 0, [])
    weights = {token: math.exp(log_p[token] / temperature) for token in range(EOS, len(log_p))}
    return {token: weight / sum(weights.values()) for token, weight in weights.items()}


def assert_close(found: dict[int, float], expected: dict[int, float]) -> None:
    for token in found.keys() | expected.keys():
        assert found.get(token, 0) == pytest.approx(expected.get(token, 0), abs=0.03)  # some 4 standard deviations


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_samples_follow_the_distribution(temperature: float) -> None:
    table = Table(3, 9, spread=1.0)
    assert_close(first_tokens(table, changed(SAMPLES, temperature=temperature)), distribution(table, temperature))


def test_top_k_takes_the_likeliest() -> None:
    table = Table(3, 9, spread=1.0)
    expected = sorted(distribution(table).items(), key=lambda item: -item[1])

    def among(count: int) -> dict[int, float]:
        kept = dict(expected[:count])
        return {token: p / sum(kept.values()) for token, p in kept.items()}

    assert_close(first_tokens(table, changed(SAMPLES, top_k=2)), among(2))
    assert_close(first_tokens(table, changed(SAMPLES, top_k=1, temperature=9.0)), among(1))


@pytest.mark.parametrize("shift", [-1e-6, 1e-6])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_nucleus_is_the_fewest_that_have_top_p_together(shift: float, temperature: float) -> None:
    """Just below what the two, or three, likeliest have together, and just above; by probabilities, without chance."""
    probabilities = torch.tensor([0.125, 0.5, 0.05, 0.25, 0.075], dtype=torch.float64)
    order = [1, 3, 0, 4, 2]
    log_p = (temperature * probabilities.log()).expand(1, 1001, 5)  # the temperature comes before the nucleus
    draws = torch.linspace(0, 1 - 2**-24, 1001)[None]
    for count, together in ((1, 0.5), (2, 0.75), (3, 0.875)):
        kept = order[: count + (shift > 0)]
        drawn = _draw(log_p, draws, changed(SAMPLES, temperature=temperature, top_p=together + shift))[0]
        assert set(drawn.tolist()) == {*kept}
        # A draw is a share of what the nucleus has: the likeliest come first.
        edges = probabilities[kept].cumsum(0) / probabilities[kept].sum()
        for place, token in enumerate(kept):
            least, most = (0.0 if place == 0 else float(edges[place - 1])), float(edges[place])
            inside = (draws[0] > least + 1e-6) & (draws[0] < most - 1e-6)
            assert inside.any() and (drawn[inside] == token).all()


@IN_BOTH_WAYS
def test_the_draws_pass_a_chi_square_test(top_k: int | None) -> None:
    n, temperature = 20_000, 1.5
    log_p = torch.randn(150, generator=torch.Generator().manual_seed(5)).mul(3).log_softmax(0)
    drawn = _draw(
        log_p.expand(1, n, -1),
        next(_draws([3], n, torch.device("cpu"))),
        changed(SAMPLES, top_k=top_k, temperature=temperature),
    )
    expected = n * (log_p.double() / temperature).softmax(0)
    found = torch.bincount(drawn[0], minlength=len(expected)).double()
    often = expected > 10  # the rare tokens are counted together
    expected, found = (torch.cat([x[often], x[~often].sum()[None]]) for x in (expected, found))
    degrees = len(expected) - 1
    statistic = float(((found - expected) ** 2 / expected).sum())
    assert degrees > 80
    assert abs(statistic - degrees) < 3 * math.sqrt(2 * degrees)  # its variance is twice its degrees of freedom


def test_sums_of_many_probabilities_are_exact() -> None:
    """One draw just below, and one just above, the edge between a token and the next one."""
    parts_of_all = 2.0**48
    log_p = torch.randn(32_000, generator=torch.Generator().manual_seed(3)).log_softmax(0)
    edges = (log_p.softmax(0) * parts_of_all).double().cumsum(0)
    tokens = torch.tensor([*range(70), *range(15_900, 16_000), *range(31_900, 31_999)])
    draws = torch.cat([edges[tokens] - 0.5, edges[tokens] + 0.5]) / edges[-1]
    drawn = _draw(log_p.expand(1, len(draws), -1), draws[None], SAMPLES)[0]
    assert drawn.tolist() == [*tokens.tolist(), *(tokens + 1).tolist()]


@IN_BOTH_WAYS
def test_a_token_of_probability_0_is_never_drawn(top_k: int | None) -> None:
    """At the edges of the possible tokens and of the blocks; the last distribution has no possible token."""
    log_p = torch.randn(1, 6, 1000, generator=torch.Generator().manual_seed(2)).log_softmax(2)
    log_p[0, 0, :700], log_p[0, 1, 300:], log_p[0, 2, 64:960] = -math.inf, -math.inf, math.nan
    log_p[0, 3, torch.arange(1000) != 639], log_p[0, 4, 1::2], log_p[0, 5] = -math.inf, math.nan, -math.inf
    for draw in (0.0, 2**-24, 0.3, 0.5, 0.9, GREATEST):
        drawn = _draw(log_p, torch.full((1, 6), draw), changed(SAMPLES, top_k=top_k))
        assert (log_p.gather(2, drawn[:, :, None])[0, :5] > -math.inf).all()  # false for NaN too
        assert 0 <= drawn[0, 5] < 1000


def assert_alike(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    """The same samples; equal scores are in any order."""
    tokens, others = (sorted(one.tokens for one in each) for each in (found, expected))
    assert tokens == others
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], rel=1e-6)


def test_a_sentences_samples_follow_from_its_seed_whatever_else_is_in_the_batch() -> None:
    table = Table(5, 30)
    together = sampled(table, [0, 1, 2, 0], 6, SAMPLES, [1, 2, 3, 1], longest=7)
    assert_alike(together[0], together[3])
    for sentence, seed in ((0, 1), (1, 2), (2, 3)):
        assert_alike(sampled(table, [sentence], 6, SAMPLES, [seed], longest=7)[0], together[sentence])
    assert sampled(table, [0], 6, SAMPLES, [2], longest=7)[0] != together[0]
    one, *_ = sampled(table, [0], 1, SAMPLES, [1], longest=7)[0]
    assert one.tokens


def test_probabilities_are_the_models_own() -> None:
    table = Table(8, 12)
    options = changed(SAMPLES, temperature=0.7, top_k=6, top_p=0.9)
    for samples in sampled(table, [0, 1], 5, options, [1, 2], longest=6):
        assert [one.score for one in samples] == sorted((one.score for one in samples), reverse=True)
    for sentence, samples in enumerate(sampled(table, [0, 1], 5, options, [1, 2], longest=6)):
        for one in samples:
            own = [
                log_probabilities(table, sentence, one.tokens[:i])[token] for i, token in enumerate([*one.tokens, EOS])
            ]
            assert one.token_scores == pytest.approx(own, abs=1e-6)
            assert one.log_probability == pytest.approx(sum(own), abs=1e-6)
