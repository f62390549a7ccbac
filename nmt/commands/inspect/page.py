"""An inspection as one HTML file that needs nothing else: no network, no other file, no library."""

from nmt.commands.html_page import html_page
from nmt.commands.inspect import text
from nmt.commands.inspect.inspect import Inspection


def page(seen: Inspection) -> str:
    """The page, with its style, its script and its data inside."""
    data = text.to_data(seen, digits=4, position_digits=2)  # enough to look at
    return html_page("nmt.commands.inspect", f"{seen.source.text} – nmt", data)
