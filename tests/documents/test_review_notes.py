"""Notes in PO and XLIFF files on the units that a person reads first. All text here is made up."""

import logging
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.documents import upper
from helpers.model_files import make_checkpoint

from nmt.checkpoints import model_file
from nmt.commands import endpoint_job
from nmt.commands.translate import translate
from nmt.commands.translation_job import TranslationJob
from nmt.config.schema import Config
from nmt.decoding.confidence import CALIBRATION, Calibration
from nmt.documents.document import TranslatableText
from nmt.documents.file_formats import FORMATS
from nmt.documents.opened import OpenedDocument
from nmt.errors import NmtError

Confidence = Mapping[str, float | None]


def noted(
    name: str, content: str, confidence: Confidence, below: int = 50, *, only_missing: bool = True
) -> tuple[str, str]:
    """The translation in capitals, and the last message. confidence: of lines; that of the others is 90."""
    document = OpenedDocument.from_bytes(
        content.encode(), Path(name), FORMATS[Path(name).suffix], target_language="de", only_missing=only_missing
    )
    lines = [
        (upper(TranslatableText(line.written)).replace("%S", ""), confidence.get(line.text, 90.0))
        for line in document.marked_lines
    ]
    new, messages = document.translated(lines, Path("new"), below)
    return new.decode(), messages[-1][1] if messages else ""


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

# nmt: confidence 7
#: src/b.c:3
msgid "harbour"
msgstr "Hafen"

# nmt: confidence 8
#~ msgid "gone"
#~ msgstr "weg"

# nmt: of a person
msgid "tide"
msgstr ""

# nmt: confidence 9
msgid "lost %s"
msgstr ""
"""
PO_CONFIDENCE: Confidence = {"sail": 43.9, "%d boat": 70.0, "%d boats": 12.0, "calm": None, "storm": 49.9, "tide": 50.0}
NOTED_PO = {
    "\n#. Shown in the title.": "\n# nmt: confidence 43\n#. Shown in the title.",
    "\n#: src/a.c:15": "\n# nmt: confidence 12\n#: src/a.c:15",
    '\n#, fuzzy\nmsgid ""\n"calm': '\n# nmt: confidence 49\n#, fuzzy\nmsgid ""\n"calm',
}

XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
  <file original="a.txt" source-language="en" target-language="de" datatype="plaintext">
    <header><note from="nmt">confidence 1</note></header>
    <body>
      <trans-unit id="1">
        <source>sail</source>
        <note from="dev">A noun.</note>
        <alt-trans><source>sails</source><target>Segel</target><note from="nmt">confidence 2</note></alt-trans>
      </trans-unit>
      <trans-unit id="2">
        <source>tide</source>
        <target state="new">tide</target>
        <context-group purpose="location"><context context-type="sourcefile">a.c</context></context-group>
      </trans-unit>
      <trans-unit id="3"><source>calm</source></trans-unit>
      <trans-unit id="4">
        <source>harbour</source>
        <target>Hafen</target>
        <note from="nmt">confidence 3</note>
      </trans-unit>
      <trans-unit id="5">
        <source>The sea. The storm.</source>
        <seg-source><mrk mtype="seg" mid="1">The sea.</mrk> <mrk mtype="seg" mid="2">The storm.</mrk></seg-source>
      </trans-unit>
      <trans-unit id="6"><source>sure</source></trans-unit>
      <trans-unit id="7"><source>lost %s</source></trans-unit>
    </body>
  </file>
</xliff>
"""
XLIFF_CONFIDENCE: Confidence = {"sail": 43.9, "tide": 20.0, "calm": 0.0, "The storm.": 31.0, "lost %s": 1.0}
NOTED_XLIFF = {
    "A noun.</note>": 'A noun.</note>\n        <note from="nmt">confidence 43</note>',
    "TIDE</target>": 'TIDE</target>\n        <note from="nmt">confidence 20</note>',
    "CALM</target>": 'CALM</target><note from="nmt">confidence 0</note>',
    "STORM.</mrk></target>": 'STORM.</mrk></target>\n        <note from="nmt">confidence 31</note>',
}

