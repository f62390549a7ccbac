"""The reference of every setting, as Markdown, from the declarations."""

import dataclasses
import inspect
import re
import typing

from nmt.config.declaration import settings
from nmt.config.reader import in_one_line


def reference(declaration: type) -> str:
    """Tables of every setting: key, type, default, meaning. Sections and other declarations follow with a heading."""
    rows, inner = [], {}
    for name, setting in settings(declaration).items():
        if setting.is_section:
            inner[name] = f"## {name}\n\n{setting.meaning}\n\n{reference(setting.type)}"
            continue
        kind = setting.expected.replace("|", "\\|")
        for nested in filter(dataclasses.is_dataclass, typing.get_args(setting.type)):
            title = typing.cast(type, nested).__name__
            about = inspect.cleandoc(nested.__doc__ or "")
            inner[title] = f"### {title}\n\n{about}\n\n{reference(typing.cast(type, nested))}"
            kind = re.sub("mappings?", f"[{title}](#{title.lower()})", kind)
        default = "**required**" if setting.required else f"`{in_one_line(setting.default)}`"
        meaning = setting.meaning.replace("|", "\\|")
        rows.append(f"| `{name}` | {kind} | {default} | {meaning} |\n")
    head = "| setting | type | default | meaning |\n| --- | --- | --- | --- |\n"
    return "\n".join(["".join([head, *rows])] * bool(rows) + list(inner.values()))
