"""Writes the folder of an inspection: page and data."""

import json
import logging
from pathlib import Path

from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_new_folder
from nmt.files.text import lines_out
from nmt.pages.html_page import html_page
from nmt.pages.inspect.inspect import Inspection
from nmt.pages.inspect.text import FORMAT, to_data

log = logging.getLogger("nmt")

PAGE, DATA = "index.html", "inspection.json"
_START = json.dumps({"format": FORMAT})[:-1].encode()  # how the data of an inspection begins


def check(folder: Path) -> None:
    """Raises NmtError if the folder cannot be written, or has files of the same names from another program."""
    check_new_folder(folder)
    try:
        is_inspection = (folder / DATA).read_bytes().startswith(_START)
    except OSError:
        is_inspection = False
    existing = [path for path in (folder / PAGE, folder / DATA) if path.exists()]
    if existing and not is_inspection:
        raise NmtError(f"{existing[0]}: exists and was not written by nmt inspect: choose another --output")


def write(inspection: Inspection, folder: Path) -> None:
    """Write the page and the data into a checked folder, in place of those of an earlier inspection. Raises NmtError if
    the folder cannot be written."""
    with atomic.reporting(folder, "--output"):
        atomic.make_folder(folder)
    data = json.dumps(to_data(inspection), ensure_ascii=False)
    for name, content in ((DATA, data), (PAGE, page(inspection))):
        with lines_out(folder / name) as write_line:
            write_line(content)
    log.info("written: %s (open it in a browser), %s", folder / PAGE, DATA)


def page(inspection: Inspection) -> str:
    """The inspection as one HTML file that loads nothing."""
    data = to_data(inspection, digits=4, position_digits=2)  # enough for display
    return html_page("nmt.pages.inspect", f"{inspection.source.text} – nmt", data)
