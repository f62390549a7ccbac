"""Strings of string tables: their placeholders, tags, printf arguments and ICU messages. Each form of an ICU message is
translated separately."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from nmt.decoding.markup.blocks import Markup
from nmt.documents.document import NotTranslatable, Template, TranslatableText
from nmt.documents.placeholders import icu
from nmt.documents.placeholders.codes import CodedText, coded
from nmt.documents.placeholders.printf import DATE, NAMED, NUMBERED, ArgumentOrder, in_order, numbered

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
# Patterns of decoding.keep for string tables: `verbatim`, and placeholders that are ordinary text in prose.
PLACEHOLDERS = (
    icu.LITERAL,
    rf"@(?:\.[a-z]+)?:(?:{_NAME}(?:\.[A-Za-z0-9_]+)*|\([^()]{{1,80}}\)|(?=\{{))",  # Vue
    NAMED,
    r"(?<!\d)%\d{1,2}%(?![A-Za-z0-9_%])|%\|[^|\s%]{1,20}\|",  # Boost
    r"%\d{1,2}:-?[\d.*]{0,9}[A-Za-z](?![A-Za-z])",  # Object Pascal
    DATE,
    "verbatim",
    r"%L?\d{1,2}(?![.,]?\d)",  # Qt
    r"(?<!\d)%[A-Za-z_](?:[A-Za-z0-9_-]{0,40}[A-Za-z0-9])",  # Drupal
    r"[$#]?\{[^{}]*\}",  # ICU: `{n, number}`
    rf"(?<![A-Za-z0-9_:/.)\]}}]):{_NAME}:?",  # Laravel
    rf"\${_NAME}(?:@\d)?\$?",  # shell, Chrome
    r"(?<![A-Z])\$\d(?![.,]?\d|[A-Za-z])",  # MediaWiki; not a price
    r"@[A-Z][A-Z0-9_]*@|__[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*__|#{1,3}[A-Z][A-Z0-9_]*#{1,3}",
    r"(?<![A-Za-z0-9_@!.])[@!][a-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?",  # Drupal
    r"\[_\d{1,2}\]|\[[a-z]+,_\d[^\[\]]*\]",  # Perl's Maketext
)
_TAG, _NUMBERED_TAG = (
    re.compile(r"<[/!]?[a-zA-Z](?:[^<>\"']++|\"[^\"]*\"|'[^']*')*>"),
    re.compile(r"<(/?)(\d+)(\s?/?)>"),
)
_NAMED_TAG = re.compile(r"<(/?)n(\d+)(\s?/?)>")  # a numbered tag in a form that XML parsers accept
_NAME_OF_ARGUMENT = re.compile(r"%[^\s<>%]{0,20}<\w{1,40}>")  # not a tag
_REFERENCE = re.compile(r"&#?\w+;")


class Malformed(Template):
    """An ICU message that is not well formed. It has no texts."""

    def with_texts(self, texts: Iterable[str]) -> str:
        raise NotTranslatable(f"the ICU message is not well formed: {self.parts[0]!r:.80}")


@dataclass(frozen=True)
class Message:
    """A string of a string table."""

    string: str
    template: Template  # with the texts as the model reads them
    coded: CodedText  # restores the codes
    style: icu.IcuStyle  # how the texts are written in the string
    order: ArgumentOrder  # which arguments can have numbers

    @property
    def texts(self) -> list[TranslatableText]:
        return self.template.texts

    def with_texts(self, texts: Iterable[str]) -> str:
        """The string with other texts. Raises NotTranslatable if its arguments cannot have the order of the texts."""
        new = self.template.with_texts(map(self.style.encoded, texts))
        if self.template.markup and not _REFERENCE.search(self.string):  # for example React
            new = new.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        if self.template.markup == "xml":
            new = _NAMED_TAG.sub(r"<\1\2\3>", new)
        return in_order(self.coded.restored(new), self.string, self.order)


def message_template(string: str, order: ArgumentOrder = NUMBERED) -> Message | Template:
    """Reads a string of a string table."""
    marked: Markup | None = None
    if _NUMBERED_TAG.search(string) and not _NAMED_TAG.search(string):  # components of React
        marked = "xml"
    elif _REFERENCE.search(string) or _TAG.search(_NAME_OF_ARGUMENT.sub("", string)) or _has_comment(string):
        marked = "html"
    has_forms = icu.has_forms(string)
    text = coded(numbered(string), has_tags=marked is not None, has_forms=has_forms)
    marked = marked or ("xml" if text.codes else None)
    parts = icu.split_message(_NUMBERED_TAG.sub(r"<\1n\2\3>", text.text) if marked == "xml" else text.text)
    if parts is None:
        return Malformed([string])
    style = icu.IcuStyle.from_string(string, has_forms=has_forms)
    order = replace(order, printf=order.printf and not has_forms)  # each form has the same arguments
    message = Message(string, template_from_parts(parts, style, marked), text, style, order)
    if message.with_texts(text.text for text in message.texts) == string:
        return message
    return Template.from_lines(string, marked)


def _has_comment(string: str) -> bool:
    start = string.find("<!--")
    return start >= 0 and string.find("-->", start) >= 0


def template_from_parts(parts: list[str], style: icu.IcuStyle, markup: Markup | None) -> Template:
    """A template whose texts are the lines of the parts at odd indices, as from icu.split_message."""
    template_parts, between = list[str](), list[str]()  # between: the syntax before the next text
    for i, part in enumerate(parts):
        first, *others = Template.from_lines(style.decoded(part), markup).parts if i % 2 else [part]
        between.append(first)
        if others:
            template_parts += "".join(between), *others[:-1]
            between = others[-1:]
    return Template([*template_parts, "".join(between)], markup)
