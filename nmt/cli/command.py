"""The usage text and the error messages that all commands share."""

from typing import Any, cast

import typer
from typer.core import TyperCommand

from nmt.config import declaration, schema, suggestions

# The base class of BadParameter, and of the error for an unknown option.
_UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])


class Command(TyperCommand):
    """A command whose usage has `...` after repeatable arguments. For an unknown option, the error suggests a setting:
    `training.max_steps=3` for `--max-steps 3`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = ["[OPTIONS]"]
        for argument in self.params:
            if argument.param_type_name == "argument":
                name = str(argument.metavar or argument.name)
                piece = name if argument.required else f"[{name}]"
                pieces.append(f"{piece}..." if argument.nargs == -1 else piece)
        return pieces

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        arguments = list(args)
        try:
            return super().parse_args(ctx, args)
        except _UsageError as raised:
            error: Any = raised
            option = str(getattr(error, "option_name", None) or "")
            is_prefix = any(name.startswith(option) for name in getattr(error, "possibilities", None) or ())
            if option.startswith("--") and not is_prefix and (settings := self._settings(option, arguments)):
                error.message = f"No such option: {option}: a setting has no dashes: {' or '.join(settings)}"
                error.possibilities = None
            raise

    def _settings(self, option: str, arguments: list[str]) -> list[str]:
        """Settings with the value of an unknown option, whose names are similar to the option."""
        metavars = {getattr(argument, "metavar", None) for argument in self.params}
        section = "" if "SECTION.KEY=VALUE" in metavars else "decoding" if "DECODING.KEY=VALUE" in metavars else None
        if section is None:
            return []
        values = [text.partition("=")[2] for text in arguments if text.startswith(f"{option}=")]
        if option in arguments:
            values += arguments[arguments.index(option) + 1 :][:1]
        value = values[0] if values and not values[0].startswith("--") else "…"
        declared = declaration.all_settings(schema.Config)
        paths = [path for path in declared if path.startswith(f"{section}." if section else "")]
        return [f"{path}={value}" for path in suggestions.settings_like(option, (), paths)]
