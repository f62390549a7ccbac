"""Codes of templates in a text, such as `{% if x %}` and `{% endif %}`. Tags replace them during translation.

A pair of codes becomes an element, `<nmt0>` and `</nmt0>`, so that both stay around the same words. A single code
becomes `<nmt0/>` if it has a line break or a character of tags; other single codes stay in the text, where
`decoding.keep` protects them. A code between two texts, such as `{% else %}`, becomes `<cut0/>`: the two texts are
translated separately.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from nmt.decoding.markup.blocks import RULES

# A "begin" and an "end" of the same name are a pair. A "between" separates texts inside a pair, as `{% else %}` does.
Kind = Literal["begin", "end", "between", "alone"]
Code = tuple[Kind, str]

# A tag, whose attributes can contain `>`. A comment or PHP code without an end continues to the end of the text.
TAG = (
    r"""<(?:!--(?:[^-]|-(?!->))*+(?:-->|\Z)|\?(?:php|=)(?:[^?]|\?(?!>))*+(?:\?>|\Z)"""
    r"""|[/?!]?[a-zA-Z](?:[^<>"']++|"[^"]*"|'[^']*')*>)"""
)
CUT = r"<cutx?\d+/>"
VOID = RULES["html"].void
_NO_FORMS = r"(?!\s*[\w.-]+\s*,\s*(?:plural|select))"  # the braces of an ICU message are no code
_INSIDE = r"(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+"  # the content of braces
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
_GO_BLOCK = re.compile(r"(?:if|range|with|block|define)\b")
_RUBY_BLOCK = re.compile(r"(?:if|unless|case|while|until|for|begin)\b|.*\bdo(?:\s*\|[^|]*\|)?\Z", re.DOTALL)


@dataclass(frozen=True)
class CodedText:
    """A text in which tags replace the codes."""

    text: str
    codes: dict[str, str] = field(default_factory=dict)  # by their tags

    def restored(self, text: str) -> str:
        """A text in which the codes replace their tags again."""
        return _STAND_IN.sub(lambda tag: self.codes.get(tag[0], tag[0]), text) if self.codes else text


def coded(string: str, *, has_tags: bool, has_forms: bool = False, is_page: bool = False) -> CodedText:
    """Replaces the codes of a string by tags.

    has_tags: whether the string has tags of its own, which stay; otherwise the text between codes is escaped for XML.
    has_forms: whether it is an ICU message, with texts in braces. is_page: whether only pairs of codes and codes
    between texts get tags.
    """
    if _STAND_IN.search(string):
        return CodedText(string)
    matches = list(_CODE.finditer(string))
    kinds = [_read(match) for match in matches]
    tags = stand_ins(kinds, "nmt", "cut")
    for i, (tag, match) in enumerate(zip(tags, matches, strict=True)):
        is_alone = tag.startswith("<nmt") and tag.endswith("/>")
        is_text = is_alone and (is_page or not _stands_alone(match, kinds[i], has_tags, has_forms))
        if is_text or match.lastgroup == "raw" or (match.lastgroup == "tag" and not _is_instruction(match[0])):
            tags[i] = ""
    if not any(tags):
        return CodedText(string)
    write: Callable[[str], str] = str if has_tags else _as_xml
    text, codes, end = list[str](), dict[str, str](), 0
    for tag, match in zip(tags, matches, strict=True):
        text += write(string[end : match.start()]), tag or (match[0] if has_tags else write(match[0]))
        codes[tag] = match[0]
        end = match.end()
    return CodedText("".join([*text, write(string[end:])]), codes)


def stand_ins(codes: Sequence[Code], name: str, cut: str = "") -> list[str]:
    """A tag for each code: `<name0>` and `</name0>` for a pair, `<name0/>` for a single code.

    cut: the name of the tags for codes between two texts, and for pairs that other codes cross.
    """
    partners, tags = _partners(codes), list[str]()
    alone = [code for code, partner in zip(codes, partners, strict=True) if partner < 0]
    crossed = {name for kind, name in alone if kind == "begin"} & {name for kind, name in alone if kind == "end"}
    for i, ((kind, code_name), partner) in enumerate(zip(codes, partners, strict=True)):
        if partner >= 0:
            tags.append(f"<{name}{i}>" if kind == "begin" else f"</{name}{partner}>")
        elif cut and (kind == "between" or code_name in crossed):
            tags.append(f"<{cut}{i}/>")
        else:
            tags.append(f"<{name}{i}/>")
    return tags


def _partners(codes: Sequence[Code]) -> list[int]:
    """The index of each code's partner, or -1. Pairs are well nested: a code that begins inside a pair and does not end
    there has no partner."""
    partners, open_, names = [-1] * len(codes), list[int](), Counter[str]()
    for i, (kind, name) in enumerate(codes):
        if kind == "begin":
            open_.append(i)
            names[name] += 1
        elif kind == "end" and names[name]:
            begin = -1
            while begin < 0 or codes[begin][1] != name:
                begin = open_.pop()
                names[codes[begin][1]] -= 1
            partners[begin], partners[i] = i, begin
    return partners


def _as_xml(text: str) -> str:
    return escape(text, quote=False)


def _stands_alone(match: re.Match[str], code: Code, has_tags: bool, has_forms: bool) -> bool:
    """Whether a single code gets a tag."""
    if match.lastgroup == "bracket":
        return code[0] == "end"
    if match.lastgroup == "script" or _is_instruction(match[0]):
        return True
    if match.lastgroup in ("curly", "braces") and has_forms and not re.match(r"\S?\{\s*[\w.-]+\s*,", match[0]):
        return False  # the text of a form
    return bool(re.search(r"[\n\r]", match[0]) or (has_tags and re.search("[<>&]", match[0])))


def _is_instruction(code: str) -> bool:
    """Whether the code is `<?php … ?>` or similar, which contains `>`."""
    return code.startswith("<?")


def _read(code_match: re.Match[str]) -> Code:
    """The kind and the name of a code. Names of different template languages begin with different characters."""
    code = code_match[0]
    match code_match.lastgroup:
        case "tag":
            name = re.match(r"</?([\w:-]*)", code.lower())
            if name is None or not name[1] or name[1] in VOID or code.endswith("/>"):
                return "alone", ""
            return "end" if code[1] == "/" else "begin", f"<{name[1]}"
        case "script":
            return _script_code(code[2:-2].lstrip("-=_~#").rstrip("-").strip())
        case "mustache":
            return _mustache_code(code.strip("{}~ \t\r\n"))
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


def _script_code(code: str) -> Code:
    """A code of EJS, whose blocks are in braces, or of Ruby."""
    if code.startswith("}"):
        return ("between", "") if code.endswith("{") else ("end", "<%{")
    if code.endswith("{"):
        return "begin", "<%{"
    if _BETWEEN.match(code):
        return "between", ""
    return ("end", "<%end") if code == "end" else ("begin" if _RUBY_BLOCK.match(code) else "alone", "<%end")


def _mustache_code(code: str) -> Code:
    """A code of Mustache, Handlebars or the templates of Go."""
    code = code.strip()
    if code == "end":
        return "end", "{{end"
    if code == "^" or re.match(r"else\b", code):
        return "between", ""
    if name := re.match(r"([#^/])\s*[*>]?\s*([^\s~]+)", code):
        return "end" if name[1] == "/" else "begin", f"{{{{{name[2]}"
    return "begin" if _GO_BLOCK.match(code) else "alone", "{{end"
