"""The commands: parse, call, print. Everything heavy is imported inside a command.

Results go to standard output, everything else to standard error. Exit status: 0, 1 for an error the
user can mend, 2 for usage, 130 when interrupted.
"""

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nmt import __version__
from nmt.cli import terminal
from nmt.distributed.environment import end_with_the_launcher, launched, rank
from nmt.errors import NmtError, no_such_file
from nmt.files import outputs
from nmt.files import text as text_out

if TYPE_CHECKING:
    from nmt.decoding.translator import Translator

log = logging.getLogger("nmt")

app = terminal.application(
    "Train machine-translation models: parallel text and one YAML file in, a translator and its BLEU out."
)


def _none_for_a_dash(file: Path | None) -> Path | None:
    return None if str(file) == "-" else file


ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML file of settings (configs/README.md).")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="SECTION.KEY=VALUE", help="Settings that override the file's; values are YAML."),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps, or auto: the best one here.")]
UnusedDevice = Annotated[str, typer.Option(help="Taken as by every command; this one works on the CPU.")]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file, run's folder (its best or newest), or CTranslate2 folder.")
]
DecodingOverrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="DECODING.KEY=VALUE", help="Settings that override the model's (configs/README.md)."),
]
BeamSize = Annotated[int | None, typer.Option(min=1, help="Override the model's decoding.beam_size.")]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(metavar="MODEL", help="Another model of the same vocabulary, to translate together; any number."),
]
Output = Annotated[
    Path | None,
    typer.Option(callback=_none_for_a_dash, help="Write here, whole or not at all; none or -: standard output."),
]
LengthPenalty = Annotated[float | None, typer.Option(min=0, help="Override the model's decoding.length_penalty.")]


