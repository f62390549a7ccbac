"""Chunks are read, searched and used in turn, or ahead."""

from collections.abc import Callable, Iterator

import pytest

from nmt.decoding import chunks
from nmt.decoding.chunks import results


class Work:
    """Notes when each item is read, begun and ended; fails where it is told to."""

    def __init__(self, failing: str = ""):
        self.done: list[str] = []
        self.failing = failing

    def note(self, what: str) -> None:
        if what == self.failing:
            raise OSError(what)
        self.done.append(what)

    def items(self) -> Iterator[int]:
        for i in range(3):
            self.note(f"read {i}")
            yield i

    def begin(self, item: int) -> Callable[[], int]:
        self.note(f"begin {item}")

        def finish() -> int:
            self.note(f"end {item}")
            return item

        return finish

    def use(self, ahead: bool) -> None:
        for item in results(self.items(), self.begin, ahead):
            self.note(f"use {item}")


def test_ahead_there_is_always_something_begun() -> None:
    work = Work()
    work.use(True)
    assert work.done == [
        *("read 0", "begin 0", "read 1", "begin 1", "end 0", "use 0"),
        *("read 2", "begin 2", "end 1", "use 1", "end 2", "use 2"),
    ]


def test_else_nothing_is_read_before_the_result_is_used() -> None:
    work = Work()
    work.use(False)
    assert work.done == [f"{what} {i}" for i in range(3) for what in ("read", "begin", "end", "use")]


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("what", ["read", "begin", "end", "use"])
def test_an_error_is_raised_after_all_results_before_it(ahead: bool, what: str) -> None:
    work = Work(failing := f"{what} 1")
    with pytest.raises(OSError, match=failing):
        work.use(ahead)
    assert [one for one in work.done if one.startswith("use")] == ["use 0"]


def test_very_long_lines_are_fewer_to_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHARACTERS", 2.5)
    monkeypatch.setattr(chunks, "CHUNK_LINES", 4)
    lines = ["abcd"] * 4 + ["a"] * 7
    assert list(chunks.chunked(lines, 4)) == [["abcd"] * 3, ["abcd", "a", "a", "a"], ["a"] * 4]
