"""`nmt init`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nmt.cli import options, terminal
from nmt.cli.command import Command
from nmt.config.data_section import FILE_ENDINGS
from nmt.config.language_pairs import LanguagePair
from nmt.config.presets import PresetName
from nmt.files import text
from nmt.files.compression import plain_ending
from nmt.files.text import to_path

Program = Literal["bergamot", "marian", "argos"]
_PAIR = re.compile(r"\w+-\w+")  # a code with a region is written with _: en-pt_BR
_BETWEEN = "\0"  # no argument contains it


class InitCommand(Command):
    """A command with options that have several values: --train and --validation have one file with both sides, or two
    files; --pairs has language pairs, up to the next argument that is none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        joined, rest = list[str](), list(args)
        while rest and rest[0] != "--":
            name, equals, value = rest.pop(0).partition("=")
            if name not in ("--train", "--validation", "--pairs"):
                joined.append(name + equals + value)
                continue
            rest = [value, *rest] if equals else rest
            count = _value_count(name, rest)
            joined += [name, _BETWEEN.join(rest[:count])] if rest else [name]
            rest = rest[count:]
        return super().parse_args(ctx, joined + rest)


def _value_count(option: str, arguments: list[str]) -> int:
    """How many arguments at the beginning are values of the option. Raises BadParameter if a second file is missing, or
    follows a file with both sides."""
    if option == "--pairs":
        return next((i for i, value in enumerate(arguments) if not _PAIR.fullmatch(value)), len(arguments)) or 1
    have_both_sides = [plain_ending(Path(argument)) in FILE_ENDINGS for argument in arguments[:2]]
    if have_both_sides == [True, True]:
        raise typer.BadParameter(
            f"{option} {arguments[0]} has both sides: give it alone; for a second corpus, repeat {option}"
        )
    if not arguments or arguments[0].startswith("--") or have_both_sides[0]:
        return 1
    if len(arguments) == 1 or arguments[1].startswith("--") or arguments[1].endswith((".yaml", ".yml")):
        raise typer.BadParameter(
            f"{option} {arguments[0]}: give two text files, or one file with both sides: {', '.join(FILE_ENDINGS)}"
        )
    return 2


@terminal.reporting()
def init(
    config: Annotated[Path, options.path_argument("CONFIG", "The YAML file to write.")],
    train: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE [FILE]", help="Training text: two text files, or one file with both; repeatable."),
    ] = None,
    validation: Annotated[
        list[str] | None, typer.Option(metavar="FILE [FILE]", help="Validation text, in the same way; repeatable.")
    ] = None,
    source_language: Annotated[
        str | None, typer.Option(metavar="LANGUAGE", help="Language to translate from. Default: as the files say.")
    ] = None,
    target_language: Annotated[
        str | None, typer.Option(metavar="LANGUAGE", help="Language to translate into. Default: as the files say.")
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option(metavar="PAIR...", help="Several language pairs in one model, such as en-sw sw-en."),
    ] = None,
    preset: Annotated[PresetName | None, typer.Option(help="Settings to start from.")] = None,
    start_from: Annotated[Path | None, options.file("Model to fine-tune.", metavar="MODEL")] = None,
    program: Annotated[
        Program | None,
        typer.Option(
            "--for",
            help="Settings for this export format. Firefox and translateLocally take bergamot, LibreTranslate argos.",
        ),
    ] = None,
    slurm: Annotated[bool, typer.Option("--slurm", help="Also write the job script train.slurm beside it.")] = False,
    teacher: Annotated[
        bool, typer.Option("--teacher", help="Instead, write the file of an endpoint with a large language model.")
    ] = False,
) -> None:
    """Write a config file to start from, with comments. An existing file is not overwritten.

    The training text is two text files, or one .tmx, .tsv, .csv, .jsonl or .parquet file with both sides. The languages
    are those at the end of the file names, or those of the .tmx file.

    The preset demo makes its own English-German corpus in data/demo, and trains in minutes on a CPU. small is for about
    50,000 pairs and two CPU cores; base and big are the paper's models, for GPUs. The default is small if the training
    text is small, else base.

    With --start-from and several --train, the first is new text, and the others are old text that is mixed in, so that
    the model does not forget it. With --pairs, each text is used for each pair of its languages, in both directions if
    both are named.

    With --teacher, the file describes an endpoint: a service with a large language model, which nmt translate, evaluate
    and serve accept in place of a model file.

    Example: nmt init demo.yaml --preset demo

    Example: nmt init my.yaml --train train.en train.fi --validation validation.en validation.fi

    Example: nmt init further.yaml --start-from model.safetensors --train memory.tmx --train old.en old.fi

    Example: nmt init both.yaml --pairs en-fi fi-en --train train.en train.fi

    Example: nmt init --teacher teacher.yaml --target-language sw
    """
    if plain_ending(config) in FILE_ENDINGS:
        raise typer.BadParameter(f"CONFIG {config}: name a .yaml file; for several corpora, repeat --train")
    if teacher and any((train, validation, pairs, start_from, preset, program, slurm)):
        raise typer.BadParameter("--teacher writes no settings of training: give only the languages with it")
    if preset is not None and start_from is not None:
        raise typer.BadParameter("--preset and --start-from both choose the settings: give only one of them")
    if preset == "demo" and any((source_language, target_language, train, validation, pairs)):
        raise typer.BadParameter("--preset demo makes its own corpus: leave out languages and texts")
    if pairs and (source_language or target_language):
        raise typer.BadParameter("--pairs names the languages: leave out --source-language and --target-language")

    from nmt.commands import init, init_teacher

    if teacher:
        init_teacher.init_teacher(config, source_language, target_language)
    else:
        corpora, sets = (
            [tuple(map(to_path, given.split(_BETWEEN))) for given in several or ()] for several in (train, validation)
        )
        init.init(
            init.InitRequest(
                config, source_language, target_language, corpora, sets, _language_pairs(pairs or ()), start_from,
                preset, program, slurm,
            )
        )  # fmt: skip
    text.result(config)


def _language_pairs(given: Sequence[str]) -> list[LanguagePair]:
    """The pairs of --pairs, each once. Raises BadParameter for text that is no pair."""
    pairs = dict.fromkeys(pair for several in given for pair in several.split(_BETWEEN))
    for pair in pairs:
        if not _PAIR.fullmatch(pair):
            raise typer.BadParameter(f"--pairs {pair}: write a pair as en-de, and a code with a region as pt_BR")
    return [LanguagePair(*pair.split("-")) for pair in pairs]
