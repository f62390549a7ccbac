"""What a process that was killed while it wrote has left behind."""

import os
import signal
from pathlib import Path

from nmt.files import atomic


def left_by_a_killed_process(folder: Path) -> Path:
    """A folder that nobody finishes, in `folder`, which is made."""
    before = set(folder.iterdir()) if folder.exists() else set()
    if (process := os.fork()) == 0:
        with atomic.new_folder(folder / "never") as content:
            (content / "file").write_text("half of the con")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(process, 0)
    [left] = set(folder.iterdir()) - before
    return left