XLIFF_2 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">
  <file id="f1">
    <notes><note category="nmt">confidence 1</note></notes>
    <unit id="1">
      <mda:metadata xmlns:mda="urn:oasis:names:tc:xliff:metadata:2.0"><mda:metaGroup/></mda:metadata>
      <originalData>
        <data id="d1">&lt;br&gt;</data>
      </originalData>
      <segment>
        <source>sail<ph id="1" dataRef="d1"/></source>
      </segment>
      <ignorable><source> </source></ignorable>
      <segment><source>tide</source></segment>
    </unit>
    <unit id="2">
      <notes>
        <note category="dev">A noun.</note>
      </notes>
      <segment><source>calm</source></segment>
    </unit>
    <unit id="3"><!-- <notes></notes> --><segment><source>storm</source></segment></unit>
    <unit id="4">
      <notes>
        <note category="nmt">confidence 3</note>
      </notes>
      <segment><source>harbour</source><target>Hafen</target></segment>
    </unit>
    <unit id="5"><segment><source>sure</source></segment><segment><source>lost %s</source></segment></unit>
  </file>
  <file id="f2">
    <notes><note category="nmt">confidence 1</note></notes>
    <unit id="1"><segment><source>sure too</source></segment></unit>
  </file>
</xliff>
"""
XLIFF_2_CONFIDENCE: Confidence = {"tide": 20.0, "calm": 10.0, "storm": 31.0, "lost %s": 1.0}
NOTED_XLIFF_2 = {
    "</mda:metadata>": '</mda:metadata>\n      <notes><note category="nmt">confidence 20</note></notes>',
    "A noun.</note>": 'A noun.</note>\n        <note category="nmt">confidence 10</note>',
    "<!-- <notes></notes> -->": ('<!-- <notes></notes> --><notes><note category="nmt">confidence 31</note></notes>'),
}


def prefixed(content: str) -> str:
    """The document with a prefix for the names of XLIFF."""
    new = re.sub(r"(</?)(?=\w[\w-]*[\s/>])(?!\w+:)", r"\1x:", content.replace("<?xml", "<?XML")).replace(
        "<?XML", "<?xml"
    )
    return new.replace("<!-- <x:notes></x:notes> -->", "<!-- <notes></notes> -->").replace(" xmlns=", " xmlns:x=")


CASES = {
    "PO": ("a.po", PO, PO_CONFIDENCE, NOTED_PO, "3 of 4"),
    "XLIFF 1.2": ("a.xlf", XLIFF, XLIFF_CONFIDENCE, NOTED_XLIFF, "4 of 5"),
    "XLIFF 2": ("a.xlf", XLIFF_2, XLIFF_2_CONFIDENCE, NOTED_XLIFF_2, "3 of 5"),
}
for version in ("XLIFF 1.2", "XLIFF 2"):
    name, content, confidence, changes, count = CASES[version]
    with_prefix = {prefixed(old): prefixed(new) for old, new in changes.items()}
    CASES[f"{version} with a prefix"] = name, prefixed(content), confidence, with_prefix, count


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("case", CASES)
def test_units_of_low_confidence_get_a_note(case: str, end: str) -> None:
    """All else is as without notes. A unit that could not be translated is as it was."""
    name, content, confidence, changes, count = CASES[case]
    content = content.replace("\n", end)
    new, message = noted(name, content, confidence)
    expected, without = noted(name, content, confidence, 0)
    assert content not in (new, expected) and "a note in" not in without
    for old, note in changes.items():
        old, note = old.replace("\n", end), note.replace("\n", end)
        assert expected.count(old) == 1
        expected = expected.replace(old, note)
    assert new == expected
    assert message == f"new: a note in {count} translated units: confidence below 50"
    if name == "a.xlf":
        ElementTree.fromstring(new)


@pytest.mark.parametrize("case", CASES)
def test_notes_are_replaced(case: str) -> None:
    """Only those of nmt, when their units are translated again."""
    name, content, confidence, *_ = CASES[case]
    new, _ = noted(name, content, confidence)
    assert noted(name, new, confidence)[0] == new
    more = {line: value and value + 5 for line, value in confidence.items()}
    again, _ = noted(name, new, more, 60, only_missing=False)
    assert again.count("confidence") == new.count("confidence") - 1 + (name == "a.po")  # not of harbour; of tide
    assert noted(name, again, more, 60, only_missing=False)[0] == again
    unmarked, message = noted(name, again, {}, only_missing=False)
    assert unmarked == noted(name, without_harbour(content), {}, 0, only_missing=False)[0]
    assert "a note in 0 of" in message
    assert noted(name, again, {}, 0, only_missing=False)[0] == again  # without the option, all notes stay


def without_harbour(content: str) -> str:
    """The document without the note of the unit that has a translation."""
    content = re.sub(r"# nmt: confidence 7\n|\n *<[x:]*note from=\"nmt\">confidence 3</[x:]*note>", "", content)
    return re.sub(
        r"\n *<[x:]*notes>\n *<[x:]*note category=\"nmt\">confidence 3</[x:]*note>\n *</[x:]*notes>", "", content
    )


def test_a_note_stays_if_a_part_of_its_unit_stays() -> None:
    form = '# nmt: confidence 7\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] "{}"\nmsgstr[1] ""\n'
    assert noted("a.po", form.format("kept"), {})[0].startswith("# nmt: confidence 7\n")
    assert noted("a.po", form.format(""), {})[0].startswith("#, fuzzy\n")
    note, segment = '<notes><note category="nmt">confidence 7</note></notes>', "<segment><source>a</source>{}</segment>"
    form = (
        f"<xliff version='2.0' trgLang='de'><unit>{note}{segment}<segment><source>b</source></segment></unit></xliff>"
    )
    assert note in noted("a.xlf", form.format("<target>kept</target>"), {})[0]
    assert note not in noted("a.xlf", form.format(""), {})[0]


def test_the_least_sure_line_of_a_text_counts() -> None:
    source = '<g id="1">The sea</g> is calm. The <g id="2">storm</g> is near.'
    content = f"<xliff><trans-unit><source>{source}</source></trans-unit></xliff>"
    new, _ = noted("a.xlf", content, {"The sea is calm.": 33.0, "The storm is near.": 44.0})
    assert new.endswith('</target><note from="nmt">confidence 33</note></trans-unit></xliff>')


def test_a_note_among_others() -> None:
    notes = '<note from="a">1</note><note from="nmt">confidence 5</note><note from="b">2</note>'
    content = f"<xliff><trans-unit><source>sea</source>{notes}</trans-unit></xliff>"
    assert notes.replace("5", "33") in noted("a.xlf", content, {"sea": 33.0})[0]
    assert '<note from="a">1</note><note from="b">2</note>' in noted("a.xlf", content, {})[0]


def test_comments_in_an_unusual_order() -> None:
    content = (
        '#, c-format\n# nmt: confidence 7\nmsgid "a"\nmsgstr ""\n#: b.c\n# nmt: confidence 7\nmsgid "b"\nmsgstr ""'
    )
    assert noted("a.po", content, {"a": 1.0, "b": 2.0})[0] == (
        '# nmt: confidence 1\n#, fuzzy, c-format\n# nmt: confidence 7\nmsgid "a"\nmsgstr "A"\n'
        '#: b.c\n# nmt: confidence 2\n#, fuzzy\nmsgid "b"\nmsgstr "B"'
    )


@pytest.mark.skipif(shutil.which("msgattrib") is None, reason="needs gettext")
def test_gettext_reads_the_notes(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(noted("a.po", PO, PO_CONFIDENCE)[0])
    command = ["msgattrib", "--no-wrap", "--clear-fuzzy", "a.po"]
    accepted = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert '# As in the manual.\n# nmt: confidence 43\n#. Shown in the title.\n#: src/a.c:12\nmsgid "sail"' in accepted


@pytest.fixture
def job(make_config: Callable[..., Config], tmp_path: Path) -> TranslationJob:
    """With a calibrated model."""
    checkpoint = make_checkpoint(make_config("decoding.max_extra_tokens=3"))
    calibration = Calibration("dev.en", 200, 0.5, (0.0, 0.0, 0.0, 0.0, -1.0), 20.0)  # 26.9 for each line
    provenance = {**checkpoint.provenance, CALIBRATION: calibration.to_json()}
    model_file.save(tmp_path / "model", replace(checkpoint, provenance=provenance))
    model_file.save(tmp_path / "other", checkpoint)
    (tmp_path / "a.po").write_text('msgid "one"\nmsgstr ""\n\nmsgid "two"\nmsgstr "zwei"\n')
    return TranslationJob(
        model=tmp_path / "model", source=tmp_path / "a.po", output=tmp_path / "out.po", device="cpu", review_below=27
    )


def test_command(job: TranslationJob, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nmt")
    assert job.output is not None
    for below, count in ((26, 0), (27, 1)):
        translate(replace(job, review_below=below))
        assert job.output.read_text().count("# nmt: confidence 26\n#, fuzzy\nmsgid") == count
        assert f"a note in {count} of 1 translated units: confidence below {below}" in caplog.text


def test_what_has_no_confidence(job: TranslationJob, tmp_path: Path) -> None:
    for name in ("a.txt", "a.srt", "a.json"):
        (tmp_path / name).write_text("")
        with pytest.raises(NmtError, match="--review-below is for PO and XLIFF files"):
            translate(replace(job, source=tmp_path / name))
    other = tmp_path / "other"
    with pytest.raises(NmtError, match=f"--review-below: {other} has no calibration: nmt calibrate {other} --source"):
        translate(replace(job, model=other))
    with pytest.raises(NmtError, match="--review-below: an ensemble has no confidence"):
        translate(replace(job, ensemble=[job.model]))
    with pytest.raises(NmtError, match="an endpoint translates lines of text"):
        endpoint_job.translate(job)
    assert not (tmp_path / "out.po").exists()
