"""ICU messages, such as `{n, plural, one {# file} other {# files}}`: their texts and how to write them.

Syntax: https://unicode-org.github.io/icu/userguide/format_parse/messages/
"""

import re
from dataclasses import dataclass

LITERAL = r"'(?:[{}#]+|\{[^'{}]*\})'"  # quoted braces, which are text
_QUOTED = re.compile(r"'[{}#][^']*'")
_FORMS = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,(?:\s*offset:\d+)?\s*")
_END = re.compile(r"\s*\}")
_SELECTOR = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")


def has_forms(message: str) -> bool:
    return _FORMS.search(message) is not None


def split_message(message: str) -> list[str] | None:
    """The parts of an ICU message: texts at odd indices, syntax at even ones. A string without forms is one text. None
    if the message is not well formed."""
    if not has_forms(message):
        return ["", message]
    return _parts(message, quotes=True) or _parts(message, quotes=False) or None


def _parts(message: str, *, quotes: bool) -> list[str]:
    """quotes: whether an apostrophe before a brace starts quoted text, as in ICU, or is text, as Flutter's default."""
    parts, start, i = [""], 0, 0  # start of the current text
    inside = ["text"]  # what each brace around the current character encloses: a text, an argument, or its forms
    while i < len(message):
        if inside[-1] == "forms":
            if syntax := _SELECTOR.match(message, i):
                inside.append("text")
            elif syntax := _END.match(message, i):
                inside.pop()
            else:
                return []
            parts[-1] += syntax[0]
            i = start = syntax.end()
            continue
        character = message[i]
        if character == "{" and inside[-1] == "text" and (syntax := _FORMS.match(message, i)):
            parts += message[start:i], syntax[0]
            inside.append("forms")
            i = start = syntax.end()
        elif inside[-1] == "text" and character == "}" and len(inside) > 1:
            parts += message[start:i], "}"
            inside.pop()
            i = start = i + 1
        elif quotes and character == "'" and (quoted := _QUOTED.match(message, i)):
            i = quoted.end()
        else:
            if character == "{":
                inside.append("argument")
            elif character == "}" and inside.pop() == "text":
                return []
            i += 1
    return [*parts, message[start:], ""] if inside == ["text"] else []


@dataclass(frozen=True)
class IcuStyle:
    """How the texts of a string are written."""

    literals: frozenset[str] = frozenset()  # the LITERALs of the string
    doubled: bool = False  # an apostrophe is written `''`
    with_number: bool = False  # `#` stands for a number
    with_quotes: bool = False  # an apostrophe before a brace starts quoted text

    @classmethod
    def from_string(cls, string: str, *, has_forms: bool) -> "IcuStyle":
        """The style of a string. has_forms: whether it is certainly an ICU message; any string with an argument can be
        one."""
        literals = set(re.findall(rf"''|{LITERAL}", string)) - {"''"}
        without = re.sub(rf"('')|{LITERAL}", r"\1", string)
        doubled = set(re.findall("'+", without)) == {"''"}
        # Two apostrophes around a word are italics in MediaWiki.
        is_icu = has_forms or re.search(r"(?<!\{)\{(?!\{)", string) or not re.search(r"\W''|''\W", f" {without} ")
        quotes = has_forms and not re.search("'[{}#]", without)
        return cls(frozenset(literals), doubled and bool(is_icu), has_forms, quotes)

    def decoded(self, text: str) -> str:
        """A text as the model reads it. A number is `{#}`, so that it is protected as other arguments are."""
        replaced = dict[str, str]()
        if self.doubled:
            replaced["''"] = "'"
        if self.with_number:
            replaced["#"] = "{#}"
        return re.sub(rf"''|{LITERAL}|\{{[^{{}}]*\}}|#", lambda match: replaced.get(match[0], match[0]), text)

    def encoded(self, text: str) -> str:
        """A translation as it is written in the string."""
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
