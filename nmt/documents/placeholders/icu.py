"""ICU messages, such as `{n, plural, one {# file} other {# files}}`: their texts, and how these are written.

Syntax: https://unicode-org.github.io/icu/userguide/format_parse/messages/
"""

import re
from dataclasses import dataclass

LITERAL = r"'(?:[{}#]+|\{[^'{}]*\})'"  # braces that are text
_QUOTED = re.compile(r"'[{}#][^']*'")
_FORMS = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,(?:\s*offset:\d+)?\s*")
_END = re.compile(r"\s*\}")
_SELECTOR = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")


def has_forms(message: str) -> bool:
    return _FORMS.search(message) is not None


def parts_of(message: str) -> list[str] | None:
    """The texts of an ICU message at the odd places, its syntax at the others; all of a string without forms is a text.
    None for one that is not well formed."""
    if not has_forms(message):
        return ["", message]
    return _parts(message, quotes=True) or _parts(message, quotes=False) or None


def _parts(message: str, *, quotes: bool) -> list[str]:
    """quotes: whether an apostrophe before a brace begins text, as in ICU, or is one, as Flutter has it by default."""
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
        elif quotes and character == "'" and (quoted := _QUOTED.match(message, place)):
            place = quoted.end()
        else:
            if character == "{":
                inside.append("argument")
            elif character == "}" and inside.pop() == "text":
                return []
            place += 1
    return [*parts, message[begun:], ""] if inside == ["text"] else []


@dataclass(frozen=True)
class IcuStyle:
    """How the texts of a string are written. literals: what in it is LITERAL; doubled: whether an apostrophe is `''`;
    with_number: whether `#` is a number; with_quotes: whether an apostrophe before a brace would begin text."""

    literals: frozenset[str] = frozenset()
    doubled: bool = False
    with_number: bool = False
    with_quotes: bool = False

    @classmethod
    def of(cls, string: str, *, has_forms: bool) -> "IcuStyle":
        """has_forms: whether it is an ICU message for certain; any with an argument can be one."""
        literals = {found for found in re.findall(rf"''|{LITERAL}", string) if found != "''"}
        without = re.sub(rf"('')|{LITERAL}", r"\1", string)
        doubled = set(re.findall("'+", without)) == {"''"}  # two around a word are italics in MediaWiki
        can_be = has_forms or re.search(r"(?<!\{)\{(?!\{)", string) or not re.search(r"\W''|''\W", f" {without} ")
        quotes = has_forms and not re.search("'[{}#]", without)
        return cls(frozenset(literals), doubled and bool(can_be), has_forms, quotes)

    def decoded(self, text: str) -> str:
        """A text as a model reads it, where `{#}` is the number: it is kept as other arguments are."""
        written = {"''": "'"} if self.doubled else {}
        written |= {"#": "{#}"} if self.with_number else {}
        return re.sub(rf"''|{LITERAL}|\{{[^{{}}]*\}}|#", lambda found: written.get(found[0], found[0]), text)

    def encoded(self, text: str) -> str:
        """A translation as the string has it."""
        literals = "|".join(map(re.escape, sorted(self.literals)))
        parts = re.split(f"({literals})", text) if literals else [text]
        parts[::2] = map(self._encoded, parts[::2])
        return "".join(parts)

    def _encoded(self, text: str) -> str:
        if self.with_number:
            text = text.replace("{#}", "#")
        if self.doubled:
            return text.replace("'", "''")
        return re.sub(r"'(?=[{}#]|\Z)", "’", text) if self.with_quotes else text
