"""An XML parser for untrusted files. It rejects entities, with which a small file can fill the memory."""

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
    """A parser that raises NmtError for a declaration of an entity.

    where: the file's name in messages. encoding: of the bytes, whatever the file declares; None: as the file declares.
    separator: between the namespace and the name of an element; None: names are not expanded.
    """
    parser = expat.ParserCreate(encoding, separator)

    def refuse(name: str, *_: object) -> None:
        raise NmtError(
            f"{where}:{parser.CurrentLineNumber}: declares the entity &{name};: entities could fill the memory: remove "
            "the declaration"
        )

    parser.EntityDeclHandler = refuse
    return parser


def parse(parser: expat.XMLParserType, data: bytes, where: str, *, last: bool = True) -> None:
    """Parse the next part of a file. last: whether it is the last part. Raises NmtError if the XML is not well-formed,
    and the exceptions of the parser's handlers."""
    try:
        parser.Parse(data, last)
    except expat.ExpatError as error:
        hint = ": the file is empty or cut off" if error.code in _CUT_OFF else ""
        raise NmtError(
            f"{where}:{error.lineno}: not well-formed XML: {expat.ErrorString(error.code)}{hint}: export or download "
            "it again"
        ) from None


def end_of_tag(data: bytes, start: int) -> int:
    """The end of the tag that begins at `start`; `start` if no tag begins there. Attributes may contain `>`."""
    tag = _TAG.match(data, start)
    return tag.end() if tag else start
