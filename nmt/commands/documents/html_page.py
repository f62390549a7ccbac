"""HTML, of which all is one text with tags."""

from pathlib import Path

from nmt.commands.documents.document import Document, Segment, Text


def read(content: str, path: Path) -> Document:
    """The text of a page. What is not well formed is read as browsers do."""
    return Document(content, [Segment(0, len(content), [Text(content, "html")], lambda texts: texts[0])])
