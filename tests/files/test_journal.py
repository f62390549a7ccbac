"""What a journal holds is not computed again, and what it does not hold whole is."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import NmtError
from nmt.files.journal import Arrays, Journal


def digest(job: int) -> bytes:
    return str(job).encode()


def pack(result: list[int]) -> Arrays:
    job = np.frombuffer(digest(len(result)), np.uint8)
    return {"job": job, "numbers": np.array(result, np.int64), "total": np.array(sum(result))}


def unpack(arrays: Arrays) -> list[int]:
    assert arrays["numbers"].sum() == arrays["total"]
    return arrays["numbers"].tolist()


class Work:
    """Counts up to the number that is the job, and remembers the jobs it did."""

    def __init__(self, path: Path) -> None:
        self.journal = Journal[int, list[int]](path, "a.setting", digest, pack, unpack)
        self.done: list[int] = []

    def __call__(self, jobs: Iterable[tuple[Any, int]]) -> Iterator[tuple[Any, list[int]]]:
        for with_it, job in jobs:
            self.done.append(job)
            yield with_it, list(range(job))

    def results(self, jobs: Iterable[int]) -> list[tuple[str, list[int]]]:
        return list(self.journal.results(((f"with {job}", job) for job in jobs), self))


JOBS = [3, 0, 5, 3, 70]
EXPECTED = [(f"with {job}", list(range(job))) for job in JOBS]


def test_only_what_is_missing_is_computed(tmp_path: Path) -> None:
    first, second, third = (Work(tmp_path / "journal") for _ in range(3))
    begun: Any = first.journal.results([(f"with {job}", job) for job in JOBS], first)
    assert [next(begun), next(begun)] == EXPECTED[:2]
    begun.close()
    assert second.results(JOBS) == EXPECTED and second.done == JOBS[2:]
    assert third.results(JOBS) == EXPECTED and third.done == []


def test_results_are_in_the_file_as_soon_as_they_are_given(tmp_path: Path) -> None:
    work, other = Work(tmp_path / "journal"), Work(tmp_path / "copy")
    begun: Any = work.journal.results([("", 4), ("", 5)], work)
    next(begun)
    (tmp_path / "copy").write_bytes((tmp_path / "journal").read_bytes())  # as after a kill at this moment
    assert other.results([4, 5]) and other.done == [5]
    begun.close()


def test_from_another_job_on_all_is_computed(tmp_path: Path) -> None:
    Work(tmp_path / "journal").results(JOBS)
    for jobs, done in (([3, 0, 6, 3, 70], [6, 3, 70]), ([3, 0], []), ([3, 0, 6], [6]), ([], []), (JOBS, JOBS)):
        work = Work(tmp_path / "journal")
        assert work.results(jobs) == [(f"with {job}", list(range(job))) for job in jobs]
        assert work.done == done


@given(st.data())
def test_a_file_that_is_cut_or_damaged_is_used_until_there(tmp_path_factory: Any, data: st.DataObject) -> None:
    path: Path = tmp_path_factory.mktemp("journal") / "journal"
    Work(path).results(JOBS)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(whole[:place])
    else:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :])
    work = Work(path)
    assert work.results(JOBS) == EXPECTED
    assert work.done == JOBS[len(JOBS) - len(work.done) :]
    again = Work(path)
    assert again.results(JOBS) == EXPECTED and again.done == []


def test_what_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **arrays: object) -> None:
        raise OSError(28, os.strerror(28))

    work = Work(tmp_path / "journal")
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(NmtError, match=r"journal: cannot be written: No space left.*choose another a\.setting"):
            work.results(JOBS)
    with pytest.raises(NmtError, match=r"cannot be written: No such file"):
        Work(tmp_path / "missing" / "journal").results(JOBS)


def test_errors_of_the_work_are_its_own(tmp_path: Path) -> None:
    def fail(jobs: Iterable[tuple[Any, int]]) -> Iterator[tuple[Any, list[int]]]:
        raise OSError("of a corpus")
        yield from ()

    with pytest.raises(OSError, match="of a corpus"):
        list(Work(tmp_path / "journal").journal.results([("", 1)], fail))
