"""Protected text of XLIFF, which is not translated: the content of `<mrk translate="no">`, in version 1.2 also of
`<mrk mtype="protected">`, and everything between `<sm translate="no"/>` and its `<em/>`, which can be in another
segment.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TAG = re.compile(
    r"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>
    |<(?P<closes>/?)(?:[\w.-]+:)?(?P<name>[\w.-]+)(?P<rest>(?:[^<>"']|"[^"]*"|'[^']*')*+)>""",
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""(?<![\w.:-])(?:[\w.-]+:)?+([\w.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_CODE = re.compile(r"<((?:[\w.-]+:)?(?:ph|bpt|ept|it|ut))\b[^<>]*(?<!/)>[^<]*</\1\s*>")  # codes of the original format
_BRACKETS = re.compile(r"[{}\[\]]")
_STAND_IN = re.compile(r'<protected nmt="(\d+)" translate="no">[^<]*</protected>')


@dataclass(frozen=True)
class ProtectedText:
    """A text in which elements replace the protected texts. The elements contain no tags, and no brackets, which could
    form a pair with a bracket outside."""

    text: str
    texts: Sequence[str]  # the protected texts

    def restored(self, translation: str) -> str:
        """A translation of the text, with the protected texts."""
        return _STAND_IN.sub(lambda element: self.texts[int(element[1])], translation)


def open_marker(content: str, marker: str = "") -> str:
    """The id of the `<sm/>` that is open after the content of an element; empty if there is none. marker: the id of the
    one that is open before it."""
    return _spans(content, marker)[1]


def protected(content: str, marker: str = "") -> ProtectedText | None:
    """Protects the content of an element. Returns None if an element in it is only partly protected. marker: the id of
    an `<sm/>` that is open before it."""
    spans, _ = _spans(content, marker)
    if spans is None:
        return None
    text, texts, end = "", list[str](), 0
    for start, stop in spans:
        inside = _BRACKETS.sub("", _TAG.sub("", _CODE.sub("", content[start:stop])))
        text += f'{content[end:start]}<protected nmt="{len(texts)}" translate="no">{inside}</protected>'
        texts.append(content[start:stop])
        end = stop
    return ProtectedText(text + content[end:], texts)


def _spans(content: str, marker: str) -> tuple[list[tuple[int, int]] | None, str]:
    """The spans of protected texts, or None if one of them contains only one tag of an element; and what `open_marker`
    returns."""
    spans, depth, overlaps = list[tuple[int, int]](), 0, False
    start, level, in_mrk = 0, 0, False  # start and depth of the open protected text
    for tag in _TAG.finditer(content):
        if not tag["name"]:
            continue
        is_opening, outside = not tag["closes"] and not tag["rest"].endswith("/"), depth
        depth += is_opening - bool(tag["closes"])
        if in_mrk:
            if depth == level:
                spans.append((start, tag.end()))
                in_mrk = False
            continue
        attributes = {name: double or single for name, double, single in _ATTRIBUTE.findall(tag["rest"])}
        if marker:
            overlaps |= depth < level
            if tag["name"] == "em" and attributes.get("startRef") == marker:
                overlaps |= depth != level
                spans.append((start, tag.end()))
                marker = ""
        elif tag["name"] == "sm" and attributes.get("translate") == "no":
            start, level, marker = tag.start(), depth, attributes.get("id", "")
        elif tag["name"] == "mrk" and is_opening:
            in_mrk = attributes.get("translate") == "no" or attributes.get("mtype") == "protected"
            start, level = tag.start(), outside
    if marker:
        overlaps |= depth != level
        spans.append((start, len(content)))
    return None if overlaps else spans, marker
