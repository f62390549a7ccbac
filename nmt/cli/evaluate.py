"""`nmt evaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nmt.cli import options, terminal
from nmt.cli.command import Command
from nmt.files.text import lines_out, to_path

if TYPE_CHECKING:
    from nmt.commands.evaluate import EvaluateRequest


class EvaluateCommand(Command):
    """Its usage shows models and settings separately, although they are one list of arguments."""

    def collect_usage_pieces(self, *_: object) -> list[str]:
        return ["[OPTIONS]", "[MODEL]...", "[DECODING.KEY=VALUE]..."]


@terminal.reporting()
def evaluate(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="Model files, run folders, exported folders, or YAML files of LLM endpoints; then settings that "
            "override those of the models, such as decoding.beam_size=8.",
        ),
    ] = None,
    source: Annotated[
        Path | None, options.file("Source text, one sentence per line. Needed for models, --details and --comet.")
    ] = None,
    references: Annotated[list[Path] | None, options.file("Reference translation; repeatable.", "--reference")] = None,
    hypotheses: Annotated[list[Path] | None, options.file("Translation to score; repeatable.", "--hypothesis")] = None,
    test_set: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Test set of sacreBLEU, such as wmt14, instead of --source and --reference."),
    ] = None,
    language_pair: Annotated[
        str | None, typer.Option(metavar="PAIR", help="Languages of --test-set, such as en-de.")
    ] = None,
    glossary: options.Glossary = None,
    outputs: Annotated[
        list[Path] | None,
        options.file(
            "File to write the translation to (with --glossary: the one with the glossary); one per model.", "--output"
        ),
    ] = None,
    to: options.To = None,
    from_: options.From = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE", help="Target language, for BLEU's tokenizer. Default: the model's or test set's."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenize", metavar="NAME", help="Tokenizer of sacreBLEU; none: the text is already tokenized."),
    ] = None,
    details: Annotated[
        bool,
        typer.Option(
            "--details", help="Also show scores by length and word frequency, example sentences, and confidence."
        ),
    ] = False,
    training_texts: Annotated[
        list[Path] | None,
        options.file(
            "Text in which --details counts word frequencies, instead of the reference; repeatable.", "--training-text"
        ),
    ] = None,
    sentences: Annotated[
        int, typer.Option(metavar="N", min=0, help="Number of example sentences of each kind in --details.")
    ] = 5,
    robustness: Annotated[
        bool,
        typer.Option("--robustness", help="Also test models on varied text: capitals, typos, emoji, URLs, and so on."),
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Compare texts without normalization (NFC, no invisible characters).")
    ] = False,
    comet: Annotated[str | None, typer.Option(metavar="MODEL", help="Also score with this COMET model.")] = None,
    comet_command: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="Path of comet-score, or a command that runs it. Default: comet-score in PATH."
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show one table with a row per system: size, speed, BLEU, chrF, COMET.")
    ] = False,
    format: Annotated[Literal["text", "json"], typer.Option(help="text: tables; json: all numbers.")] = "text",
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    device: options.Device = "auto",
) -> None:
    """Score translations by models, or files of translations, with BLEU, chrF and TER. Each score has a 95% confidence
    interval and a signature.

    If there are several systems, each is compared with the first one; models come before --hypothesis files. A p-value
    shows whether a difference could be due to chance. With --glossary, each model is scored without and with it.

    Example: nmt evaluate runs/demo --source data/demo/test.en --reference data/demo/test.de
    """
    from nmt.commands import evaluate as evaluation
    from nmt.evaluation.output import to_json, to_text

    settings = list(filter(options.is_setting, models or ()))
    request = evaluation.EvaluateRequest(
        models=[to_path(argument) for argument in models or () if argument not in settings],
        overrides=options.decoding_overrides(settings, beam_size, length_penalty),
        hypotheses=hypotheses or (),
        source=source,
        references=references or (),
        test_set=test_set,
        language_pair=language_pair,
        to=to,
        from_=from_,
        language=language,
        tokenizer=tokenizer,
        glossary=glossary,
        outputs=outputs or (),
        details=details,
        training_texts=training_texts or (),
        sentences=sentences,
        robustness=robustness,
        raw=raw,
        comet=comet,
        comet_command=comet_command or evaluation.EvaluateRequest.comet_command,
        device=device,
    )
    _check_usage(request)
    if comet_command and comet is None:
        raise typer.BadParameter("--comet-command needs --comet MODEL: give both")
    with lines_out(None) as write:
        result = evaluation.evaluate(request)
        write(to_json(result) if format == "json" else to_text(result, compare=compare))


def _check_usage(request: "EvaluateRequest") -> None:
    """Raise BadParameter for options that cannot be combined, and NmtError for a model that may be a setting."""
    for model in request.models:
        if not model.exists():
            options.check_not_a_setting(model)
    has_test_set, has_source = request.test_set is not None, request.source is not None or request.test_set is not None
    if has_test_set and request.references:
        raise typer.BadParameter("--test-set has its own references: leave out --reference, or --test-set")
    if not (has_test_set or request.references) or has_test_set != (request.language_pair is not None):
        raise typer.BadParameter("give at least one --reference FILE, or --test-set NAME with --language-pair")
    if has_test_set and request.source is not None:
        raise typer.BadParameter("--test-set has its own source: leave --source out")
    if not (request.models or request.hypotheses) or (request.models and not has_source):
        raise typer.BadParameter("give MODEL and --source FILE, or --hypothesis FILE, or both")
    if not request.models and (request.outputs or request.overrides or request.to or request.from_):
        raise typer.BadParameter("--output, --to, --from and decoding settings are for translating: give MODEL")
    if request.glossary is not None and not request.models:
        raise typer.BadParameter("--glossary is for translating: give MODEL")
    if request.glossary is not None and request.robustness:
        raise typer.BadParameter("--robustness is measured without a glossary: leave out --glossary, or --robustness")
    if request.robustness and not request.models:
        raise typer.BadParameter("--robustness translates variations of the source: give MODEL")
    if request.outputs and len(request.outputs) != len(request.models):
        raise typer.BadParameter(
            f"number of models: {len(request.models)}, of --output: {len(request.outputs)}: give one for each, or none"
        )
