"""Batches of sentences, as all engines make them."""

from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.decoding.engine_protocol import token_batches


def batches(lengths: list[int], tokens: int, most: int | None = None, workers: int = 1) -> list[list[int]]:
    return list(token_batches(sorted(lengths, reverse=True), tokens, lambda length: length, most, workers))


@settings(max_examples=30)
@given(st.lists(st.integers(0, 30)), st.integers(1, 100), st.one_of(st.none(), st.integers(1, 10)), st.integers(1, 5))
def test_batches_hold_everything_in_order_within_their_limits(
    lengths: list[int], tokens: int, most: int | None, workers: int
) -> None:
    made = batches(lengths, tokens, most, workers)
    assert list(chain(*made)) == sorted(lengths, reverse=True)
    for batch in made:
        assert len(batch) == 1 or len(batch) * (batch[0] + 1) <= tokens
        assert 1 <= len(batch) <= (most or len(batch))


def test_a_batch_is_as_large_as_allowed() -> None:
    assert list(map(len, batches([9] * 10, 40))) == [4, 4, 2]
    assert list(map(len, batches([9] * 10, 1000, most=8))) == [8, 2]
