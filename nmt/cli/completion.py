"""`nmt completion`: what a shell completes. Typer finds what is being typed; here is what it can be.

The shell calls nmt with the variable _NMT_COMPLETE and the line up to the cursor, and gets a line for each possibility.
Typer's own scripts are not used, as they put a space after `training.learning_rate=`.
"""

import importlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from nmt.cli import terminal
from nmt.files import text

Shell = Literal["bash", "zsh", "fish"]

VARIABLE = "_NMT_COMPLETE"
_SCRIPTS: dict[Shell, str] = {
    "bash": r"""
_nmt() {
    local IFS=$'\n'
    COMPREPLY=($(_NMT_COMPLETE=bash "$1" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
    [[ ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace
}
complete -o default -F _nmt nmt""",
    "zsh": r"""
#compdef nmt
_nmt() {
    local line
    local -a open closed
    for line in "${(@f)$(_NMT_COMPLETE=zsh $words[1] "${(j: :)words[1,CURRENT]}" 2>/dev/null)}"; do
        if [[ ${line%%:*} == *[=/] ]]; then open+=("$line"); elif [[ -n $line ]]; then closed+=("$line"); fi
    done
    if (( $#open + $#closed )); then
        (( $#open )) && _describe -t open 'more' open -S ''
        (( $#closed )) && _describe -t closed 'choice' closed
    else
        compset -P '*='
        _files
    fi
}
compdef _nmt nmt""",
    "fish": r"""
function __nmt_complete
    set -l found (_NMT_COMPLETE=fish nmt (commandline -cp | string collect) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command nmt --no-files --arguments '(__nmt_complete)'""",
}


@terminal.reporting()
def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print a script with which a shell completes commands, options, models, configs and settings.

    For bash, add this line to ~/.bashrc: source <(nmt completion bash). For zsh, add it with zsh to ~/.zshrc, after
    compinit. For fish: nmt completion fish > ~/.config/fish/completions/nmt.fish

    Example: nmt completion bash
    """
    text.result(_SCRIPTS[shell].removeprefix("\n"))


def answer(commands: typer.Typer, shell: str, line: str) -> None:
    """Print the possibilities for the last word of a line, in the form that the script of the shell reads; nothing for
    another shell."""
    if shell not in _SCRIPTS:
        return
    importlib.import_module("typer.completion").completion_init()
    # Typer brings its own copy of Click, or uses Click, by its version.
    click = TyperCommand.__mro__[1].__module__.rpartition(".")[0]
    machinery = importlib.import_module(f"{click}.shell_completion")
    words = machinery.split_arg_string(line)[1:]
    begun = words.pop() if words and not line[-1].isspace() else ""
    cli: Any = typer.main.get_command(commands)
    for param in (param for command in cli.commands.values() for param in command.params):
        if offered := _OFFERED.get(param.metavar):
            param.shell_complete = partial(_items, machinery.CompletionItem, offered)
    completer = machinery.get_completion_class(shell)(cli, {}, "nmt", VARIABLE)
    for found in completer.get_completions(words, begun):
        if found.type == "plain":
            print(_FORMS[shell](found.value, " ".join((found.help or "").split()), begun))


# The form of a possibility, of its value, its meaning and what is typed of it already. To bash, = ends a word.
_FORMS: dict[str, Callable[[str, str, str], str]] = {
    "bash": lambda value, _, begun: value[len(begun[: begun.rfind("=") + 1]) :].replace(" ", "\\ "),
    "zsh": lambda value, meaning, _: value.replace(":", "\\:") + (f":{meaning}" if meaning else ""),
    "fish": lambda value, meaning, _: f"{value}\t{meaning}",
}


Offer = tuple[str, str]  # a value, and what it means


def _items(kind: Any, offered: Callable[[str], Iterator[Offer]], _: Any, begun: str) -> list[Any]:
    return [kind(value, help=meaning) for value, meaning in offered(begun) if value.startswith(begun)]


def _paths(*endings: str, begun: str) -> Iterator[Offer]:
    """Folders, with a slash, and files with these endings."""
    folder, name = os.path.split(begun)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:  # noqa: PTH111 (Path would change the rest)
            found = [entry.name + "/" * entry.is_dir() for entry in entries]
    except OSError:
        return
    shown = [known for known in found if known.startswith(name) and known.startswith(".") == name.startswith(".")]
    for known in sorted(shown):
        if known.endswith(("/", *endings)):
            yield os.path.join(folder, known), ""  # noqa: PTH118


def _configs(begun: str) -> Iterator[Offer]:
    return _paths(".yaml", ".yml", begun=begun)


def _models(begun: str) -> Iterator[Offer]:
    yield from _paths(".safetensors", begun=begun)
    yield from _decoding_settings(begun)  # of nmt evaluate


def _decoding_settings(begun: str) -> Iterator[Offer]:
    """Once one is begun: most often a file is meant."""
    return _settings(begun, "decoding.") if begun.startswith("decoding") else iter(())


def _settings(begun: str, section: str = "") -> Iterator[Offer]:
    """`section.key=` of all settings, or what may follow it."""
    from nmt.config.declaration import all_settings, choices_at
    from nmt.config.schema import Config

    path, equals, _ = begun.partition("=")
    for known, own in all_settings(Config).items():
        if not known.startswith(section):
            continue
        if not equals:
            yield f"{known}=", own.meaning
        elif known == path:
            yield from ((f"{known}={choice}", "") for choice in choices_at(Config, known))


_OFFERED: dict[str, Callable[[str], Iterator[Offer]]] = {  # by how the help calls an argument or an option
    "CONFIG": _configs,
    "MODEL": _models,
    "RUN": _models,
    "RUN_OR_FILES": _models,
    "INPUT": _decoding_settings,
    "SECTION.KEY=VALUE": _settings,
    "DECODING.KEY=VALUE": _decoding_settings,
}
