"""The commands: parse, call, print. Everything heavy is imported inside a command.

Results go to standard output, everything else to standard error. Exit status: 0, 1 for an error the
user can mend, 2 for usage, 130 when interrupted.
"""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from nmt import __version__
from nmt.errors import NmtError

log = logging.getLogger("nmt")

app = typer.Typer(
    help="Train machine-translation models: parallel text and one YAML file in, a translator and its BLEU out.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: Rich alone would take longer to import than the rest
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML file of settings (configs/README.md).")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings that override the file's; values are YAML."),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps, or auto: the best one here.")]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file, or a run's folder: its best model, else its newest.")
]
BeamSize = Annotated[int | None, typer.Option(min=1, help="Override the model's decoding.beam_size.")]
LengthPenalty = Annotated[float | None, typer.Option(min=0, help="Override the model's decoding.length_penalty.")]


@contextmanager
def _reporting() -> Iterator[None]:
    """Turn what the user can mend into one message and exit status 1; an interruption into 130."""
    handler = _StandardError()
    handler.setFormatter(_Plain())
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        yield
    except NmtError as error:
        log.error("%s", error)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:  # the reader of our output has what it wanted, as in `nmt translate … | head`
        sys.stdout = None  # type: ignore[assignment]  # or Python complains once more while closing it
        raise typer.Exit(0) from None


class _StandardError(logging.Handler):
    """Writes above a progress bar rather than through it."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        from tqdm import tqdm

        tqdm.write(self.format(record), file=sys.stderr)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        prefix = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return prefix + record.getMessage()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nmt {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass


@app.command()
@_reporting()
def train(config: ConfigFile, overrides: Overrides = None, device: Device = "auto") -> None:
    """Build what is missing (vocabulary, token store), then train; run again, it resumes.

    Example: nmt train configs/demo.yaml training.max_steps=200
    """
    import nmt.config
    from nmt import checkpoint, training_run

    settings = nmt.config.load(config, overrides or ())
    run = Path(settings.run_dir)
    with _log_file(run / "train.log"):
        stop = training_run.train(settings, device)
    if stop.interrupted:
        raise typer.Exit(130)
    if not stop.signal:
        typer.echo(checkpoint.locate(run))


@app.command()
@_reporting()
def prepare(config: ConfigFile, overrides: Overrides = None) -> None:
    """Build vocabulary and token store only, and report on the data.

    Example: nmt prepare configs/demo.yaml
    """
    import nmt.config
    from nmt.data import preparation

    typer.echo(preparation.prepare(nmt.config.load(config, overrides or ())).report)


@app.command()
@_reporting()
def translate(
    model: ModelFile,
    input: Annotated[Path | None, typer.Argument(metavar="[INPUT]", help="Text, a sentence a line; else stdin.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write here, whole or not at all; else to stdout.")] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    n_best: Annotated[int, typer.Option(min=1, help="Translations of each line: `line number, score, text`.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Write `score, text` for each line.")] = False,
    device: Device = "auto",
) -> None:
    """Translate a file or standard input, one sentence a line: as many lines out as in.

    With --n-best or --scores the columns are separated by tabs.

    Example: echo 'three hundred and forty-two' | nmt translate runs/demo
    """


@app.command("average-checkpoints")
@_reporting()
def average_checkpoints(
    sources: Annotated[list[Path], typer.Argument(metavar="RUN_OR_FILES...", help="A run's folder, or model files.")],
    output: Annotated[Path, typer.Option(help="The model file to write.")],
    last: Annotated[int | None, typer.Option(min=1, help="Of a run: the newest so many.")] = None,
    best: Annotated[int | None, typer.Option(min=1, help="Of a run: the so many that validated best.")] = None,
) -> None:
    """Write the mean of checkpoints: a run's last or best ones, or the files named.

    Example: nmt average-checkpoints runs/demo --last 5 --output averaged.safetensors
    """
    from nmt import averaging, checkpoint

    folders = [path for path in sources if path.is_dir()]
    if folders and (len(sources) > 1 or (last is None) == (best is None)):
        raise NmtError(f"{folders[0]}: for a run's folder, alone, give one of --last N and --best N")
    if not folders and (last or best):
        raise NmtError(f"--{'last' if last else 'best'} chooses from a run's folder, and {sources[0]} is not a folder")
    paths = averaging.of_run(sources[0], last=last, best=best) if folders else sources
    mean = averaging.average(paths)
    checkpoint.save(output, mean)
    log.info("mean of %d: %s", len(paths), ", ".join(path.name for path in paths))
    typer.echo(output)


@contextmanager
def _log_file(path: Path) -> Iterator[None]:
    """Keep everything that is logged, the debugging lines too, in a file beside what is shown."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise NmtError(f"{path}: cannot be written: {error.strerror}: choose another run_dir") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


def main() -> None:
    """The console script."""
    app()
