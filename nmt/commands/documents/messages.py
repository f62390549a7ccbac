"""The strings of string tables: their placeholders, tags, and ICU messages such as
`{n, plural, one {# file} other {# files}}`, of which each form is translated by itself.

Syntax of ICU messages: https://unicode-org.github.io/icu/userguide/format_parse/messages/
"""

import re

from nmt.commands.documents.document import Template
from nmt.decoding.markup.blocks import Markup

_PRINTF = r"[-+#0]{0,5}(?:\d{1,9}|\*)?(?:\.\d{1,9})?(?:hh|h|ll|l|L|j|z|t)?[diouxXeEfFgGcsSprn@]"
# decoding.keep for string tables: URLs, tags, and the placeholders of printf, Python, i18next, Qt, Vue and ICU.
KEPT = (
    r"\{\{[^{}]*\}\}",
    r"\$t\([^()]*\)",
    r"[$#]?\{[^{}]*\}",
    r"(?:(?<![\w.,])\d[\d.,]{0,9})?%%",
    rf"%\(\w+\){_PRINTF}",
    rf"%(?:\d{{1,9}}\$)?{_PRINTF}(?![a-z])|%L?\d+",
    r"</?\d+/?>",
    r"(?<!\w)#(?!\w)",  # the number in an ICU form
    "verbatim",
)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_NUMBERED_TAG = re.compile(r"</?\d+/?>")
_FORMS = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,(?:\s*offset:\d+)?\s*")
_END = re.compile(r"\s*\}")
_SELECTOR = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")


def message_template(string: str) -> Template:
    """A string of a table as texts and what stands around them."""
    if _FORMS.search(string) and (icu := _icu_parts(string)):
        parts = [""]
        for number, part in enumerate(icu):
            lines = Template.of_lines(part).parts if number % 2 else [part]
            parts[-1] += lines[0]
            parts += lines[1:]
        return Template(parts)
    # What has tags is HTML; those with numbers, which no HTML has, are placeholders.
    marked: Markup | None = "html" if _TAG.search(string) and not _NUMBERED_TAG.search(string) else None
    return Template.of_lines(string, marked)


def _icu_parts(message: str) -> list[str]:
    """The texts of an ICU message at the odd places, its syntax at the others; nothing if it is not well formed."""
    parts, begun, place = [""], 0, 0  # begun: where the text at `place` began
    inside = ["text"]  # what the braces around `place` enclose: a text, an argument, or the forms of one
    while place < len(message):
        if inside[-1] == "forms":
            if found := _SELECTOR.match(message, place):
                inside.append("text")
            elif found := _END.match(message, place):
                inside.pop()
            else:
                return []
            parts[-1] += found[0]
            place = begun = found.end()
            continue
        character = message[place]
        if character == "{" and inside[-1] == "text" and (found := _FORMS.match(message, place)):
            parts += message[begun:place], found[0]
            inside.append("forms")
            place = begun = found.end()
        elif inside[-1] == "text" and character == "}" and len(inside) > 1:
            parts += message[begun:place], "}"
            inside.pop()
            place = begun = place + 1
        else:
            if character == "{":
                inside.append("argument")
            elif character == "}" and inside.pop() == "text":
                return []
            place += 1
    return [*parts, message[begun:], ""] if inside == ["text"] else []
