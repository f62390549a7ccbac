"""The commands: parse, call, print. Everything heavy is imported inside a command.

Results go to standard output, everything else to standard error. Exit status: 0, 1 for an error the
user can mend, 2 for usage, 130 when interrupted.
"""

import dataclasses
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import __version__
from nmt.errors import NmtError

if TYPE_CHECKING:
    from nmt.decoding.translator import Translator

log = logging.getLogger("nmt")

_FIRST_RANKS_TURN = 3.0  # seconds

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
    model: ModelFile,
    input: Annotated[
        Path | None, typer.Argument(metavar="INPUT", help="A sentence a line; none or -: standard input.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write here, whole or not at all; else to stdout.")] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="So many translations of each line, with scores.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Put the score before each translation.")] = False,
    line_by_line: Annotated[
        bool, typer.Option("--line-by-line", help="Answer each line before the next is read, as at a terminal.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Translate a file or standard input, one sentence a line: as many lines out as in.

    With --scores a line is `score TAB translation`; with --n-best it is `line number TAB score
    TAB translation`, best first. A score is the log-probability over the length penalty.

    Example: echo 'Three hundred and forty-two.' | nmt translate runs/demo
    """
    translator = _translator(model, device, beam_size, length_penalty)
    with _lines_in(input) as (lines, interactive), _lines_out(output) as write:
        chunk = {"chunk_lines": 1} if interactive or line_by_line else {}
        if n_best is None and not scores:
            for text in translator.stream(lines, **chunk):
                write(text)
        else:
            for number, found in enumerate(translator.stream_hypotheses(lines, n_best or 1, **chunk), start=1):
                for translation in found:
                    place = f"{number}\t" if n_best is not None else ""
                    write(f"{place}{translation.score:.6f}\t{translation.text}")
    _say_counts(translator)


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
        _say_counts(translator)
        scored = evaluation.Lines(f"the translation of {source}", translations)
    scores = evaluation.evaluate(scored, references, language or "")
    typer.echo(evaluation.to_json(scores) if as_json else evaluation.to_text(scores))
    if output is not None:
        with _lines_out(output) as write:
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


def _translator(model: Path, device: str, beam_size: int | None, length_penalty: float | None) -> "Translator":
    from nmt.decoding.translator import Translator
    from nmt.device import keep_freed_memory

    keep_freed_memory()
    translator = Translator.load(model, device)
    if beam_size is not None:
        translator.decoding = dataclasses.replace(translator.decoding, beam_size=beam_size)
    if length_penalty is not None:
        translator.decoding = dataclasses.replace(translator.decoding, length_penalty=length_penalty)
    return translator


def _with_progress(lines: "Iterable[str]", total: int) -> list[str]:
    from tqdm import tqdm

    return list(tqdm(lines, "translating", total, unit=" lines", disable=None, leave=False))


def _say_counts(translator: "Translator") -> None:
    """Say which lines were not translated whole; nothing where all were."""
    counts, limit = translator.counts, translator.longest_source
    if counts.split:
        log.info(
            "%d of %d lines are longer than %d subwords: split into %d parts",
            *(counts.split, counts.lines, limit, counts.parts),
        )
    if counts.cut:
        log.warning("%d of %d lines are longer than %d subwords: cut", counts.cut, counts.lines, limit)
    if counts.skipped:
        log.warning("%d of %d lines are longer than %d subwords: left empty", counts.skipped, counts.lines, limit)


@contextmanager
def _lines_in(path: Path | None) -> "Iterator[tuple[Iterator[str], bool]]":
    """The lines of a file or of standard input (None or `-`), and whether someone types them."""
    from nmt.data.corpus import decoded_lines, read_lines

    if path is not None and str(path) != "-":
        yield read_lines(path), False
        return
    if sys.stdin is None:
        raise NmtError("standard input is closed: give INPUT, a file to translate")
    interactive = sys.stdin.isatty()
    if interactive:
        log.info("type a sentence and Enter; Ctrl-D ends")
    yield decoded_lines(sys.stdin.buffer, "standard input"), interactive


@contextmanager
def _lines_out(path: Path | None) -> "Iterator[Callable[[str], None]]":
    """A function that writes a line to a file, there once all are written, or to standard output at once."""
    if path is None:
        if sys.stdout is None:
            raise NmtError("standard output is closed: give --output, a file to write")

        def write(line: str) -> None:
            sys.stdout.buffer.write(line.encode() + b"\n")
            sys.stdout.buffer.flush()

        yield write
        return
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            yield lambda line: print(line, file=file)
        part.replace(path)
    except OSError as error:
        raise NmtError(f"{path}: cannot be written: {error.strerror}: choose another --output") from None
    finally:
        part.unlink(missing_ok=True)


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