def _version(wanted: bool) -> None:
    if wanted:
        with terminal.reporting():
            text_out.result(f"nmt {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass


@app.command(short_help="Build what is missing, then train or resume.")
@terminal.reporting(rank_of_a_job=True)
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
    import nmt.config.schema

    end_with_the_launcher()
    if launched() and nproc_per_node is not None:
        raise NmtError(
            f"--nproc-per-node {nproc_per_node}: RANK and WORLD_SIZE say that a launcher has started this process as "
            f"rank {rank()} of {os.environ['WORLD_SIZE']}: leave the option out, or unset them"
        )
    settings = nmt.config.schema.load(config, overrides or ())
    run = Path(settings.run_dir)
    if not rank():
        terminal.keep_log(run / "train.log")
    if nproc_per_node is not None:
        from nmt.distributed import launch

        arguments = ["train", str(config), *(overrides or ()), "--device", device, *(["--profile"] * profile)]
        raise typer.Exit(launch.launch(arguments, nproc_per_node, max_restarts))

    from nmt.checkpoints import model_file
    from nmt.commands import train as training_run

    stop = training_run.train(settings, device, profile=profile)
    if stop.interrupted:
        raise typer.Exit(130)
    if not stop.agreed and not rank():
        try:
            text_out.result(model_file.locate(run))
        except (NmtError, text_out.ReaderGone) as error:  # the model is there all the same
            log.debug("nobody reads standard output: %s", error)


@app.command(short_help="Build vocabulary and token store; report.")
@terminal.reporting()
def prepare(config: ConfigFile, overrides: Overrides = None, device: UnusedDevice = "auto") -> None:
    """Build vocabulary and token store only, and report on the data.

    Example: nmt prepare configs/demo.yaml
    """
    import nmt.config.schema
    from nmt.data import prepare as preparation

    text_out.result(preparation.prepare(nmt.config.schema.load(config, overrides or ())).report)


@app.command(short_help="Translate a file or standard input.")
@terminal.reporting()
def translate(
    model: ModelFile,
    input: Annotated[
        str | None, typer.Argument(metavar="INPUT", help="A sentence a line; none or -: standard input.")
    ] = None,
    overrides: DecodingOverrides = None,
    output: Output = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="So many translations of each line, with scores.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Put the score before each translation.")] = False,
    format: Annotated[
        Literal["text", "json"], typer.Option(help="json: an object a line, with all there is.")
    ] = "text",
    ensemble: Ensemble = None,
    glossary: Annotated[
        Path | None, typer.Option(help="Lines of `source term TAB target term`: what is to be called what.")
    ] = None,
    prefixes: Annotated[Path | None, typer.Option(help="For each line, what its translation begins with.")] = None,
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
    With --format json it is an object: the line's number and translations, each with its text, score,
    log_probability, pieces, token_scores, and alignment: how much each piece looks at each of source_pieces.
    From a file to --output FILE, a command that was interrupted goes on when it is run again.

    Example: echo 'Three hundred and forty-two.' | nmt translate runs/demo decoding.beam_size=8
    """
    end_with_the_launcher()
    from nmt.commands import output_format
    from nmt.decoding import chunks
    from nmt.decoding.translator import files_of
    from nmt.files.text import read_lines

    if input is not None and _is_setting(input):  # and no INPUT
        overrides, input = [input, *(overrides or ())], None
    source = None if input in (None, "-") else _text_file(str(input))
    overrides, form = (
        _overrides(overrides, beam_size, length_penalty),
        output_format.Form(n_best, scores, format == "json"),
    )
    load = partial(_translator, model, overrides=overrides, ensemble=ensemble or (), glossary=glossary)
    read_again = [path for path in (source, glossary, prefixes) if path is not None]
    to_a_file = output is not None and not outputs.is_special(output)
    in_chunks = source is not None and to_a_file and not line_by_line and not any(map(outputs.is_special, read_again))
    if nproc_per_node is not None and not in_chunks:
        raise typer.BadParameter("--nproc-per-node needs INPUT and --output FILE, both files, and no --line-by-line")
    if in_chunks:
        from nmt.commands import translate_file

        assert source is not None and output is not None
        said = {"overrides": overrides, "form": asdict(form)}
        job = translate_file.job(model, source, output, said, nproc_per_node or 1, ensemble or (), glossary, prefixes)
        if status := translate_file.translate(job, load, form.rows, device, nproc_per_node):
            raise typer.Exit(status)
        return
    read = [*files_of(model, *(ensemble or ())), *read_again]
    if output is not None:
        outputs.check_output(output, read)  # before the work of loading
    translator = load(device)
    with text_out.lines_in(source) as (text, interactive), text_out.lines_out(output, read) as write:
        chunk = 1 if interactive or line_by_line else chunks.CHUNK_LINES
        for row in form.rows(translator, text, chunk, prefixes=None if prefixes is None else read_lines(prefixes)):
            write(row)
    chunks.say_counts(translator.counts, translator.longest_source)


@app.command(short_help="How probable given translations are.")
@terminal.reporting()
def score(
    model: ModelFile,
    source: Annotated[Path, typer.Option(help="A sentence a line.")],
    target: Annotated[Path, typer.Option(help="Its translation, line by line.")],
    output: Output = None,
    format: Annotated[
        Literal["text", "json"], typer.Option(help="json: an object a line, with token scores.")
    ] = "text",
    ensemble: Ensemble = None,
    length_penalty: LengthPenalty = None,
    device: Device = "auto",
    overrides: DecodingOverrides = None,
) -> None:
    """How probable the model finds given translations, for filtering pairs and ranking candidates.

    A line is `score TAB log-probability TAB log-probability per subword`; the score is the log-probability over the
    length penalty, as a search with these settings would have given it. A pair that is too long for the model gets
    `nan` in each column; how many there are is said at the end.

    Example: nmt score runs/demo --source data/demo/test.en --target data/demo/test.de
    """
    from nmt.commands import output_format
    from nmt.decoding.translator import files_of

    read = [*files_of(model, *(ensemble or ())), source, target]
    if output is not None:
        outputs.check_output(output, read)  # before the work of loading
    translator = _translator(model, device, _overrides(overrides, None, length_penalty), ensemble or ())
    with text_out.lines_out(output, read) as write:
        for number, pairs in output_format.pairs(source, target):
            for place, translation in enumerate(translator.score(*pairs), start=number):
                write(output_format.scored(place, translation, format))
    if skipped := translator.counts.skipped:
        log.warning("%s of %s pairs are too long for the model: nan", f"{skipped:,}", f"{translator.counts.lines:,}")


@app.command(short_help="Score, and compare, models or files.")
@terminal.reporting()
def evaluate(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL|DECODING.KEY=VALUE",
            help="Model files, runs' folders, exported folders; settings that override theirs (configs/README.md).",
        ),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Text to translate; without a model, for --details and --comet.")
    ] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(help="Its right translation; again for each further one.")
    ] = None,
    hypothesis: Annotated[
        list[Path] | None, typer.Option(help="Score this file of translations too, or alone; again for each.")
    ] = None,
    test_set: Annotated[
        str | None, typer.Option(help="For --source and --reference: a test set of sacreBLEU's, such as wmt14.")
    ] = None,
    language_pair: Annotated[str | None, typer.Option(help="Of the test set, such as en-de.")] = None,
    output: Annotated[
        list[Path] | None, typer.Option(help="Keep the model's translations here; again for each further model.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Target language, for BLEU's tokeniser; else the model's or the test set's.")
    ] = None,
    tokenize: Annotated[
        str | None, typer.Option(help="BLEU's tokeniser, by sacreBLEU's name; none: text that is tokenised already.")
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="By length, by word frequency; the worst and most changed sentences.")
    ] = False,
    training_text: Annotated[
        list[Path] | None, typer.Option(help="With the details: count words here, not in the reference.")
    ] = None,
    sentences: Annotated[int, typer.Option(min=0, help="With the details: so many sentences of each kind.")] = 5,
    comet: Annotated[str | None, typer.Option(metavar="MODEL", help="Score by this COMET model too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON rather than tables.")] = False,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    device: Device = "auto",
) -> None:
    """Score translations, of models or in files: BLEU, chrF and TER, each with its 95% interval and signature.

    Several systems, models first, are compared with the first one: a p-value says whether chance explains a difference.

    Example: nmt evaluate runs/demo --source data/demo/test.en --reference data/demo/test.de
    """
    from nmt.commands import evaluate as evaluation_run
    from nmt.config.schema import meant_for_decoding
    from nmt.evaluation import report
    from nmt.files.text import lines_out

    given = list(filter(_is_setting, models or ()))
    paths = [Path(one) for one in models or () if one not in given]
    if misplaced := next((path for path in paths if meant_for_decoding(str(path)) and not path.exists()), None):
        raise NmtError(f"{no_such_file(misplaced)}: did you mean {meant_for_decoding(str(misplaced))}?")
    if (test_set is None) == (not reference) or (test_set is None) != (language_pair is None):
        raise typer.BadParameter("give at least one --reference FILE, or --test-set NAME with --language-pair")
    if test_set is not None and source is not None:
        raise typer.BadParameter("--test-set brings the source: leave --source out")
    if not (paths or hypothesis) or (paths and source is None and test_set is None):
        raise typer.BadParameter("give MODEL and --source FILE, or --hypothesis FILE, or both")
    overrides = _overrides(given, beam_size, length_penalty)
    if not paths and (output or overrides):
        raise typer.BadParameter("--output and decoding settings are for translating: give MODEL")
    if output and len(output) != len(paths):
        raise typer.BadParameter(f"{len(paths)} models and {len(output)} --output: give one for each, or none")
    with lines_out(None) as write:
        scores, found = evaluation_run.evaluate(
            evaluation_run.Request(
                models=paths,
                overrides=overrides,
                hypotheses=hypothesis or (),
                source=source,
                references=reference or (),
                test_set=test_set,
                language_pair=language_pair,
                language=language,
                tokenizer=tokenize,
                outputs=output or (),
                details=details,
                training_texts=training_text or (),
                sentences=sentences,
                comet=comet,
                device=device,
            )
        )
        write(report.to_json(scores, found) if as_json else report.to_text(scores, found))


@app.command("average-checkpoints", short_help="Write the mean of checkpoints.")
@terminal.reporting()
def average_checkpoints(
    sources: Annotated[list[Path], typer.Argument(metavar="RUN_OR_FILES", help="A run's folder, or model files.")],
    output: Annotated[Path, typer.Option(help="The model file to write.")],
    last: Annotated[int | None, typer.Option(min=1, help="Of a run: the newest so many.")] = None,
    best: Annotated[int | None, typer.Option(min=1, help="Of a run: the so many that validated best.")] = None,
    select: Annotated[
        bool, typer.Option("--select", help="Of a run: those of the highest BLEU on its validation set.")
    ] = False,
    device: Annotated[str, typer.Option(help="With --select: cpu, cuda, cuda:N, mps, or auto.")] = "auto",
) -> None:
    """Write the mean of checkpoints: a run's last or best ones, or the files named.

    With --select the last and the best 1, 3, 5, 10 and 20 and the weights' moving average, as far as the run has them,
    each translate the run's validation set; what each scored is printed, and the winner written.

    Example: nmt average-checkpoints runs/demo --last 5 --output averaged.safetensors
    """
    from nmt.checkpoints import averaging, model_file
    from nmt.files.outputs import check_output, is_special

    sources = [model_file.run_folder(path) for path in sources]
    folders = [path for path in sources if path.is_dir()]
    if folders and (len(sources) > 1 or sum([last is not None, best is not None, select]) != 1):
        raise NmtError(f"{folders[0]}: for a run's folder, alone, give one of --last N and --best N, or --select")
    if not folders and (last or best or select):
        option = "select" if select else "last" if last else "best"
        what = "is not a folder" if sources[0].exists() else "does not exist"
        raise NmtError(f"--{option} chooses from a run's folder, and {sources[0]} {what}")
    if output.is_dir():
        raise NmtError(f"{output}: a folder: name the model file to write")
    if str(output) == "-":
        raise NmtError("--output -: a model is not for standard output: name the file to write")
    if is_special(output):
        raise NmtError(f"{output}: a device or a pipe: name the model file to write")
    check_output(output, model_file.checkpoints(sources[0]) if folders else sources)
    if select:
        from nmt.commands import average

        winner, tried = average.select(sources[0], device)
        model_file.save(output, winner)
        text_out.result(average.to_text(tried, winner.provenance["selected"]))
        text_out.result(output)
        return
    paths = averaging.of_run(sources[0], last=last, best=best) if folders else sources
    mean = averaging.average(paths)
    model_file.save(output, mean)
    log.info("mean of %d: %s", len(paths), ", ".join(path.name for path in paths))
    text_out.result(output)


@app.command(short_help="Translate over HTTP, with a page to type into.")
@terminal.reporting()
def serve(
    model: ModelFile,
    overrides: DecodingOverrides = None,
    host: Annotated[str, typer.Option(help="Listen here; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8000,
    max_lines: Annotated[int, typer.Option(min=1, help="Most lines of a request; more get 413.")] = 256,
    max_characters: Annotated[int, typer.Option(min=1, help="Most characters of a request; more get 413.")] = 20_000,
    max_waiting: Annotated[int, typer.Option(min=1, help="Most lines that wait; more get 429.")] = 1000,
    max_answer: Annotated[int, typer.Option(min=1, help="Most MiB of an answer; what could be more gets 413.")] = 32,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name that it is called by, as behind a proxy; any number."),
    ] = None,
    log_requests: Annotated[bool, typer.Option("--log-requests", help="A line on standard error for each.")] = False,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    device: Device = "auto",
) -> None:
    """Translate over HTTP: POST /translate, LibreTranslate's requests too, and a page to type into at /.

    Example: nmt serve runs/demo, then curl 127.0.0.1:8000/translate --json '{"text": "Three hundred and two."}'
    """
    try:
        from nmt.commands.serve import hosts, requests, server
    except ModuleNotFoundError as error:
        raise NmtError(f"serving needs the package {error.name}: pip install fastapi uvicorn") from None
    limits = requests.Limits(max_lines, max_characters, max_waiting, max_answer * 2**20)
    hosts.check_names(allowed_host or ())
    languages = server.languages_of(model)
    translator = _translator(model, device, _overrides(overrides, beam_size, length_penalty))
    server.serve(translator, languages, host, port, limits, log_requests, allowed_host or ())


@app.command(short_help="Export for CTranslate2 or transformers.")
@terminal.reporting()
def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, or a run's folder.")],
    format: Annotated[Literal["ctranslate2", "marian"], typer.Option(help="marian: Hugging Face MarianMTModel.")],
    output: Annotated[Path, typer.Option(help="The folder to write; not there yet, or empty.")],
    quantization: Annotated[str | None, typer.Option(help="With ctranslate2: float32, float16, int8, ….")] = None,
    sample: Annotated[Path | None, typer.Option(help="Text to compare on, a sentence a line.")] = None,
    device: UnusedDevice = "auto",
) -> None:
    """Write a folder that CTranslate2 or Hugging Face transformers loads, and compare it with the model.

    The comparison is printed, with each line that differs. A float32 folder that fails it is not kept. The other
    commands take a CTranslate2 folder as they take a model file.

    Example: nmt export runs/demo --format ctranslate2 --quantization int8 --output demo-int8
    """
    from nmt.commands.export import export as exporting
    from nmt.files.text import read_lines

    found = exporting.export(model, format, output, quantization, list(read_lines(sample)) if sample else None)
    text_out.result(found.parity)
    if not found.kept:
        raise NmtError(f"{output}: not kept: it does not translate as the model does")
    text_out.result(output)


@app.command(short_help="Look inside: attention, alignment, beam.")
@terminal.reporting()
def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, or a run's folder.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One sentence to translate.")],
    overrides: DecodingOverrides = None,
    target: Annotated[str | None, typer.Option(help="Look at this translation, rather than the search's.")] = None,
    output: Annotated[Path | None, typer.Option(help="A folder for a page, pictures and all numbers.")] = None,
    layer: Annotated[
        int | None, typer.Option(min=1, help="Whose heads have a picture each; else that of the alignment.")
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="PNG files beside the page; they need matplotlib.")
    ] = True,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    device: Device = "auto",
) -> None:
    """Look at how a sentence is translated: what words look at, what aligns with what, what the beam tries.

    Prints the translation, the alignment of words and what the search found. With --output DIR there are also
    DIR/index.html, to open in a browser (all heads, all layers, the whole beam, positions), heat maps as PNG
    files, and the numbers in DIR/inspection.json.

    Example: nmt inspect runs/demo 'Three hundred and forty-two.' --output inside
    """
    from nmt.commands.inspect import output_folder
    from nmt.commands.inspect import text as printing
    from nmt.commands.inspect.inspect import Inspector
    from nmt.files.outputs import check_new_folder
    from nmt.files.text import lines_out

    if target is not None and not target.strip():
        raise NmtError("--target is empty, as an unset shell variable is: give a translation, or leave the option out")
    if layer is not None and (output is None or not pictures):
        raise typer.BadParameter("--layer chooses whose heads have a picture each: give --output, and no --no-pictures")
    if output is not None:
        check_new_folder(output)
        output_folder.check_folder(output)
        if pictures:
            output_folder.check_pictures()
    for what, given in (("TEXT", text), ("--target", target or "")):
        try:
            given.encode()
        except UnicodeEncodeError:
            raise NmtError(f"{what}: not UTF-8: give text in UTF-8") from None
    with lines_out(None) as write:
        seen = Inspector.load(model, device, _overrides(overrides, beam_size, length_penalty)).inspect(text, target)
        write(printing.to_text(seen))
    if output is not None:
        output_folder.write(seen, output, None if layer is None else layer - 1, pictures=pictures)


@app.command(short_help="Write a page that shows how runs went.")
@terminal.reporting()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs, in training or not.")],
    output: Annotated[
        Path | None, typer.Option(callback=_none_for_a_dash, help="The HTML file to write; -: standard output.")
    ] = Path("report.html"),
    device: UnusedDevice = "auto",
) -> None:
    """Write one HTML file, to open from disk, that shows how runs went and compares them.

    Learning curves, scores, translations over time, settings, data, hardware. It holds all it needs and asks no
    network.

    Example: nmt report runs/demo runs/deeper --output report.html
    """
    from nmt.checkpoints import model_file
    from nmt.commands.report.page import page
    from nmt.commands.report.run import files_of, gather
    from nmt.files.outputs import check_output
    from nmt.files.text import lines_out

    runs = [model_file.run_folder(run) for run in runs]
    read = files_of(runs)
    if output is not None:
        check_output(output, read)
    whole = page(gather(runs))
    with lines_out(output, read) as write:
        write(whole)
    if output is not None:
        text_out.result(output)


def _is_setting(argument: str) -> bool:
    return re.match(r"[a-z]+\.[a-z_]+=", argument) is not None and not Path(argument).exists()


def _text_file(argument: str) -> Path:
    """INPUT. Raises NmtError where there is no such file, for a setting without its section, and for text."""
    from nmt.config.schema import meant_for_decoding

    path = Path(argument)
    if not os.path.lexists(path):
        meant = meant_for_decoding(argument)
        instead = f"did you mean {meant}?" if meant else "INPUT is a file; for text: echo 'TEXT' | nmt translate MODEL"
        raise NmtError(f"{no_such_file(path)}: {instead}")
    return path


def _overrides(given: Sequence[str] | None, beam_size: int | None, length_penalty: float | None) -> list[str]:
    """What of a model's decoding settings is overridden, by options or by arguments; the latter come last."""
    options = {"beam_size": beam_size, "length_penalty": length_penalty}
    return [*(f"decoding.{key}={value}" for key, value in options.items() if value is not None), *(given or ())]


def _translator(
    model: Path,
    device: str,
    overrides: Sequence[str] = (),
    ensemble: Sequence[Path] = (),
    glossary: Path | None = None,
) -> "Translator":
    from nmt.decoding.translator import Translator
    from nmt.device import keep_freed_memory

    keep_freed_memory()
    return Translator.load(model, device, ensemble, overrides, glossary)


def main() -> None:
    """The console script."""
    terminal.run(app)
