"""HTML, of which all is one text with tags."""

from pathlib import Path

from nmt.documents.document import Document, Segment, TranslatableText
from nmt.documents.placeholders.codes import coded


def read(content: str, path: Path) -> Document:
    """The text of a page, or of the template of one. What is not well formed is read as browsers do."""
    page = coded(content, has_tags=True, is_page=True)
    return Document(
        content,
        [Segment(0, len(content), [TranslatableText(page.text, "html")], lambda texts: page.restored(texts[0]))],
    )
