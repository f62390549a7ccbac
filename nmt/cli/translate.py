"""`nmt translate` and `nmt score`."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.cli import options, terminal
from nmt.distributed.environment import terminate_with_launcher
from nmt.errors import NmtError, NotAModelFile, no_such_file
from nmt.files.text import to_path
from nmt.teachers.endpoint import is_endpoint


@terminal.reporting()
def translate(
    model: options.ModelOrEndpoint,
    input: Annotated[
        str | None,
        typer.Argument(
            metavar="INPUT",
            help="File with one sentence per line, or a document: .srt, .vtt, .po, .pot, .xliff, .xlf, .json, .arb, "
            ".html, .htm, .docx. Default, or -: standard input.",
        ),
    ] = None,
    overrides: options.DecodingOverrides = None,
    output: options.Output = None,
    to: options.To = None,
    from_: options.From = None,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Write up to N different translations of each line, with scores, best first.",
        ),
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Write the score before each translation.")] = False,
    format: Annotated[
        Literal["text", "json", "tsv"],
        typer.Option(help="json: all fields of each line; tsv: a table with confidences."),
    ] = "text",
    order: Annotated[
        Literal["input", "confidence"], typer.Option(help="confidence: a table, lowest confidence first.")
    ] = "input",
    markup: Annotated[
        Literal["html", "xml"] | None,
        typer.Option(help="Lines contain tags, which are placed around the corresponding words of the translation."),
    ] = None,
    only_missing: Annotated[
        bool,
        typer.Option(
            "--only-missing/--retranslate",
            help="In PO, XLIFF, JSON and ARB files: translate only texts without a translation, or all texts.",
        ),
    ] = True,
    review_below: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=100, help="In PO and XLIFF: mark units with a confidence below N by a note."
        ),
    ] = 0,
    ensemble: options.Ensemble = None,
    glossary: options.Glossary = None,
    prefixes: Annotated[
        Path | None, options.file("File whose line N is the beginning of the translation of line N.")
    ] = None,
    line_by_line: Annotated[
        bool, typer.Option("--line-by-line", help="Translate each line as soon as it is read.")
    ] = False,
    nproc_per_node: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of processes, each with its own GPU or a share of the cores. Needs INPUT and --output.",
        ),
    ] = None,
    device: options.Device = "auto",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="With an LLM endpoint: show the first requests, and estimate tokens and cost."),
    ] = False,
) -> None:
    """Translate a file or standard input, one sentence per line: the output has as many lines as the input.

    With --scores, a line is `score TAB translation`; with --n-best, it is `line number TAB score TAB translation`. The
    score is the log-probability divided by the length penalty. With --format tsv, a line is `line number TAB confidence
    TAB source TAB translation`. The confidence is the expected chrF, from 0 to 100, if the model has a calibration (see
    nmt calibrate). With --format json, a line is an object with `line` (its number) and `translations`: each has text,
    score, log_probability, confidence, pieces (the subwords), token_scores, and alignment (the attention of each piece
    to each of source_pieces).

    With INPUT and --output FILE, run an interrupted command again to resume.

    Example: echo 'Three hundred and forty-two.' | nmt translate runs/demo decoding.beam_size=8
    """
    terminate_with_launcher()
    from nmt.commands import output_format, translation_job

    if input is not None and options.is_setting(input):  # no INPUT is given
        overrides, input = [input, *(overrides or ())], None
    source = None if input in (None, "-") else to_path(str(input))
    if source is not None and not os.path.lexists(source):
        options.check_not_a_setting(source)
        raise NmtError(f"{no_such_file(source)}: INPUT is a file; to translate text: echo 'TEXT' | nmt translate MODEL")
    table = order if format == "tsv" or order == "confidence" else None
    if markup is not None and (n_best is not None or scores or format != "text" or table or prefixes is not None):
        raise typer.BadParameter(
            "--markup writes only the best translation: leave out --n-best, --scores, --prefixes, --format and --order"
        )
    if table and (n_best is not None or scores or format == "json"):
        raise typer.BadParameter("a table has one translation: leave out --n-best, --scores and --format json")
    request = translation_job.TranslationJob(
        model=model,
        source=source,
        output=output,
        format=output_format.OutputFormat(n_best, scores, format == "json", table, markup),
        to=to,
        from_=from_,
        overrides=options.decoding_overrides(overrides, beam_size, length_penalty),
        ensemble=ensemble or (),
        glossary=glossary,
        prefixes=prefixes,
        line_by_line=line_by_line,
        processes=nproc_per_node,
        only_missing=only_missing,
        review_below=review_below,
        device=device,
        dry_run=dry_run,
    )
    if nproc_per_node is not None and not request.from_file_to_file:
        raise typer.BadParameter("--nproc-per-node needs the files INPUT and --output FILE, without --line-by-line")
    if is_endpoint(model):
        from nmt.commands import endpoint_job

        endpoint_job.translate(request)
        return
    from nmt.commands import translate as translation

    try:
        status = translation.translate(request)
    except NotAModelFile as error:
        if source is None or error.path != model:
            raise
        raise NmtError(f"{error}; MODEL comes first: nmt translate MODEL INPUT") from None
    if status:
        raise typer.Exit(status)


@terminal.reporting()
def score(
    model: options.ModelFile,
    source: Annotated[Path, options.file("Source text, one sentence per line.")],
    target: Annotated[Path, options.file("Its translation, line by line.")],
    output: options.Output = None,
    to: options.To = None,
    from_: options.From = None,
    format: Annotated[
        Literal["text", "json"], typer.Option(help="json: one object per line, with token scores.")
    ] = "text",
    ensemble: options.Ensemble = None,
    length_penalty: options.LengthPenalty = None,
    device: options.Device = "auto",
    overrides: options.DecodingOverrides = None,
) -> None:
    """Score given translations with the model's probability, to filter pairs and to rank candidates.

    Each line is `score TAB log-probability TAB log-probability per subword`. The score is the log-probability divided
    by the length penalty, as in a search with these settings. A pair that is too long for the model has `nan` in each
    column; the number of such pairs is reported at the end.

    Example: nmt score runs/demo --source data/demo/test.en --target data/demo/test.de
    """
    from nmt.commands import score as scoring

    overrides = options.decoding_overrides(overrides, None, length_penalty)
    scoring.score(model, source, target, output, format, ensemble or (), overrides, device, to, from_)
