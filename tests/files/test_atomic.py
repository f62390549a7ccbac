"""What is written is there whole or not at all, whoever else writes; what others own is left alone."""

import errno
import os
import shutil
import stat
import threading
from pathlib import Path

import pytest
from helpers import faults
from helpers.unfinished import left_by_a_killed_process

from nmt.files import atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), KeyboardInterrupt(), ValueError("a defect")])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(type(error)) as raised, atomic.replacing(path) as content:
        content.write_text("half of the n")
        raise error
    assert raised.value is error and names(tmp_path) == ["file"] and path.read_text() == "old"
    with pytest.raises(type(error)) as raised, atomic.new_folder(tmp_path / "folder") as content:
        (content / "file").write_text("half of the n")
        raise error
    assert raised.value is error and names(tmp_path) == ["file"]


def test_many_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(20):
            atomic.write_text(tmp_path / "file", str(number) * 100_000)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = (tmp_path / "file").read_text()
    assert len(text) == 100_000 and len(set(text)) == 1
    assert names(tmp_path) == ["file"]


def test_a_link_is_followed_and_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    atomic.write_text(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
    assert names(tmp_path / "elsewhere") == ["target"]


def test_a_new_file_has_the_permissions_that_the_umask_allows_and_another_keeps_its_own(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.touch(0o600)
    before = os.umask(0o027)
    try:
        atomic.write_text(private, "text")
        atomic.write_text(tmp_path / "new", "text")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("private", "new")] == [0o600, 0o640]


@pytest.mark.parametrize("names_left", [(atomic.LOCK,), (atomic.LOCK, "content")])
def test_what_was_killed_at_its_start_or_end_is_removed_too(tmp_path: Path, names_left: tuple[str, ...]) -> None:
    left = left_by_a_killed_process(tmp_path)
    shutil.rmtree(left)
    left.mkdir()
    for name in names_left:
        (left / name).touch()
    atomic.write_text(tmp_path / "file", "text")
    assert names(tmp_path) == ["file"]


def test_what_another_process_still_writes_is_not_removed(tmp_path: Path) -> None:
    with atomic.replacing(tmp_path / "slow") as content:
        content.write_text("text")
        # It may take the place of a file that others may not read.
        assert stat.S_IMODE(content.parent.stat().st_mode) & 0o077 == 0
        atomic.write_text(tmp_path / "fast", "text")
        assert content.exists()
    assert names(tmp_path) == ["fast", "slow"]


def test_what_only_looks_like_ours_is_not_removed(tmp_path: Path) -> None:
    left = left_by_a_killed_process(tmp_path)
    others = [left.name.replace(left.name[5:9], "0000"), ".nmt-.part", ".file.part", "x.unfinished", left.name[1:]]
    for name in others:
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis").write_text("mine")
    theirs = tmp_path / "theirs"
    left.rename(theirs)
    (theirs / atomic.LOCK).unlink()
    (tmp_path / left.name).symlink_to(theirs)
    atomic.remove_unfinished(tmp_path)
    assert names(tmp_path) == sorted([*others, left.name, "theirs"])
    assert (theirs / "content" / "file").exists() and names(theirs) == ["content"]


@pytest.mark.parametrize("folder", [False, True])
def test_content_is_synced_before_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: bool
) -> None:
    calls = record(tmp_path, monkeypatch)
    if folder:
        with atomic.new_folder(tmp_path / "new") as content:
            (content / "inner").mkdir()
            (content / "inner" / "file").write_text("text")
        synced = ["content/inner/file", "content/inner", "content"]
    else:
        atomic.write_text(tmp_path / "new", "text")
        synced = ["content"]
    renamed = next(number for number, call in enumerate(calls) if call in ("rename new", "replace new"))
    for name in synced:
        assert any(call.startswith("fsync ") and call.endswith(f".part/{name}") for call in calls[:renamed]), name
    assert "fsync ." in calls[renamed:]
    written = max(number for number, call in enumerate(calls) if call.startswith("write "))
    assert written < min(number for number, call in enumerate(calls) if call.startswith("fsync "))


def record(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that write below `root`, from now to the end of the test."""
    counted = faults.Faults(root)
    counted.install(monkeypatch.setattr)
    return counted.calls


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_new_file_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    """Neither a file nor a broken link, also one made while it was written; some file systems have no hard links."""

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    atomic.write_new_text(tmp_path / "new", "text")
    assert (tmp_path / "new").read_text() == "text"
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("old", "link"):
        with pytest.raises(FileExistsError):
            atomic.write_new_text(tmp_path / name, "text")
    assert names(tmp_path) == ["link", "new", "old"]
    assert (tmp_path / "old").read_text() == "old" and (tmp_path / "link").is_symlink()
