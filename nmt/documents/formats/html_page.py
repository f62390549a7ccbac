"""HTML pages. A page is one text with tags."""

from pathlib import Path

from nmt.documents.document import Document, Segment, TranslatableText
from nmt.documents.placeholders.codes import coded


def read(content: str, path: Path) -> Document:
    """Reads a page or a template of a page. HTML that is not well formed is read as browsers read it."""
    page = coded(content, has_tags=True, is_page=True)
    text = TranslatableText(page.text, "html")
    return Document(content, [Segment(0, len(content), [text], lambda texts: page.restored(texts[0]))])
