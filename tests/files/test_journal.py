"""What a journal holds is not computed again, and what it does not hold whole is."""

import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.files import journal
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
        self.journal = Journal[int, list[int]](path, digest, pack, unpack)
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


@settings(max_examples=30)
@given(st.data())
def test_a_file_that_is_cut_or_damaged_is_used_until_there(tmp_path_factory: Any, data: st.DataObject) -> None:
    path: Path = tmp_path_factory.mktemp("journal") / "journal"
    Work(path).results(JOBS)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.integers(0, 2))
    if kind == 0:
        path.write_bytes(whole[:place])
    elif kind == 1:
        path.write_bytes(whole[:place] + data.draw(st.sampled_from([bytes(4096), bytes(range(256)) * 9])))
    else:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :])
    work = Work(path)
    assert work.results(JOBS) == EXPECTED
    assert work.done == JOBS[len(JOBS) - len(work.done) :]
    again = Work(path)
    assert again.results(JOBS) == EXPECTED and again.done == []


def test_records_of_another_version_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Work(tmp_path / "journal").results(JOBS)
    monkeypatch.setattr(journal, "_FORMAT", b"another")
    for done in (JOBS, []):
        work = Work(tmp_path / "journal")
        assert work.results(JOBS) == EXPECTED and work.done == done


def test_without_a_file_the_work_is_done_and_a_warning_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(io.FileIO):
        def write(self, content: Any) -> int:
            if self.tell() + len(content) > 1000:
                raise OSError(28, os.strerror(28))
            return super().write(content[:100])  # as a file may do that is not buffered

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode, buffering: Full(path, "a+"))
        assert Work(tmp_path / "journal").results(JOBS) == EXPECTED
    assert caplog.messages == [
        f"{tmp_path / 'journal'}: cannot be written: No space left on device: if this is interrupted, it begins again"
    ]
    assert not (tmp_path / "journal").stat().st_size, "the room is for the result itself"
    caplog.clear()
    assert Work(tmp_path / "missing" / "journal").results(JOBS) == EXPECTED
    assert len(caplog.messages) == 1 and "cannot be written: No such file or directory" in caplog.text


def test_errors_of_the_work_are_its_own(tmp_path: Path) -> None:
    def fail(jobs: Iterable[tuple[Any, int]]) -> Iterator[tuple[Any, list[int]]]:
        raise OSError("of a corpus")
        yield from ()

    with pytest.raises(OSError, match="of a corpus"):
        list(Work(tmp_path / "journal").journal.results([("", 1)], fail))
