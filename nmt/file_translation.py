"""A file translated to a file by one process or several: who starts them, and what each does."""

import os
import sys
from collections.abc import Callable, Iterator

from nmt import distributed, launching
from nmt.decoding.file_job import FileJob
from nmt.decoding.lines import say_counts
from nmt.decoding.translator import Translator
from nmt.errors import NmtError

_JOB = "NMT_FILE_JOB"  # the variable that tells the ranks whose job they are started for
_RESTARTS = 3  # of the ranks, if one is killed


def translate(
    job: FileJob,
    load: Callable[[str], Translator],
    rows: Callable[..., Iterator[str]],
    device: str,
    processes: int | None,
) -> int:
    """Do a job in this process, or start so many others with this process's own arguments; as one of those, do its
    share. Returns the exit status.

    `load` opens the translator on a device, `rows` is as in FileJob.translate. Raises NmtError as a FileJob does.
    """
    if processes is not None and "WORLD_SIZE" in os.environ:
        if os.environ.get(_JOB) != job.key:
            raise NmtError(
                "the model or the input is not the one that the job was started with: start it again, by "
                "nmt translate --nproc-per-node"
            )
        ranks, where = distributed.placed(device)
        job.translate(load(str(where)), rows, ranks.rank, ranks.size)
        return 0
    with job.held():
        if processes is None:
            job.translate(load(device), rows)
        else:
            os.environ[_JOB] = job.key
            status = launching.launch(sys.argv[1:], processes, _RESTARTS, saves=False)
            if status == 130:
                raise KeyboardInterrupt
            if status:
                return status
        counts, longest = job.finish()
    say_counts(counts, longest)
    return 0
