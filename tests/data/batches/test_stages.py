"""Stages: each goes on where the one before ended, in the middle of every corpus's pass, with exact shares."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.schema import Corpus, DataConfig, Stage
from nmt.data.batches import stages
from nmt.data.batches.mixing import Mix
from nmt.data.batches.stages import StagedMix, stages_of

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=4)
WEIGHTS = st.integers(0, 9)


@st.composite
def courses(draw: st.DrawFn) -> list[tuple[Mix, int]]:
    """Mixes that follow one another, each with the time at which it ends."""
    sizes, time, course = draw(SIZES), 0, list[tuple[Mix, int]]()
    given_ = [0] * len(sizes)
    for _ in range(draw(st.integers(1, 5))):
        weights = draw(st.lists(WEIGHTS, min_size=len(sizes), max_size=len(sizes)).filter(any))
        mix = StagedMix(Mix.from_weights(sizes, weights)).begin(time, given_)
        time += draw(st.integers(1, 100))
        given_ = mix.drawn_until(time)
        course.append((mix, time))
    return course


def data(*stages_: Stage, names: str = "ab") -> DataConfig:
    corpora = tuple(Corpus(file=f"{name}.tsv", name=name) for name in names)
    return DataConfig(source_language="en", target_language="de", train=corpora, stages=stages_)


@given(courses())
def test_no_pair_comes_twice_before_its_corpus_came_once_in_whichever_stages(course: list[tuple[Mix, int]]) -> None:
    drawn = [mix.draw(mix.start, end, seed=4) for mix, end in course]
    for corpus, size in enumerate(course[0][0].sizes):
        numbers = [i for part in drawn for i in part.indices[part.corpora == corpus].tolist()]
        passes = [i for part in drawn for i in part.passes[part.corpora == corpus].tolist()]
        assert passes == [place // size for place in range(len(passes))]
        for first in range(0, len(numbers), size):
            one_pass = numbers[first : first + size]
            assert len(set(one_pass)) == len(one_pass)
        by_itself = (
            Mix.from_weights([0] * corpus + [size]).draw(0, len(numbers), seed=4).indices
        )  # whatever the stages were
        assert by_itself.tolist() == numbers


@given(courses(), st.integers(0, 10**6))
def test_shares_are_exact_within_each_stage_but_for_a_pair(course: list[tuple[Mix, int]], since: int) -> None:
    for mix, _ in course:
        for count, before, share in zip(mix.drawn_until(mix.start + since), mix.before, mix.shares, strict=True):
            assert 0 <= since * share - (count - before) < 1
        assert sum(mix.shares) == 1


@given(courses(), st.integers(0, 5), st.integers(1, 80), st.integers(1, 20))
def test_pools_cover_the_part_of_an_epoch_and_end_with_long_passes(
    course: list[tuple[Mix, int]], epoch: int, most: int, long_pass: int
) -> None:
    for mix, _ in course:
        start, end = mix.part_of(epoch + mix.start // mix.epoch)
        pools = list(mix.pools(start, end, most, long_pass))
        assert pools[0][0] == start >= mix.start and pools[-1][1] == end
        assert all(one[1] == other[0] for one, other in pairwise(pools))
        for first, last in pools:
            assert 0 < last - first <= most
            assert all(mix.sizes[corpus] < long_pass * mix.shares[corpus] for corpus in mix.passes(first, last)[0])


def test_stages_of_the_settings() -> None:
    first, second, third = stages_of(
        data(Stage(weights={"a": 1, "b": 3}, passes={"b": 1.5}), Stage(weights={"b": 2}, steps=7), Stage()), [30, 11]
    )
    assert first.mix.shares == (Fraction(1, 4), Fraction(3, 4)) and first.until_drawn == (1, 17)
    assert second.mix.shares == (0, 1) and second.steps == 7
    assert third.mix.shares == (Fraction(30, 41), Fraction(11, 41))
    mix = first.begin(100, [3, 6])
    assert mix.end is not None and mix.drawn_until(mix.end)[1] == 6 + 17 and mix.drawn_until(mix.end - 1)[1] == 6 + 16
    assert second.begin(7, [1, 2]).end is None
    (tenth,) = stages_of(data(Stage(passes={"b": 0.1})), [30, 2000])
    assert tenth.until_drawn == (1, 200), "0.1 as a binary fraction is more than a tenth"
    (tempered,) = stages_of(data(Stage(temperature=100)), [3000, 10])
    assert tempered.mix.shares[0] < Fraction(52, 100)
    (without,) = stages_of(data(), [30, 10])
    assert without == StagedMix(Mix.from_weights([30, 10]))


@pytest.mark.parametrize(
    ("course", "max_steps", "found"),
    [
        ([Stage(weights={"a": 1}, steps=5), Stage(weights={"a": 2})], 9, ["data.train[1]: b is never trained on"]),
        ([Stage(weights={"a": 1}, steps=5), Stage()], 9, []),
        ([Stage(steps=5), Stage(steps=5), Stage(steps=5), Stage()], 5, ["data.stages[1] never begins"]),
    ],
)
def test_what_never_comes_is_told(course: list[Stage], max_steps: int, found: list[str]) -> None:
    told = list(stages.problems(data(*course), max_steps))
    assert len(told) == len(found)
    for problem, beginning in zip(told, found, strict=True):
        assert problem.startswith(beginning.partition(" .* ")[0]) and beginning.partition(" .* ")[2] in problem


def test_the_temperature_is_that_of_pairs_of_languages_where_there_are_several() -> None:
    """Two corpora of one pair share its weight by size."""
    of_german = (Corpus(file="a.tsv"), Corpus(file="b.tsv"))
    data = DataConfig("en", "de", (*of_german, Corpus(file="c.tsv", languages=("en", "fr"))), temperature=4.0)
    [stage] = stages_of(data, [54, 27, 1])
    first, second, other = stage.mix.shares
    assert float(first + second) == pytest.approx(0.75) and float(other) == pytest.approx(0.25)
    assert first == 2 * second and first + second + other == 1
    [of_one_pair] = stages_of(DataConfig("en", "de", of_german, temperature=4.0), [81, 1])
    assert of_one_pair.mix == Mix.from_weights([81, 1], temperature=4.0)
