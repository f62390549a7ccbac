"""The strings of string tables: their placeholders, tags, arguments of printf and ICU messages, of which each form is
translated by itself."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from nmt.decoding.markup.blocks import Markup
from nmt.documents.document import NotTranslatable, Template, TranslatableText
from nmt.documents.placeholders import icu
from nmt.documents.placeholders.codes import CodedText, coded
from nmt.documents.placeholders.printf import DATE, NAMED, NUMBERED, ArgumentOrder, in_order, numbered

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
# decoding.keep for string tables: `verbatim`, and placeholders that would be something else in prose.
KEPT = (
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
    r"(?<![A-Z])\$\d(?![.,]?\d|[A-Za-z])",  # MediaWiki; no price
    r"@[A-Z][A-Z0-9_]*@|__[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*__|#{1,3}[A-Z][A-Z0-9_]*#{1,3}",
    r"(?<![A-Za-z0-9_@!.])[@!][a-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?",  # Drupal
    r"\[_\d{1,2}\]|\[[a-z]+,_\d[^\[\]]*\]",  # Perl's Maketext
)
_TAG, _NUMBERED_TAG = (
    re.compile(r"<[/!]?[a-zA-Z](?:[^<>\"']++|\"[^\"]*\"|'[^']*')*>"),
    re.compile(r"<(/?)(\d+)(\s?/?)>"),
)
_NAMED_TAG = re.compile(r"<(/?)n(\d+)(\s?/?)>")  # a numbered one, as parsers of XML accept it
_NAME_OF_ARGUMENT = re.compile(r"%[^\s<>%]{0,20}<\w{1,40}>")  # no tag
_REFERENCE = re.compile(r"&#?\w+;")


class Malformed(Template):
    """An ICU message that is not well formed, without texts."""

    def with_texts(self, texts: Iterable[str]) -> str:
        raise NotTranslatable(f"it is an ICU message that is not well formed: {self.parts[0]!r:.80}")


@dataclass(frozen=True)
class Message:
    """A string of a table. template: of its texts as a model reads them; coded: what has the codes of its tags;
    writing: how the string has its texts; order: which arguments of printf and the like can have numbers."""

    string: str
    template: Template
    coded: CodedText
    writing: icu.IcuStyle
    order: ArgumentOrder

    @property
    def texts(self) -> list[TranslatableText]:
        return self.template.texts

    def with_texts(self, texts: Iterable[str]) -> str:
        """The string with other texts. Raises NotTranslatable if its arguments are in an order that it cannot have."""
        new = self.template.with_texts(map(self.writing.encoded, texts))
        if self.template.markup and not _REFERENCE.search(self.string):  # such as React has it
            new = new.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        if self.template.markup == "xml":
            new = _NAMED_TAG.sub(r"<\1\2\3>", new)
        return in_order(self.coded.restored(new), self.string, self.order)


def message_template(string: str, order: ArgumentOrder = NUMBERED) -> Message | Template:
    """A string of a table as texts and what stands around them."""
    marked: Markup | None = None
    if _NUMBERED_TAG.search(string) and not _NAMED_TAG.search(string):  # components of React
        marked = "xml"
    elif _REFERENCE.search(string) or _TAG.search(_NAME_OF_ARGUMENT.sub("", string)) or _has_comment(string):
        marked = "html"
    has_forms = icu.has_forms(string)
    text = coded(numbered(string), has_tags=marked is not None, has_forms=has_forms)
    marked = marked or ("xml" if text.codes else None)
    parts = icu.parts_of(_NUMBERED_TAG.sub(r"<\1n\2\3>", text.text) if marked == "xml" else text.text)
    if parts is None:
        return Malformed([string])
    writing = icu.IcuStyle.of(string, has_forms=has_forms)
    order = replace(order, printf=order.printf and not has_forms)  # each form has the same arguments
    message = Message(string, template_of(parts, writing, marked), text, writing, order)
    if message.with_texts(text.text for text in message.texts) == string:
        return message
    return Template.of_lines(string, marked)


def _has_comment(string: str) -> bool:
    start = string.find("<!--")
    return start >= 0 and string.find("-->", start) >= 0


def template_of(parts: list[str], writing: icu.IcuStyle, markup: Markup | None) -> Template:
    """Each line is a text of those parts that are at the odd places."""
    found, between = list[str](), list[str]()  # between: what stands before the next text
    for number, part in enumerate(parts):
        first, *others = Template.of_lines(writing.decoded(part), markup).parts if number % 2 else [part]
        between.append(first)
        if others:
            found += "".join(between), *others[:-1]
            between = others[-1:]
    return Template([*found, "".join(between)], markup)
