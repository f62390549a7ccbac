"""Cores: what this process may run on, not what the machine has."""

import os

import pytest

from nmt.cores import usable_cores


def test_cores_that_the_process_may_not_run_on_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert usable_cores() == 2


@pytest.mark.parametrize(("counted", "usable"), [(64, 64), (None, 1)])
def test_where_the_system_does_not_say_all_cores_count(
    monkeypatch: pytest.MonkeyPatch, counted: int | None, usable: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: counted)
    assert usable_cores() == usable


def test_here_there_is_at_least_one_and_no_more_than_the_machine_has() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
