"""The commands: parse, call, print. Everything heavy is imported inside a command.

Results go to standard output, everything else to standard error. Exit status: 0, 1 for an error the
user can mend, 2 for usage, 130 when interrupted.
"""

import dataclasses
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt import __version__
from nmt.errors import NmtError

if TYPE_CHECKING:
    from nmt.decoding.translator import Translator

log = logging.getLogger("nmt")

_FIRST_RANKS_TURN = 3.0  # seconds
# Of a translation's parameters, those that do not change what is said, or are told from their contents.
_NOT_SAID = {"model", "input", "output", "device", "nproc_per_node", "line_by_line"}

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
    typer.Argument(metavar="SECTION.KEY=VALUE", help="Settings that override the file's; values are YAML."),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps, or auto: the best one here.")]
UnusedDevice = Annotated[str, typer.Option(help="Taken as by every command; this one works on the CPU.")]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file, or a run's folder: its best model, else its newest.")
]
BeamSize = Annotated[int | None, typer.Option(min=1, help="Override the model's decoding.beam_size.")]
LengthPenalty = Annotated[float | None, typer.Option(min=0, help="Override the model's decoding.length_penalty.")]


class LongInput(Enum):
    """What becomes of a line that is too long."""

    SPLIT = "split"
    CUT = "cut"
    SKIP = "skip"
    ERROR = "error"


@contextmanager
def _reporting() -> Iterator[None]:
    """Turn what the user can mend into one message and exit status 1; an interruption into 130."""
    shown = _StandardError()
    shown.setFormatter(_Plain())
    log.addHandler(shown)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        yield
    except NmtError as error:
        if _rank():  # most often all ranks meet the same: the first one says it, and the launcher ends the others
            time.sleep(_FIRST_RANKS_TURN)
        log.error("%s", error)
        raise typer.Exit(1) from None
    except BrokenPipeError:  # the reader of our output has what it wanted, as in `nmt translate … | head`
        sys.stdout = None  # or Python complains once more while closing it
        raise typer.Exit(0) from None
    except OSError as error:  # such as a disk that is full, under standard output too: nothing more goes there
        log.error("%s", error)
        sys.stdout = None
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        for handler in log.handlers:
            handler.close()
        log.handlers.clear()


class _StandardError(logging.Handler):
    """Writes above a progress bar rather than through it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR if _rank() else logging.INFO)  # the first rank speaks for the others

    def emit(self, record: logging.LogRecord) -> None:
        from tqdm import tqdm

        tqdm.write(self.format(record), file=sys.stderr)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        prefix = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return prefix + (f"rank {_rank()}: " if _rank() else "") + record.getMessage()


def _rank() -> int:
    """Which process of a job with several this is; 0 if it is the first, or alone."""
    return int(os.environ.get("RANK", 0)) if "WORLD_SIZE" in os.environ else 0


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nmt {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass


@app.command(short_help="Build what is missing, then train or resume.")
@_reporting()
def train(
    config: ConfigFile,
    overrides: Overrides = None,
    device: Device = "auto",
    nproc_per_node: Annotated[
        int | None, typer.Option(min=1, help="So many processes on this machine, each a rank with a device.")
    ] = None,
    max_restarts: Annotated[
        int, typer.Option(min=0, help="With --nproc-per-node: start again so often if a rank is killed.")
    ] = 3,
    profile: Annotated[
        bool, typer.Option("--profile", help="Time the phases of some steps, and trace some in RUN/profile.")
    ] = False,
) -> None:
    """Build what is missing (vocabulary, token store), then train; run again, it resumes.

    Example: nmt train configs/demo.yaml training.max_steps=200
    """
    import nmt.config

    settings = nmt.config.load(config, overrides or ())
    run = Path(settings.run_dir)
    if not _rank():
        _keep_log(run / "train.log")
    if nproc_per_node is not None and "WORLD_SIZE" not in os.environ:
        from nmt import launching

        arguments = ["train", str(config), *(overrides or ()), "--device", device, *(["--profile"] * profile)]
        raise typer.Exit(launching.launch(arguments, nproc_per_node, max_restarts))

    from nmt import checkpoint, training_run

    stop = training_run.train(settings, device, profile=profile)
    if stop.interrupted:
        raise typer.Exit(130)
    if not stop.agreed and not _rank():
        typer.echo(checkpoint.locate(run))


@app.command(short_help="Build vocabulary and token store; report.")
@_reporting()
def prepare(config: ConfigFile, overrides: Overrides = None, device: UnusedDevice = "auto") -> None:
    """Build vocabulary and token store only, and report on the data.

    Example: nmt prepare configs/demo.yaml
    """
    import nmt.config
    from nmt.data import preparation

    typer.echo(preparation.prepare(nmt.config.load(config, overrides or ())).report)


@app.command(short_help="Translate a file or standard input.")
@_reporting()
def translate(
    context: typer.Context,
    model: ModelFile,
    input: Annotated[
        Path | None, typer.Argument(metavar="INPUT", help="A sentence a line; none or -: standard input.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write here, whole or not at all; else to stdout.")] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    long_input: Annotated[LongInput | None, typer.Option(help="Override the model's decoding.long_input.")] = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="So many translations of each line, with scores.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Put the score before each translation.")] = False,
    line_by_line: Annotated[
        bool, typer.Option("--line-by-line", help="Answer each line before the next is read, as at a terminal.")
    ] = False,
    nproc_per_node: Annotated[
        int | None,
        typer.Option(min=1, help="From file to file: so many processes, each with a GPU or a share of cores."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Translate a file or standard input, one sentence a line: as many lines out as in.

    With --scores a line is `score TAB translation`; with --n-best it is `line number TAB score
    TAB translation`, best first. A score is the log-probability over the length penalty.
    From a file to --output FILE, a command that was interrupted goes on when it is run again.

    Example: echo 'Three hundred and forty-two.' | nmt translate runs/demo
    """
    is_file = input is not None and input.is_file()
    if nproc_per_node is not None and (not is_file or output is None or line_by_line):
        raise typer.BadParameter("--nproc-per-node needs INPUT and --output FILE, both files, and no --line-by-line")
    from nmt.decoding.lines import lines_in, lines_out, rows, say_counts
    from nmt.decoding.translator import CHUNK_LINES

    load = partial(_translator, model, beam_size=beam_size, length_penalty=length_penalty, long_input=long_input)
    if is_file and output is not None and not line_by_line:
        from nmt import checkpoint, file_translation
        from nmt.decoding.file_job import FileJob

        assert input is not None
        options = {name: str(value) for name, value in context.params.items() if name not in _NOT_SAID}
        job = FileJob.of([checkpoint.locate(model)], input, output, options, nproc_per_node or 1)
        if status := file_translation.translate(
            job, load, partial(rows, n_best=n_best, scores=scores), device, nproc_per_node
        ):
            raise typer.Exit(status)
        return
    translator = load(device)
    with lines_in(input) as (lines, interactive), lines_out(output) as write:
        for row in rows(translator, lines, n_best, scores, 1 if interactive or line_by_line else CHUNK_LINES):
            write(row)
    say_counts(translator.counts, translator.longest_source)


