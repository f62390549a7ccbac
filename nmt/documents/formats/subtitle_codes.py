"""Codes in the text of subtitles: tags such as `<i>`, times such as `<00:01.500>` of WebVTT, and the codes of ASS that
players also support in SRT, such as `{\\i1}` and `{\\an8}`.

Codes of ASS: https://aegisub.org/docs/latest/ass_tags/
"""

import re
from collections.abc import Callable
from html import escape, unescape

from nmt.documents.document import TranslatableText
from nmt.documents.placeholders.codes import Code, stand_ins

_CODE = r"(?:</?[a-zA-Z\d][^<>]*>|</?>|\{\\[^{}]*\})"
_CODES = re.compile(rf"(?:{_CODE}|\s)*")
_IN_TEXT = re.compile(_CODE)
_BEGIN = re.compile(r"<([a-zA-Z]+)|\{\\([bius])[1-9]\d*\}")
_END = re.compile(r"</([a-zA-Z]*)|\{\\([bius])0?\}")
_TIME = re.compile(r"<[\d:.]+>")
_STAND_IN = re.compile(r"(</?c\d+/?>)")
_SPACES = re.compile(r"(?:\s|\\h)+")  # \h is a no-break space


def around(text: str) -> tuple[str, str, str]:
    """Splits a text into the codes and white space before the words, the words, and the codes and white space after."""
    codes = _CODES.match(text)
    assert codes is not None
    start, stop = codes.end(), len(text.rstrip())
    for code in reversed(list(_IN_TEXT.finditer(text, start))):
        if text[code.end() : stop].strip():
            break
        stop = code.start()
    stop = start + len(text[start:stop].rstrip())
    return text[:start], text[start:stop], text[stop:]


def has_codes(text: str) -> bool:
    return _IN_TEXT.search(text) is not None


def without_codes(text: str) -> str:
    return one_line(_IN_TEXT.sub("", text))


def one_line(text: str) -> str:
    return _SPACES.sub(" ", text).strip()


def to_text(content: str, *, is_web: bool) -> tuple[TranslatableText, Callable[[str], str]]:
    """Returns the text of a part of a cue, and the function that writes the part with another text. WebVTT has
    references such as `&amp;` in its text, SRT does not."""
    if has_codes(content):
        return _to_xml(content, is_web)
    if is_web:
        return TranslatableText(unescape(one_line(content))), lambda text: escape(text, quote=False)
    return TranslatableText(one_line(content)), str


def _to_xml(content: str, is_web: bool) -> tuple[TranslatableText, Callable[[str], str]]:
    """As to_text, with codes as XML elements. A pair of codes is one element, so that it can move with its words. The
    times of words keep their order, which players require."""
    tags = stand_ins([_kind(code[0]) for code in _IN_TEXT.finditer(content)], "c")
    codes = dict(zip(tags, _IN_TEXT.findall(content), strict=True))
    xml, end = "", 0
    for tag, code in zip(tags, _IN_TEXT.finditer(content), strict=True):
        between = content[end : code.start()]
        xml += (between if is_web else escape(between, quote=False)) + tag
        end = code.end()
    xml += content[end:] if is_web else escape(content[end:], quote=False)

    def write(text: str) -> str:
        parts = _STAND_IN.split(text)
        in_order = [codes[tag] for tag in parts[1::2]]
        times = iter(sorted(filter(_TIME.fullmatch, in_order), key=[*codes.values()].index))
        parts[1::2] = [next(times) if _TIME.fullmatch(code) else code for code in in_order]
        if not is_web:
            parts[::2] = map(unescape, parts[::2])
        return "".join(parts)

    return TranslatableText(xml, "xml"), write


def _kind(code: str) -> Code:
    if begin := _BEGIN.match(code):
        return "begin", begin[1] or begin[2]
    end = _END.match(code)
    return ("end", end[1] or end[2]) if end else ("alone", "")
