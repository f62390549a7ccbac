"""`nmt average-checkpoints`."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import terminal
from nmt.cli.options import file_option, to_path
from nmt.files import text


@terminal.reporting()
def average_checkpoints(
    sources: Annotated[
        list[Path], typer.Argument(parser=to_path, metavar="RUN_OR_FILES", help="One run folder, or model files.")
    ],
    output: Annotated[Path, file_option("The model file to write.")],
    last: Annotated[int | None, typer.Option(min=1, help="Average the N newest checkpoints of the run.")] = None,
    best: Annotated[
        int | None, typer.Option(min=1, help="Average the N checkpoints with the best validation score.")
    ] = None,
    select: Annotated[
        bool, typer.Option("--select", help="Try several averages on the run's validation set and keep the best.")
    ] = False,
    device: Annotated[str, typer.Option(help="With --select: cpu, cuda, cuda:N, mps, or auto.")] = "auto",
) -> None:
    """Write the mean of checkpoints: a run's newest or best ones, or the files named.

    With --select the candidates are the averages of the newest and of the best 1, 3, 5, 10 and 20 checkpoints, as far
    as the run has them, and the moving average of the weights. Each translates the run's validation set; their scores
    are printed, and the one with the highest BLEU is written.

    Example: nmt average-checkpoints runs/demo --last 5 --output averaged.safetensors
    """
    from nmt.commands import average

    if table := average.write(sources, output, last, best, select, device):
        text.result(table)
    text.result(output)
