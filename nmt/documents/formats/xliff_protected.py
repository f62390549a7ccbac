"""What is not translated inside a text of XLIFF: `<mrk translate="no">`, `<mrk mtype="protected">` of version 1.2, and
what stands between `<sm translate="no"/>` and its `<em/>`, which can be in another segment.
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
_CODE = re.compile(r"<((?:[\w.-]+:)?(?:ph|bpt|ept|it|ut))\b[^<>]*(?<!/)>[^<]*</\1\s*>")  # of the document's format
_BRACKETS = re.compile(r"[{}\[\]]")
_STAND_IN = re.compile(r'<protected nmt="(\d+)" translate="no">[^<]*</protected>')


@dataclass(frozen=True)
class ProtectedText:
    """A text as it is translated. text: with elements that are not translated in place of what is protected; these have
    no tags inside, nor brackets, which could belong to one outside. texts: what is protected."""

    text: str
    texts: Sequence[str]

    def restored(self, translation: str) -> str:
        """A translation of the text with what is protected as it was."""
        return _STAND_IN.sub(lambda found: self.texts[int(found[1])], translation)


def open_marker(content: str, marker: str = "") -> str:
    """The id of the `<sm/>` that is open behind the content of an element, or nothing. marker: the one before it."""
    return _spans(content, marker)[1]


def protected(content: str, marker: str = "") -> ProtectedText | None:
    """The content of an element, or None if an element in it is only partly protected. marker: the id of an `<sm/>`
    that is open before it."""
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
    """Where protected parts begin and end, or None if one has a tag of an element without its other tag; and what
    `open_marker` returns."""
    spans, depth, overlaps = list[tuple[int, int]](), 0, False
    start, level, in_mrk = 0, 0, False  # of the part that is open: its first character, and how deep it is
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
