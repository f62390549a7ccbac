"""Text files. Each line is a text."""

from pathlib import Path

from nmt.documents.document import Document, Segment, Template


def read(content: str, path: Path) -> Document:
    """Reads the lines, without the white space around them."""
    template = Template.from_lines(content)
    return Document(content, [Segment(0, len(content), template.texts, template.with_texts)])
