"""Text without a format: each line is a text."""

from pathlib import Path

from nmt.documents.document import Document, Segment, Template


def read(content: str, path: Path) -> Document:
    """The lines, without the white space around them."""
    template = Template.of_lines(content)
    return Document(content, [Segment(0, len(content), template.texts, template.with_texts)])
