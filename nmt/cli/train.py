"""`nmt prepare`, `nmt train`, `nmt average-checkpoints`, `nmt calibrate` and `nmt shortlist`."""

import logging
import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import options, terminal
from nmt.distributed.environment import check_launch, is_launched, mark_saved, rank, terminate_with_launcher
from nmt.errors import NmtError
from nmt.files import text

log = logging.getLogger("nmt")


@terminal.reporting()
def prepare(
    config: options.ConfigFile,
    overrides: options.Overrides = None,
    report: Annotated[
        Path | None,
        options.file("Also write an HTML page about the data: dropped pairs, lengths, vocabulary, suspicious pairs."),
    ] = None,
    device: options.UnusedDevice = None,
) -> None:
    """Prepare the data, and report on it. nmt train with the same settings uses the prepared data.

    The command cleans the text, learns the vocabulary and encodes the text. With --report, it also writes an HTML page,
    which needs no network: dropped and nearly dropped pairs, lengths and languages, the mix of corpora, validation text
    in the training text, the vocabulary, and suspicious pairs.

    Example: nmt prepare my.yaml --report data.html
    """
    from nmt.commands import prepare as preparing

    text.result(preparing.prepare(config, overrides or (), report))
    if report is not None:
        text.result(report)


@terminal.reporting(rank_of_a_job=True)
def train(
    config: options.ConfigFile,
    overrides: options.Overrides = None,
    device: options.Device = "auto",
    nproc_per_node: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of processes on this machine, each with its own device."),
    ] = None,
    max_restarts: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="With --nproc-per-node: number of restarts after a process is killed."),
    ] = 3,
    profile: Annotated[
        bool, typer.Option("--profile", help="Time the phases of some steps and write traces to RUN/profile.")
    ] = False,
) -> None:
    """Prepare the data if necessary, then train. To resume, run the same command again.

    Example: nmt train my.yaml training.max_steps=800
    """
    terminate_with_launcher()
    check_launch()
    if is_launched() and nproc_per_node is not None:
        raise NmtError(
            f"--nproc-per-node {nproc_per_node}: RANK and WORLD_SIZE show that a launcher has started this process as "
            f"rank {rank()} of {os.environ['WORLD_SIZE']}: leave the option out, or unset these variables"
        )

    from nmt.checkpoints import model_file, run_folder
    from nmt.commands import train as training
    from nmt.distributed import launch

    settings = run_folder.load_config(config, overrides or ())
    run = Path(settings.run_dir)
    if not rank():
        terminal.keep_log(run / "train.log")
    if nproc_per_node is not None:
        arguments = ["train", str(config), *(overrides or ()), "--device", device]
        if profile:
            arguments.append("--profile")
        raise typer.Exit(launch.launch(arguments, nproc_per_node, max_restarts))
    stop = training.train(settings, device, profile=profile)
    mark_saved()
    if stop.interrupted:
        raise typer.Exit(130)
    if not stop.agreed and not rank():
        pairs = settings.data.language_pairs
        to = f" --from {pairs.pairs[0].source} --to {pairs.pairs[0].target}" if pairs.several else ""
        log.info("next: nmt translate %s FILE%s", shlex.quote(str(run)), to)
        try:
            text.result(model_file.locate(run))
        except (NmtError, text.ReaderGone) as error:  # the training has succeeded nevertheless
            log.debug("nobody reads standard output: %s", error)


@terminal.reporting()
def average_checkpoints(
    sources: Annotated[list[Path], options.path_argument("RUN_OR_FILES", "One run folder, or model files.")],
    output: Annotated[Path, options.file("The model file to write.")],
    last: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Average the N newest checkpoints of the run.")
    ] = None,
    best: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Average the N checkpoints with the best validation score.")
    ] = None,
    select: Annotated[
        bool, typer.Option("--select", help="Try several averages, and write the one with the highest BLEU.")
    ] = False,
    device: Annotated[
        str, typer.Option(metavar="DEVICE", help="With --select: cpu, cuda, cuda:N, mps, or auto.")
    ] = "auto",
) -> None:
    """Average the newest or the best checkpoints of a run, or the given model files.

    With --select, the candidates are the averages of the newest and of the best 1, 3, 5, 10 and 20 checkpoints, and the
    exponential moving average (EMA) of the weights, if the run has them. Each candidate translates the validation set
    of the run. The command prints the scores, and writes the candidate with the highest BLEU.

    Example: nmt average-checkpoints runs/demo --last 5 --output averaged.safetensors
    """
    from nmt.commands import average

    if table := average.write(sources, output, last, best, select, device):
        text.result(table)
    text.result(output)


@terminal.reporting()
def calibrate(
    model: options.ModelOrRun,
    source: Annotated[Path, options.file("Text to translate, one sentence per line, at least 200 lines.")],
    reference: Annotated[Path, options.file("Human translation of the text, line by line.")],
    overrides: options.DecodingOverrides = None,
    to: options.To = None,
    from_: options.From = None,
    device: options.Device = "auto",
) -> None:
    """Calibrate the confidence of a model with a text, and write the calibration into the model file.

    The confidence of a translation is its expected chrF, from 0 to 100. Training calibrates it with the validation
    text. Use this command for imported and averaged models, and to calibrate with text from the domain that you
    translate.

    Example: nmt calibrate runs/demo --source data/demo/test.en --reference data/demo/test.de
    """
    from nmt.commands import calibrate as calibration

    calibration.calibrate(model, source, reference, overrides or (), device, to, from_)


@terminal.reporting()
def shortlist(
    model: options.ModelOrRun,
    source: Annotated[Path | None, options.file("Text in the source language, instead of the training text.")] = None,
    target: Annotated[Path | None, options.file("Its translation, line by line.")] = None,
) -> None:
    """Learn which target subwords translate each source subword, and store this shortlist in the model file.

    The shortlist makes translation faster: CTranslate2 and Bergamot then compute the probabilities of some thousand
    subwords instead of the whole vocabulary. At most 200,000 pairs are used, from all parts of the text.

    Example: nmt shortlist runs/student
    """
    from nmt.commands import shortlist as shortlists

    text.result(shortlists.write(model, source, target))
