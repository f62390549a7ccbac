"""Random numbers that follow from names: fixed for ever, evenly spread, the same in any order."""

import pytest

from nmt.data.draws import Draws, hashes, uniform


def test_the_numbers_are_those_of_splitmix64() -> None:
    """The first outputs of the published generator from 1234567; another number would change resumed trainings."""
    draws = Draws(1234567)
    assert [draws.below(2**64) for _ in range(3)] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423,
    ]  # fmt: skip


@pytest.mark.parametrize("rate", [0.001, 0.07, 0.5])
def test_the_share_below_a_rate_is_that_rate(rate: float) -> None:
    numbers = uniform(hashes(3, 7, range(200_000), "case"))
    assert (numbers >= 0).all() and (numbers < 1).all()
    assert abs((numbers < rate).mean() - rate) < 5 * (rate / 200_000) ** 0.5


def test_weights_decide_how_likely_an_item_is() -> None:
    draws = Draws(5)
    drawn = [draws.weighted("abc", [0.1, 0, 0.3]) for _ in range(4000)]
    assert set(drawn) == {"a", "c"} and abs(drawn.count("a") - 1000) < 150
