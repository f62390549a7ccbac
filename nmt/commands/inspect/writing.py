"""The files of an inspection: page, data and pictures."""

import json
import logging
from pathlib import Path

from nmt.commands.inspect.inspect import Inspection
from nmt.commands.inspect.page import page
from nmt.commands.inspect.text import FORMAT, to_data
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.text import lines_out

log = logging.getLogger("nmt")

PAGE, DATA = "index.html", "inspection.json"
_FIRST = json.dumps({"format": FORMAT})[:-1].encode()  # how our own data begin
_MATPLOTLIB = (3, 11)  # the first that joins Arabic letters and puts right-to-left text in order


def check_pictures() -> None:
    """Raise NmtError where there is nothing to draw pictures with."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise NmtError(
            "pictures need the package matplotlib: pip install 'matplotlib>=3.11', or add --no-pictures for the page "
            "alone"
        ) from None
    if matplotlib.__version_info__[:2] < _MATPLOTLIB:
        raise NmtError(
            f"pictures need matplotlib 3.11 or newer, for text in all scripts, and {matplotlib.__version__} is "
            "installed: pip install --upgrade matplotlib, or add --no-pictures for the page alone"
        )


def check_folder(folder: Path) -> None:
    """Raise NmtError for a folder with files that are not of an inspection and would be overwritten."""
    try:
        ours = (folder / DATA).read_bytes().startswith(_FIRST)
    except OSError:
        ours = False
    taken = [path for path in (folder / PAGE, folder / DATA, *folder.glob("*.png")) if path.exists()]
    if taken and not ours:
        raise NmtError(f"{taken[0]}: is not of nmt inspect and could be overwritten: choose another --output")


def write(seen: Inspection, folder: Path, layer: int | None = None, *, pictures: bool = True) -> list[Path]:
    """Write all files into a folder, made if it is not there, over those of an earlier inspection; return them.

    layer: from 0, which the pictures show head by head. Raises NmtError where there is no such layer or the folder
    cannot be written.
    """
    layers = max(len(weights) for weights in seen.attention.values())
    if layer is not None and layer >= layers:
        raise NmtError(f"--layer {layer + 1}: this model has {layers} layers: give a number from 1 to {layers}")
    check_folder(folder)
    with atomic.reporting(folder, "--output"):
        atomic.make_folder(folder)
    data = json.dumps(to_data(seen), ensure_ascii=False)
    for name, content in ((DATA, data), (PAGE, page(seen))):
        with lines_out(folder / name) as write_line:
            write_line(content)
    written = [folder / PAGE, folder / DATA]
    if pictures:
        from nmt.commands.inspect import pictures as drawing

        written += drawing.write(seen, folder, layer)
    log.info("%s: written, to open in a browser; beside it %s", written[0], ", ".join(one.name for one in written[1:]))
    return written
