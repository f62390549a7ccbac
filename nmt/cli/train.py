"""`nmt train` and `nmt prepare`."""

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import terminal
from nmt.cli.options import ConfigFile, Device, Overrides, UnusedDevice
from nmt.distributed.environment import is_launched, rank, terminate_with_launcher
from nmt.errors import NmtError
from nmt.files import text

log = logging.getLogger("nmt")


@terminal.reporting(rank_of_a_job=True)
def train(
    config: ConfigFile,
    overrides: Overrides = None,
    device: Device = "auto",
    nproc_per_node: Annotated[
        int | None, typer.Option(min=1, help="Number of processes on this machine, each with its own device.")
    ] = None,
    max_restarts: Annotated[
        int, typer.Option(min=0, help="With --nproc-per-node: maximum restarts after a process is killed.")
    ] = 3,
    profile: Annotated[
        bool, typer.Option("--profile", help="Measure the time of the phases of some steps; traces in RUN/profile.")
    ] = False,
) -> None:
    """Prepare the data where that is missing (vocabulary, token store), then train. Run it again to resume.

    Example: nmt train configs/demo.yaml training.max_steps=200
    """
    from nmt.config import schema

    terminate_with_launcher()
    if is_launched() and nproc_per_node is not None:
        raise NmtError(
            f"--nproc-per-node {nproc_per_node}: RANK and WORLD_SIZE say that a launcher has started this process as "
            f"rank {rank()} of {os.environ['WORLD_SIZE']}: leave the option out, or unset them"
        )
    settings = schema.load(config, overrides or ())
    run = Path(settings.run_dir)
    if not rank():
        terminal.keep_log(run / "train.log")
    if nproc_per_node is not None:
        from nmt.distributed import launch

        arguments = ["train", str(config), *(overrides or ()), "--device", device, *(["--profile"] * profile)]
        raise typer.Exit(launch.launch(arguments, nproc_per_node, max_restarts))

    from nmt.checkpoints import model_file
    from nmt.commands import train as training

    stop = training.train(settings, device, profile=profile)
    if stop.interrupted:
        raise typer.Exit(130)
    if not stop.agreed and not rank():
        try:
            text.result(model_file.locate(run))
        except (NmtError, text.ReaderGone) as error:  # the model is there all the same
            log.debug("nobody reads standard output: %s", error)


@terminal.reporting()
def prepare(config: ConfigFile, overrides: Overrides = None, device: UnusedDevice = "auto") -> None:
    """Build only the vocabulary and the token store, and report on the data.

    Example: nmt prepare configs/demo.yaml
    """
    from nmt.config import schema
    from nmt.data import prepare as preparation

    text.result(preparation.prepare(schema.load(config, overrides or ())).report)
