"""Arguments and options that several commands share."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nmt.config.schema import setting_meant
from nmt.errors import NmtError, no_such_file
from nmt.files.text import to_path


def file_or_dash(text: str) -> Path | None:
    """The path as from `to_path`, or None for a dash, which means standard output."""
    return None if str(text) == "-" else to_path(text)


def file(help: str, *names: str, metavar: str = "FILE") -> Any:
    """An option that takes a path. names: of the option, if they differ from the parameter's name."""
    return typer.Option(*names, parser=to_path, metavar=metavar, help=help)


def path_argument(metavar: str, help: str) -> Any:
    return typer.Argument(parser=to_path, metavar=metavar, help=help)


ConfigFile = Annotated[Path, path_argument("CONFIG", "YAML file of settings; nmt settings explains them.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SECTION.KEY=VALUE",
        help="Settings that override the file; values are YAML.",
    ),
]
Device = Annotated[
    str, typer.Option(metavar="DEVICE", help="cpu, cuda, cuda:N, mps, or auto (the best device of this machine).")
]


def _warn_unused(value: str | None) -> None:
    if value is not None:
        typer.echo("--device is ignored: this command runs on the CPU", err=True)


# All commands accept --device, so that scripts can always give it; the help shows it only if it has an effect.
UnusedDevice = Annotated[str | None, typer.Option(hidden=True, callback=_warn_unused, help="Ignored.")]
ModelFile = Annotated[
    Path, path_argument("MODEL", "Model file, run folder (its best or newest model), or CTranslate2 folder.")
]
ModelOrEndpoint = Annotated[
    Path, path_argument("MODEL", "Model file, run folder, CTranslate2 folder, or YAML file of an LLM endpoint.")
]
ModelOrRun = Annotated[Path, path_argument("MODEL", "Model file, or run folder (its best or newest model).")]
DecodingOverrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DECODING.KEY=VALUE",
        help="Settings that override the model's; nmt settings decoding explains them.",
    ),
]
BeamSize = Annotated[int | None, typer.Option(min=1, metavar="N", help="Overrides the model's decoding.beam_size.")]
LengthPenalty = Annotated[
    float | None, typer.Option(min=0, max=5, metavar="X", help="Overrides the model's decoding.length_penalty.")
]
Ensemble = Annotated[
    list[Path] | None,
    file("Another model with the same vocabulary, for an ensemble; repeatable.", metavar="MODEL"),
]
Glossary = Annotated[
    Path | None, file("Terms with their translations: TSV, CSV or TBX; a line such as `doctor|doctors TAB Arzt|Ärzte`.")
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="LANGUAGE", help="Target language, if the model has several."),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="LANGUAGE", help="Source language, if the model needs it."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        parser=file_or_dash,
        metavar="FILE",
        help="File to write; it appears only when it is complete. Default, or -: standard output.",
    ),
]


def is_setting(argument: str) -> bool:
    """Whether an argument is section.key=value, and not the name of a file."""
    return re.match(r"[a-z]+\.[a-z_]+=", argument) is not None and not Path(argument).exists()


def decoding_overrides(
    arguments: Sequence[str] | None, beam_size: int | None, length_penalty: float | None
) -> list[str]:
    """All decoding settings of a command line as overrides. Arguments come last, so they override options."""
    options = {"beam_size": beam_size, "length_penalty": length_penalty}
    overrides = [f"decoding.{key}={value}" for key, value in options.items() if value is not None]
    return [*overrides, *(arguments or ())]


def check_not_a_setting(missing: Path) -> None:
    """Raises NmtError with a hint if a missing file is a decoding setting without its section."""
    if hint := setting_meant(str(missing)):
        raise NmtError(f"{no_such_file(missing)}: {hint}")
