"""A file translated to a file, by one process or several."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from nmt.commands.file_job import FileJob
from nmt.decoding.chunks import log_counts
from nmt.decoding.model_loader import files_of
from nmt.decoding.translator import Translator
from nmt.distributed import launch
from nmt.distributed import ranks as distributed
from nmt.distributed.environment import FILE_JOB, is_launched
from nmt.errors import NmtError

_RESTARTS = 3  # of all ranks, after one is killed


def job(
    model: Path,
    source: Path,
    output: Path,
    options: Mapping[str, object],
    processes: int = 1,
    ensemble: Sequence[Path] = (),
    glossary: Path | None = None,
    prefixes: Path | None = None,
) -> FileJob:
    """The job of translating `source` with a model file, a run folder or an exported folder.

    `options` as in FileJob.of. Raises NmtError as that does, and where there is no model.
    """
    files = {"model": files_of(model, *ensemble), "glossary": [] if glossary is None else [glossary]}
    return FileJob.of(files, source, output, options, processes, prefixes)


def translate(
    job: FileJob,
    load: Callable[[str], Translator],
    texts: Callable[..., Iterator[str]],
    device: str,
    processes: int | None,
) -> int:
    """Do a job in this process, or start `processes` others with the arguments of this one; each does its share.

    `load` opens the translator on a device; `texts` as in FileJob.translate. Returns the exit status. Raises NmtError
    as a FileJob does.
    """
    if is_launched():
        if os.environ.get(FILE_JOB) != job.key:
            raise NmtError(
                "the model or the input has changed since the job was started: start it again with "
                "nmt translate --nproc-per-node"
            )
        ranks, where = distributed.from_environment(device)
        job.translate(_loaded(job, load, str(where)), texts, ranks.rank, ranks.size)
        return 0
    with job.held():
        if processes is None:
            job.translate(_loaded(job, load, device), texts)
        else:
            os.environ[FILE_JOB] = job.key
            status = launch.launch(sys.argv[1:], processes, _RESTARTS, saves=False)
            if status == 130:
                raise KeyboardInterrupt
            if status:
                return status
        counts, longest = job.finish()
    log_counts(counts, longest)
    return 0


def _loaded(job: FileJob, load: Callable[[str], Translator], device: str) -> Translator:
    translator = load(device)
    job.check_loaded(translator)
    return translator
