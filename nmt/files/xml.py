"""The XML parser for files of others: it refuses entities, with which a small file can fill the memory."""

import re
from xml.parsers import expat

from nmt.errors import NmtError

_CUT_OFF = {
    expat.errors.codes[reason]
    for reason in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
    )
}
_TAG = re.compile(rb"""<(?:[^<>"']|"[^"]*"|'[^']*')*>""")


def guarded_parser(where: str, encoding: str | None = "utf-8", separator: str | None = None) -> expat.XMLParserType:
    """A parser that raises NmtError for a declaration of an entity. where: names the file in messages; encoding: that
    of the bytes, whatever the file declares, or None for what it declares; separator: what stands between the namespace
    and the name of an element, or None for names as they are written."""
    parser = expat.ParserCreate(encoding, separator)

    def refuse(name: str, *_: object) -> None:
        raise NmtError(
            f"{where}:{parser.CurrentLineNumber}: declares the entity &{name};: entities could fill the memory: remove "
            "the declaration"
        )

    parser.EntityDeclHandler = refuse
    return parser


def parse(parser: expat.XMLParserType, data: bytes, where: str, *, last: bool = True) -> None:
    """Parse the next part of a file, which may be the last one. Raises NmtError for what is not well-formed, and what
    the handlers of the parser raise."""
    try:
        parser.Parse(data, last)
    except expat.ExpatError as error:
        hint = ": the file is empty or cut off" if error.code in _CUT_OFF else ""
        raise NmtError(
            f"{where}:{error.lineno}: not well-formed XML: {expat.ErrorString(error.code)}{hint}: export or download "
            "it again"
        ) from None


def end_of_tag(data: bytes, start: int) -> int:
    """Behind the tag that begins at `start`, or `start` if none does. In attributes, `>` can stand as it is."""
    tag = _TAG.match(data, start)
    return tag.end() if tag else start