@app.command(short_help="Translate and score, or score a file.")
@_reporting()
def evaluate(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="Model file or run's folder; none with --hypothesis.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Text to translate.")] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(help="Its right translation; again for each further one.")
    ] = None,
    hypothesis: Annotated[Path | None, typer.Option(help="Score this file of translations, without a model.")] = None,
    output: Annotated[Path | None, typer.Option(help="Keep the model's translations here.")] = None,
    language: Annotated[
        str | None, typer.Option(help="Target language, for BLEU's tokeniser; with a model, the model's.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON rather than a table.")] = False,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    device: Device = "auto",
) -> None:
    """Translate and score: BLEU, chrF and TER, each with sacreBLEU's signature.

    Example: nmt evaluate runs/demo --source data/demo/test.en --reference data/demo/test.de
    """
    from nmt import checkpoint, evaluation
    from nmt.data.corpus import read_lines
    from nmt.decoding.lines import lines_out, say_counts

    if not reference:
        raise typer.BadParameter("give at least one --reference FILE")
    if (model is None) == (hypothesis is None) or (model is None) != (source is None):
        raise typer.BadParameter("give MODEL and --source FILE, or --hypothesis FILE alone")
    if model is None and (output or beam_size is not None or length_penalty is not None):
        raise typer.BadParameter("--output, --beam-size and --length-penalty are for translating: give MODEL")
    references = [evaluation.Lines(str(path), list(read_lines(path))) for path in reference]
    if hypothesis is not None:
        scored = evaluation.Lines(str(hypothesis), list(read_lines(hypothesis)))
    else:
        assert model is not None and source is not None
        sources = evaluation.Lines(str(source), list(read_lines(source)))
        evaluation.check_alike(sources, references)  # before the work of translating
        translator = _translator(model, device, beam_size, length_penalty)
        language = language or checkpoint.load_config(checkpoint.locate(model)).data.target_language
        translations = _with_progress(translator.stream(sources.lines), len(sources.lines))
        say_counts(translator.counts, translator.longest_source)
        scored = evaluation.Lines(f"the translation of {source}", translations)
    scores = evaluation.evaluate(scored, references, language or "")
    typer.echo(evaluation.to_json(scores) if as_json else evaluation.to_text(scores))
    if output is not None:
        with lines_out(output) as write:
            for text in scored.lines:
                write(text)


@app.command("average-checkpoints", short_help="Write the mean of checkpoints.")
@_reporting()
def average_checkpoints(
    sources: Annotated[list[Path], typer.Argument(metavar="RUN_OR_FILES", help="A run's folder, or model files.")],
    output: Annotated[Path, typer.Option(help="The model file to write.")],
    last: Annotated[int | None, typer.Option(min=1, help="Of a run: the newest so many.")] = None,
    best: Annotated[int | None, typer.Option(min=1, help="Of a run: the so many that validated best.")] = None,
    device: UnusedDevice = "auto",
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


def _translator(
    model: Path,
    device: str,
    beam_size: int | None = None,
    length_penalty: float | None = None,
    long_input: LongInput | None = None,
) -> "Translator":
    from nmt.decoding.translator import Translator
    from nmt.device import keep_freed_memory

    keep_freed_memory()
    translator = Translator.load(model, device)
    given = {"beam_size": beam_size, "length_penalty": length_penalty, "long_input": long_input and long_input.value}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    translator.decoding = dataclasses.replace(translator.decoding, **changes)
    return translator


def _with_progress(lines: "Iterable[str]", total: int) -> list[str]:
    from tqdm import tqdm

    return list(tqdm(lines, "translating", total, unit=" lines", disable=None, leave=False))


def _keep_log(path: Path) -> None:
    """Write everything that is logged to a file too, with the time, until the command ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise NmtError(f"{path}: cannot be written: {error.strerror}: choose another run_dir") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)


def main() -> None:
    """The console script."""
    app()
