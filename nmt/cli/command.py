"""What the usage and the errors of all commands have in common."""

from typing import Any, cast

import typer
from typer.core import TyperCommand

from nmt.config import declaration, schema, suggestions

_UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])  # of which an unknown option is another kind


class Command(TyperCommand):
    """Its usage has `...` after arguments that can be repeated. Its errors name the setting that an unknown option may
    stand for: `training.max_steps=3` for `--max-steps 3`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = ["[OPTIONS]"]
        for argument in self.params:
            if argument.param_type_name == "argument":
                name = str(argument.metavar or argument.name)
                pieces.append((name if argument.required else f"[{name}]") + "..." * (argument.nargs == -1))
        return pieces

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except _UsageError as raised:
            error: Any = raised
            option = str(getattr(error, "option_name", None) or "")
            begun = any(known.startswith(option) for known in getattr(error, "possibilities", None) or ())
            if option.startswith("--") and not begun and (meant := self._settings(option, given)):
                error.message = f"No such option: {option}: a setting has no dashes: {' or '.join(meant)}"
                error.possibilities = None
            raise

    def _settings(self, option: str, given: list[str]) -> list[str]:
        """The settings that an unknown option may stand for, with its value."""
        metavars = {getattr(argument, "metavar", None) for argument in self.params}
        section = "" if "SECTION.KEY=VALUE" in metavars else "decoding" if "DECODING.KEY=VALUE" in metavars else None
        if section is None:
            return []
        values = [text.partition("=")[2] for text in given if text.startswith(f"{option}=")]
        values += given[given.index(option) + 1 :][:1] if option in given else []
        value = values[0] if values and not values[0].startswith("--") else "…"
        every = declaration.all_settings(schema.Config)
        paths = [path for path in every if path.startswith(f"{section}." if section else "")]
        return [f"{path}={value}" for path in suggestions.settings_like(option, (), paths)]
