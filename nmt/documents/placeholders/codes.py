"""Codes of templates in a text, such as `{% if x %}` and `{% endif %}`, and the tags that stand for them while it is
translated.

Two codes that belong together are an element, `<nmt0>` and `</nmt0>`, so that the translation has both around its
words. A single code is `<nmt0/>` if it has a line break or a character of tags; the others are text, which
`decoding.keep` finds. What separates two texts, such as `{% else %}`, is `<cut0/>`: each is translated by itself.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from nmt.decoding.markup.blocks import RULES

# "begin" and "end" belong together if their names are the same; "between" stands in between, as `{% else %}` does.
Kind = Literal["begin", "end", "between", "alone"]
Code = tuple[Kind, str]

# Of a tag, in whose attributes `>` can stand; a comment or PHP without an end goes on up to the end of the text.
TAG = (
    r"""<(?:!--(?:[^-]|-(?!->))*+(?:-->|\Z)|\?(?:php|=)(?:[^?]|\?(?!>))*+(?:\?>|\Z)"""
    r"""|[/?!]?[a-zA-Z](?:[^<>"']++|"[^"]*"|'[^']*')*>)"""
)
CUT = r"<cutx?\d+/>"
VOID = RULES["html"].void
_NO_FORMS = r"(?!\s*[\w.-]+\s*,\s*(?:plural|select))"  # which are in braces that belong to no code
_INSIDE = r"(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+"  # of braces
_CODE = re.compile(
    rf"""(?P<raw><(?:script|style)\b(?:[^<]|<(?!/(?:script|style)\b))*+)
    | (?P<tag>{TAG}|</?\d+\s?/?>)
    | (?P<script><%(?:[^%<]|%(?!>)|<(?!%))*+%>)                # ERB, EJS
    | (?P<mustache>\{{\{{\{{[^{{}}]*\}}\}}\}}|\{{\{{{_NO_FORMS}{_INSIDE}\}}\}})
    | (?P<block>\{{%[^{{}}]*%\}})                              # Jinja, Django, Twig
    | (?P<angular>\{{\$[A-Z][A-Z\d_]*\}})
    | (?P<curly>\{{/?[A-Za-z]\w*(?:\s[^{{}}]*)?\}})            # Smarty: `{{b}}` if there is `{{/b}}`
    | (?P<bracket>\[/?[A-Za-z][\w-]*(?:[=\s][^\[\]]*)?\])      # BBCode
    | (?P<argument>%[^\s<>%]{{0,20}}<\w{{1,40}}>)              # Ruby; <PRIu64> of gettext
    | (?P<braces>\$\{{{_NO_FORMS}{_INSIDE}\}}|[$\#%]?\{{[^{{}}]*\}})""",
    re.VERBOSE | re.IGNORECASE,
)
_STAND_IN = re.compile(r"</?nmt\d+/?>|<cut\d+/>")
ANGULAR = r"(START|CLOSE)_([A-Z_]+?)(?:_\d+)?"  # names of codes
_ANGULAR = re.compile(rf"\{{\${ANGULAR}\}}")
_BETWEEN = re.compile(r"(?:else|elif|elsif|elseif|empty|plural|pluralize|when)\b")  # in Jinja, Twig, Django; in Ruby
_OF_GO = re.compile(r"(?:if|range|with|block|define)\b")
_OF_RUBY = re.compile(r"(?:if|unless|case|while|until|for|begin)\b|.*\bdo(?:\s*\|[^|]*\|)?\Z", re.DOTALL)


@dataclass(frozen=True)
class CodedText:
    """A text with tags for its codes. codes: by their tags."""

    text: str
    codes: dict[str, str] = field(default_factory=dict)

    def restored(self, text: str) -> str:
        """A text with the codes in place of their tags."""
        return _STAND_IN.sub(lambda found: self.codes.get(found[0], found[0]), text) if self.codes else text


def coded(string: str, *, has_tags: bool, has_forms: bool = False, is_page: bool = False) -> CodedText:
    """A string with tags for its codes; if it has tags of its own, these stay, and if not, the text between is written
    as XML has it. has_forms: whether it is an ICU message, in which a text can be in braces. is_page: whether only
    codes that belong to others have tags."""
    if _STAND_IN.search(string):
        return CodedText(string)
    found = list(_CODE.finditer(string))
    kinds = [_read(each) for each in found]
    tags = stand_ins(kinds, "nmt", "cut")
    for number, (tag, each) in enumerate(zip(tags, found, strict=True)):
        is_alone = tag.startswith("<nmt") and tag.endswith("/>")
        is_text = is_alone and (is_page or not _stands_alone(each, kinds[number], has_tags, has_forms))
        if is_text or each.lastgroup == "raw" or (each.lastgroup == "tag" and not _is_instruction(each[0])):
            tags[number] = ""
    if not any(tags):
        return CodedText(string)
    write: Callable[[str], str] = str if has_tags else _as_xml
    text, codes, end = list[str](), dict[str, str](), 0
    for tag, each in zip(tags, found, strict=True):
        text += write(string[end : each.start()]), tag or (each[0] if has_tags else write(each[0]))
        codes[tag] = each[0]
        end = each.end()
    return CodedText("".join([*text, write(string[end:])]), codes)


def stand_ins(codes: Sequence[Code], name: str, cut: str = "") -> list[str]:
    """A tag for each code: for two that belong together `<name0>` and `</name0>`, for another one `<name0/>`. cut: the
    name for those between two texts, and for two that belong together where others begin or end in between alone."""
    pairs, tags = _partners(codes), list[str]()
    alone = [code for code, partner in zip(codes, pairs, strict=True) if partner < 0]
    crossed = {name for kind, name in alone if kind == "begin"} & {name for kind, name in alone if kind == "end"}
    for number, ((kind, what), partner) in enumerate(zip(codes, pairs, strict=True)):
        if partner >= 0:
            tags.append(f"<{name}{number}>" if kind == "begin" else f"</{name}{partner}>")
        elif cut and (kind == "between" or what in crossed):
            tags.append(f"<{cut}{number}/>")
        else:
            tags.append(f"<{name}{number}/>")
    return tags


def _partners(codes: Sequence[Code]) -> list[int]:
    """For each code the number of the one that it belongs together with, or -1. They are well nested: what begins in
    between and does not end there is alone."""
    found, open_, names = [-1] * len(codes), list[int](), Counter[str]()
    for number, (kind, name) in enumerate(codes):
        if kind == "begin":
            open_.append(number)
            names[name] += 1
        elif kind == "end" and names[name]:
            first = -1
            while first < 0 or codes[first][1] != name:
                first = open_.pop()
                names[codes[first][1]] -= 1
            found[first], found[number] = number, first
    return found


def _as_xml(text: str) -> str:
    return escape(text, quote=False)


def _stands_alone(found: re.Match[str], code: Code, has_tags: bool, has_forms: bool) -> bool:
    """Whether a tag stands for a code that belongs to no other."""
    if found.lastgroup == "bracket":
        return code[0] == "end"
    if found.lastgroup == "script" or _is_instruction(found[0]):
        return True
    if found.lastgroup in ("curly", "braces") and has_forms and not re.match(r"\S?\{\s*[\w.-]+\s*,", found[0]):
        return False  # the text of a form
    return bool(re.search(r"[\n\r]", found[0]) or (has_tags and re.search("[<>&]", found[0])))


def _is_instruction(code: str) -> bool:
    """Whether it is `<?php … ?>` or the like, which has `>` in it."""
    return code.startswith("<?")


def _read(found: re.Match[str]) -> Code:
    """What a code of a template is. The names of each kind of codes begin with other characters."""
    code = found[0]
    match found.lastgroup:
        case "tag":
            name = re.match(r"</?([\w:-]*)", code.lower())
            if name is None or not name[1] or name[1] in VOID or code.endswith("/>"):
                return "alone", ""
            return "end" if code[1] == "/" else "begin", f"<{name[1]}"
        case "script":
            return _of_script(code[2:-2].lstrip("-=_~#").rstrip("-").strip())
        case "mustache":
            return _of_mustache(code.strip("{}~ \t\r\n"))
        case "block":
            name = re.match(r"[-+~]?\s*(end_?)?(\w*)", code[2:])
            assert name is not None
            if name[1] and name[2]:
                return "end", f"{{%{name[2]}"
            return "between" if _BETWEEN.match(name[2]) else "begin", f"{{%{name[2]}"
        case "angular":
            if name := _ANGULAR.fullmatch(code):
                return "begin" if name[1] == "START" else "end", f"{{${name[2]}"
        case "curly" | "bracket":
            name = re.match(r".(/?)([\w-]+)", code)
            assert name is not None
            if code[0] == "{" and name[2] in ("else", "elseif"):
                return "between", ""
            return "end" if name[1] else "begin", code[0] + name[2].lower()
    return "alone", ""


def _of_script(code: str) -> Code:
    """Of EJS, whose blocks are in braces, and of Ruby."""
    if code.startswith("}"):
        return ("between", "") if code.endswith("{") else ("end", "<%{")
    if code.endswith("{"):
        return "begin", "<%{"
    if _BETWEEN.match(code):
        return "between", ""
    return ("end", "<%end") if code == "end" else ("begin" if _OF_RUBY.match(code) else "alone", "<%end")


def _of_mustache(code: str) -> Code:
    """Of Mustache, Handlebars and the templates of Go."""
    code = code.strip()
    if code == "end":
        return "end", "{{end"
    if code == "^" or re.match(r"else\b", code):
        return "between", ""
    if name := re.match(r"([#^/])\s*[*>]?\s*([^\s~]+)", code):
        return "end" if name[1] == "/" else "begin", f"{{{{{name[2]}"
    return "begin" if _OF_GO.match(code) else "alone", "{{end"
