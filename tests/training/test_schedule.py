"""Learning rates against their equations, step by step, and what every schedule has in common."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.schema import TrainingConfig
from nmt.training.schedule import learning_rate, problem

FALLING = ["cosine", "linear", "warmup_stable_decay"]  # to final_learning_rate
DECAYING = ["inverse_sqrt", "constant", *FALLING]


def training(schedule: str, warmup: int, steps: int = 100, peak: float = 0.01, final: float = 0.0) -> TrainingConfig:
    return TrainingConfig(
        schedule=schedule,  # type: ignore[arg-type]
        warmup_steps=warmup,
        max_steps=steps,
        learning_rate=None if schedule == "paper" else peak,
        final_learning_rate=final,
    )


@pytest.mark.parametrize(("warmup", "d_model"), [(1, 16), (7, 1024), (4000, 512)])
def test_paper_is_equation_3(warmup: int, d_model: int) -> None:
    for step in (1, 2, 3, warmup, warmup + 1, 2 * warmup, 100 * warmup):
        rising, falling = step / warmup**1.5 / math.sqrt(d_model), 1 / math.sqrt(step * d_model)
        expected = rising if step < warmup else falling
        assert learning_rate(step, training("paper", warmup), d_model) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("warmup", "final"), [(0, 0.002), (10, 0.0), (10, 0.002)])
def test_after_the_warmup_each_is_its_equation(warmup: int, final: float) -> None:
    for step in range(warmup + 1, 131):
        part = min((step - warmup) / (100 - warmup), 1)  # past max_steps the end stays
        expected = {
            "linear": 0.01 + part * (final - 0.01),
            "cosine": final + (0.01 - final) * math.cos(math.pi * part / 2) ** 2,
            "constant": 0.01,
            "warmup_stable_decay": 0.01 - (0.01 - final) * min(1, max(0, step - 80) / 20) ** 0.5,
        }
        if warmup:
            expected["inverse_sqrt"] = 0.01 / math.sqrt(step / warmup)
        for schedule, rate in expected.items():
            settings = training(schedule, warmup, final=final)
            assert learning_rate(step, settings, 512) == pytest.approx(rate, rel=1e-9, abs=1e-15)


@given(
    schedule=st.sampled_from(["paper", *DECAYING]),
    warmup=st.integers(1, 5000),
    decay=st.integers(1, 5000),
    final=st.sampled_from([0.0, 0.002, 0.01]),
    last=st.integers(10, 12_000),
)
def test_a_schedule_that_does_not_suit_the_run_is_said_with_one_that_does(
    schedule: str, warmup: int, decay: int, final: float, last: int
) -> None:
    settings = training(schedule, warmup, warmup + decay, final=final if schedule in FALLING else 0.0)
    settings = replace(settings, max_epochs=7)
    last = min(last, settings.max_steps)
    peak, at_end = (learning_rate(step, settings, 512) for step in (warmup, last))
    lowest = settings.final_learning_rate if schedule in FALLING else peak
    said = problem(settings, 512, last)
    assert (said is not None) == (last <= warmup or at_end > lowest + 0.1 * (peak - lowest) + 1e-12)
    if said is None:
        return
    given = dict(one.removeprefix("training.").split("=") for one in said.partition(": set ")[2].split())
    numbers = {key: float(value) if "." in value else int(value) for key, value in given.items() if key != "schedule"}
    fitting = replace(settings, **numbers, schedule=given.get("schedule", schedule))  # type: ignore[arg-type]
    assert problem(fitting, 512, min(last, fitting.max_steps)) is None
    assert learning_rate(fitting.warmup_steps, fitting, 512) == pytest.approx(peak, rel=0.05), "the peak stays"
