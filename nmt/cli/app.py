"""The program `nmt` with the commands in the files of this folder. Commands import large modules when they are called.

Results go to standard output, everything else to standard error. Exit status: 0; 1 for an error that the user can
fix; 2 for wrong usage; 130 when interrupted.
"""

from typing import Annotated

import typer

from nmt import __version__
from nmt.cli import evaluate, export, imports, info, init, inspect, schema, serve, settings, split, train, translate
from nmt.cli.command import Command
from nmt.cli.terminal import application, reporting, run
from nmt.files import text

app = application("Train machine translation models from parallel text and one YAML file.")


def _version(is_requested: bool) -> None:
    if is_requested:
        with reporting():
            text.result(f"nmt {__version__}")
        raise typer.Exit


_Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")]


@app.callback()
def root(version: _Version = False) -> None:
    pass


app.command(short_help="Write a config file to start from.", cls=init.InitCommand)(init.init)
app.command(short_help="Explain the settings.")(settings.settings)
app.command(short_help="Print a JSON Schema of the settings, for editors.")(schema.schema)
app.command(short_help="Split a corpus: training, validation, test.")(split.split)
app.command(short_help="Prepare the data, then train or resume.")(train.train)
app.command(short_help="Prepare the data and report on it.")(train.prepare)
app.command(short_help="Translate a file or standard input.")(translate.translate)
app.command(short_help="Score given translations with a model.")(translate.score)
app.command(short_help="Score and compare models or files.", cls=evaluate.EvaluateCommand)(evaluate.evaluate)
app.command(short_help="Calibrate the confidence of a model.")(train.calibrate)
app.command(short_help="Learn a shortlist: faster translation.")(train.shortlist)
app.command("average-checkpoints", short_help="Average checkpoints.")(train.average_checkpoints)
app.command(short_help="Translate over HTTP, with a web page.")(serve.serve)
app.command(short_help="Export for another program.")(export.export)
app.command("import", short_help="Import a pretrained model of another program.")(imports.import_)
app.command(short_help="Describe a model file.")(info.info)
app.command(short_help="Show attention, alignment, beam search.")(inspect.inspect)
app.command(short_help="Write an HTML report on training runs.")(inspect.report)

for command in app.registered_commands:
    command.cls = command.cls if issubclass(command.cls or object, Command) else Command


def main() -> None:
    """The console script."""
    run(app)
