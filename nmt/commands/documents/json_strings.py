"""String tables in JSON, as i18next and others have them, and ARB (Flutter). Not text are in ARB keys with `@`, and in
others `@metadata`, which MediaWiki's have."""

import json
import re
from pathlib import Path

from nmt.commands.documents.document import Document, Segment
from nmt.commands.documents.messages import KEPT, message_template
from nmt.errors import NmtError

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')


def read(content: str, path: Path) -> Document:
    """Every string that is a value. Raises NmtError for what is not JSON."""
    try:
        json.loads(content)
    except RecursionError:
        raise NmtError(f"{path}: objects nested too deeply to be read") from None
    except ValueError as error:
        raise NmtError(f"{path}: not JSON: {error}") from None
    segments = list[Segment]()
    keys, in_object = [""], [False]  # the key of what is read in each open object or list
    token_before, no_text = "", "@" if path.suffix.lower() == ".arb" else '@metadata"'
    for token in _TOKEN.finditer(content):
        kind = token[0][0]
        if kind in "{[":
            keys.append("")
            in_object.append(kind == "{")
        elif kind in "}]":
            keys.pop()
            in_object.pop()
        elif kind == '"' and in_object[-1] and token_before != ":":
            keys[-1] = token[0][1:]
        elif kind == '"' and not any(key.startswith(no_text) for key in keys):
            segments.append(_segment(token))
        token_before = kind
    return Document(content, segments, KEPT)


def _segment(token: re.Match[str]) -> Segment:
    string = json.loads(token[0], strict=False)
    template = message_template(string)
    in_ascii = "\\u" in token[0] and token[0].isascii()  # so the others are written as they are

    def write(texts: list[str]) -> str:
        new = template.with_texts(texts)
        return token[0] if new in (string, None) else json.dumps(new, ensure_ascii=in_ascii)

    return Segment(token.start(), token.end(), template.texts, write)  # type: ignore[arg-type]
