"""The strings of string tables: their placeholders, tags, arguments of printf and ICU messages, of which each form is
translated by itself."""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass

from nmt.commands.documents import icu
from nmt.commands.documents.document import Template, Text
from nmt.commands.documents.printf import NAMED, in_order, numbered
from nmt.decoding.markup.blocks import Markup

log = logging.getLogger("nmt")

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
# decoding.keep for string tables: `verbatim`, and placeholders that would be something else in prose.
KEPT = (
    icu.LITERAL,
    rf"@(?:\.[a-z]+)?:(?:{_NAME}(?:\.[A-Za-z0-9_]+)*|\([^()]{{1,80}}\)|(?=\{{))",  # Vue
    NAMED,
    "verbatim",
    r"%L?\d{1,2}(?![.,]?\d)",  # Qt
    r"(?<!\d)%[A-Za-z_](?:[A-Za-z0-9_-]{0,40}[A-Za-z0-9])",  # Drupal
    r"[$#]?\{[^{}]*\}",  # ICU: `{n, number}`
    rf"(?<![A-Za-z0-9_:/.)\]}}]):{_NAME}:?",  # Laravel
    rf"\${_NAME}(?:@\d)?\$?",  # shell, Chrome
    r"(?<![A-Z])\$\d(?![.,]?\d|[A-Za-z])",  # MediaWiki; no price
    r"@[A-Z][A-Z0-9_]*@|__[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*__|#{1,3}[A-Z][A-Z0-9_]*#{1,3}",
    r"(?<![A-Za-z0-9_@!.])[@!][a-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?",  # Drupal
    r"\[_\d{1,2}\]|\[[a-z]+,_\d[^\[\]]*\]",  # Perl's Maketext
)
_TAG, _NUMBERED_TAG = re.compile(r"</?[a-zA-Z][^<>]*>"), re.compile(r"<(/?)(\d+)(\s?/?)>")
_NAMED_TAG = re.compile(r"<(/?)n(\d+)(\s?/?)>")  # a numbered one, as parsers of XML accept it
_REFERENCE = re.compile(r"&#?\w+;")


@dataclass(frozen=True)
class Message:
    """A string of a table. template: of its texts as a model reads them; writing: how the string has them; can_number:
    whether arguments of printf can have numbers."""

    string: str
    template: Template
    writing: icu.Writing
    can_number: bool

    @property
    def texts(self) -> list[Text]:
        return self.template.texts

    def with_texts(self, texts: Iterable[str]) -> str | None:
        """The string with other texts; None if arguments of printf are in an order that it cannot have."""
        new = self.template.with_texts(map(self.writing.encoded, texts))
        if self.template.markup and not _REFERENCE.search(self.string):  # such as React has it
            new = new.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        if self.template.markup == "xml":
            new = _NAMED_TAG.sub(r"<\1\2\3>", new)
        return in_order(new, self.string, can_number=self.can_number)


def message_template(string: str, *, can_number: bool = True) -> Message | Template:
    """A string of a table as texts and what stands around them. can_number: as for Message."""
    text = numbered(string)
    marked: Markup | None = None
    if _NUMBERED_TAG.search(string) and not _NAMED_TAG.search(string):  # components of React
        text, marked = _NUMBERED_TAG.sub(r"<\1n\2\3>", text), "xml"
    elif (_TAG.search(string) or _REFERENCE.search(string)) and "%<" not in string:  # `%<PRIu64>` is no tag
        marked = "html"
    parts = icu.parts_of(text)
    if parts is None:
        log.warning("left as it is: an ICU message that is not well formed: %.80r", string)
        return Template([string])
    writing = icu.Writing.of(string, has_forms=bool(parts))
    message = Message(string, template_of(parts or ["", text], writing, marked), writing, can_number)
    if message.with_texts(text.text for text in message.texts) == string:
        return message
    return Template.of_lines(string, marked)


def template_of(parts: list[str], writing: icu.Writing, markup: Markup | None) -> Template:
    """Each line is a text of those parts that are at the odd places."""
    found = [""]
    for number, part in enumerate(parts):
        lines = Template.of_lines(writing.decoded(part)).parts if number % 2 else [part]
        found[-1] += lines[0]
        found += lines[1:]
    return Template(found, markup)
