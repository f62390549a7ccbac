"""Writes the folder of an inspection: page, data and pictures."""

import json
import logging
from pathlib import Path

from nmt.commands.html_page import html_page
from nmt.commands.inspect.inspect import Inspection
from nmt.commands.inspect.text import FORMAT, to_data
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_new_folder
from nmt.files.text import lines_out

log = logging.getLogger("nmt")

PAGE, DATA = "index.html", "inspection.json"
_PICTURES = ("attention-*.png", "alignment.png", "positions.png")
_START = json.dumps({"format": FORMAT})[:-1].encode()  # of our own data


def check(folder: Path, *, pictures: bool) -> None:
    """Raises NmtError if the folder cannot be written to, files that no inspection wrote could be overwritten, or
    matplotlib is missing or too old for pictures."""
    check_new_folder(folder)
    try:
        ours = (folder / DATA).read_bytes().startswith(_START)
    except OSError:
        ours = False
    taken = [path for path in (folder / PAGE, folder / DATA, *folder.glob("*.png")) if path.exists()]
    if taken and not ours:
        raise NmtError(f"{taken[0]}: exists and was not written by nmt inspect: choose another --output")
    if not pictures:
        return
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise NmtError(
            "pictures need the package matplotlib: pip install 'matplotlib>=3.11', or use --no-pictures"
        ) from None
    if matplotlib.__version_info__[:2] < (3, 11):  # the first that draws Arabic and right-to-left text correctly
        raise NmtError(
            f"pictures need matplotlib 3.11 or newer, for text in all scripts, and {matplotlib.__version__} is "
            "installed: pip install --upgrade matplotlib, or use --no-pictures"
        )


def write(inspection: Inspection, folder: Path, layer: int | None = None, *, pictures: bool = True) -> None:
    """Write all files into a folder that is checked, in place of those of an earlier inspection.

    layer: the layer (from 0) of which pictures show each head; default: that of the alignment. Raises NmtError if the
    model does not have this layer or the folder cannot be written.
    """
    layers = max(map(len, inspection.inside.attention.values()), default=0)
    if layer is not None and layer >= layers:
        fix = f"give a number from 1 to {layers}" if layers > 1 else "leave this option out"
        raise NmtError(f"--layer {layer + 1}: this model has {layers} layer{'s' * (layers != 1)} of attention: {fix}")
    with atomic.reporting(folder, "--output"):
        atomic.make_folder(folder)
        for old in [path for name in _PICTURES for path in folder.glob(name)]:  # some may not be drawn this time
            old.unlink()
    data = json.dumps(to_data(inspection), ensure_ascii=False)
    for name, content in ((DATA, data), (PAGE, page(inspection))):
        with lines_out(folder / name) as write_line:
            write_line(content)
    drawn: list[Path] = []
    if pictures:
        from nmt.commands.inspect import pictures as drawing

        drawn = drawing.write(inspection, folder, layer)
    others = ", ".join([DATA, *(path.name for path in drawn)])
    log.info("written: %s (open it in a browser), %s", folder / PAGE, others)


def page(inspection: Inspection) -> str:
    """The inspection as one HTML file that loads nothing."""
    data = to_data(inspection, digits=4, position_digits=2)  # enough for display
    return html_page("nmt.commands.inspect", f"{inspection.source.text} – nmt", data)
