"""An inspection as one HTML file that needs no network, no other file and no library."""

from nmt.commands.html_page import html_page
from nmt.commands.inspect import text
from nmt.commands.inspect.inspect import Inspection


def page(inspection: Inspection) -> str:
    """The page, with its style, its script and its data inside."""
    data = text.to_data(inspection, digits=4, position_digits=2)  # enough for display
    return html_page("nmt.commands.inspect", f"{inspection.source.text} – nmt", data)
