"""A folder is there whole or not at all, and one process at a time builds."""

import logging
import threading
from pathlib import Path

import pytest
from helpers.unfinished import left_by_a_killed_process

from nmt.data import store_folder
from nmt.errors import NmtError


def test_key_follows_the_parts() -> None:
    key = store_folder.content_key(1, ["a", None], {"x": 1, "y": 2.5})
    assert key == store_folder.content_key(1, ["a", None], {"y": 2.5, "x": 1})
    assert len(key) == 16
    different = [(1, ["a", None]), (1, ["a", "None"], {"x": 1, "y": 2.5}), ("1", ["a", None], {"x": 1, "y": 2.5})]
    assert len({key, *(store_folder.content_key(*parts) for parts in different)}) == 4


def test_build_makes_a_whole_folder(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        assert not (tmp_path / "made").exists()
        (folder / "file").write_text("content")

    store_folder.build(tmp_path / "made", fill)
    assert (tmp_path / "made" / "file").read_text() == "content"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize("error", [NmtError("mine"), KeyboardInterrupt(), ValueError("a defect")])
def test_failing_build_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def fill(folder: Path) -> None:
        (folder / "file").write_text("half of the con")
        raise error

    with pytest.raises(type(error)) as raised:
        store_folder.build(tmp_path / "made", fill)
    assert raised.value is error
    assert list(tmp_path.iterdir()) == []


def test_file_system_errors_are_said(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(NmtError, match=r"made: cannot be written: No space left on device"):
        store_folder.build(tmp_path / "made", fill)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    store = tmp_path / "deep" / "store"
    left_by_a_killed_process(store)
    (store / "thesis.unfinished").mkdir()
    (store / "thesis.unfinished" / "chapter").write_text("mine")
    (store / "tokens-1.unfinished").write_text("mine too")
    (store / "lock").write_text("and mine")
    with store_folder.locked(store):
        assert sorted(path.name for path in store.iterdir()) == [
            ".nmt-lock", "lock", "thesis.unfinished", "tokens-1.unfinished"
        ]  # fmt: skip
    assert (store / "thesis.unfinished" / "chapter").read_text() == "mine"
    assert (store / "lock").read_text() == "and mine"


def test_lock_is_held_by_one_at_a_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="nmt")
    waiting, inside = threading.Event(), threading.Event()

    def enter() -> None:
        waiting.set()
        with store_folder.locked(tmp_path):
            inside.set()

    other = threading.Thread(target=enter)
    with pytest.raises(ValueError, match="a defect"), store_folder.locked(tmp_path):
        other.start()
        assert waiting.wait(timeout=30)
        assert not inside.wait(timeout=0.3)
        raise ValueError("a defect")
    other.join(timeout=30)
    assert inside.is_set()
    assert "waiting for another process that prepares data" in caplog.text
