"""Notes in PO and XLIFF files on the units that a person reads first. All text here is made up."""

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


def noted(name: str, content: str, confidence: Confidence, below: int = 50, *, only_missing: bool = True) -> str:
    """The translation in capitals. confidence: of lines; that of the others is 90."""
    document = OpenedDocument.from_bytes(
        content.encode(), Path(name), FORMATS[Path(name).suffix], target_language="de", only_missing=only_missing
    )
    lines = [
        (upper(TranslatableText(line.written)).replace("%S", ""), confidence.get(line.text, 90.0))
        for line in document.marked_lines
    ]
    return document.translated(lines, Path("new"), below)[0].decode()


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
    "SAIL</target>": 'SAIL</target>\n        <note from="nmt">confidence 43</note>',
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
    '        <note category="dev">': '        <note category="nmt">confidence 10</note>\n        <note category="dev">',
    "<!-- <notes></notes> -->": ('<!-- <notes></notes> --><notes><note category="nmt">confidence 31</note></notes>'),
}


def prefixed(content: str) -> str:
    """The document with a prefix for the names of XLIFF."""
    new = re.sub(r"(</?)(?=\w[\w-]*[\s/>])(?!\w+:)", r"\1x:", content.replace("<?xml", "<?XML")).replace(
        "<?XML", "<?xml"
    )
    return new.replace("<!-- <x:notes></x:notes> -->", "<!-- <notes></notes> -->").replace(" xmlns=", " xmlns:x=")


CASES = {
    "PO": ("a.po", PO, PO_CONFIDENCE, NOTED_PO),
    "XLIFF 1.2": ("a.xlf", XLIFF, XLIFF_CONFIDENCE, NOTED_XLIFF),
    "XLIFF 2": ("a.xlf", XLIFF_2, XLIFF_2_CONFIDENCE, NOTED_XLIFF_2),
}
for version in ("XLIFF 1.2", "XLIFF 2"):
    name, content, confidence, changes = CASES[version]
    with_prefix = {prefixed(old): prefixed(new) for old, new in changes.items()}
    CASES[f"{version} with a prefix"] = name, prefixed(content), confidence, with_prefix


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("case", CASES)
def test_units_of_low_confidence_get_a_note(case: str, end: str) -> None:
    """All else is as without notes. A unit that could not be translated is as it was."""
    name, content, confidence, changes = CASES[case]
    content = content.replace("\n", end)
    new, expected = noted(name, content, confidence), noted(name, content, confidence, 0)
    assert content not in (new, expected)
    for old, note in changes.items():
        old, note = old.replace("\n", end), note.replace("\n", end)
        assert expected.count(old) == 1
        expected = expected.replace(old, note)
    assert new == expected
    if name == "a.xlf":
        ElementTree.fromstring(new)


@pytest.mark.parametrize("case", CASES)
def test_old_notes_get_the_new_confidence(case: str) -> None:
    """Only those of nmt, and only if their units are translated again."""
    name, content, confidence, _ = CASES[case]
    new = noted(name, content, confidence)
    assert noted(name, new, confidence) == new
    more = {line: value and value + 5 for line, value in confidence.items()}
    again = noted(name, new, more, 50, only_missing=False)
    assert again.count("confidence") == new.count("confidence")
    assert noted(name, again, more, 50, only_missing=False) == again
    sure = noted(name, again, {}, 50, only_missing=False)
    numbers = re.findall(r"confidence (\d+)", new)
    kept = {"a.po": {"8", "9"}, "a.xlf": {"1", "2"}}[name]  # of an obsolete entry, of one that cannot be translated, …
    assert re.findall(r"confidence (\d+)", sure) == [number if number in kept else "90" for number in numbers]
    assert noted(name, again, {}, 0, only_missing=False) == again  # without the option, all notes stay


def test_the_least_sure_line_of_a_text_counts() -> None:
    source = '<g id="1">The sea</g> is calm. The <g id="2">storm</g> is near.'
    content = f"<xliff><trans-unit><source>{source}</source></trans-unit></xliff>"
    new = noted("a.xlf", content, {"The sea is calm.": 33.0, "The storm is near.": 44.0})
    assert new.endswith('</target><note from="nmt">confidence 33</note></trans-unit></xliff>')


@pytest.mark.parametrize(
    "note",
    [
        "<note from='nmt' >confidence 5, checked</note>",
        '<note priority="2" from="nmt">confidence 5<!-- confidence 6 --></note>',
    ],
)
def test_only_the_number_of_a_note_changes(note: str) -> None:
    notes = f'<note from="a">confidence 1</note>{note}<note from="b">2</note>'
    for content in (
        f"<xliff><trans-unit><source>sea</source>{notes}</trans-unit></xliff>",
        f"<xliff version='2.0' trgLang='de'><unit><notes>{notes.replace('from', 'category')}</notes>"
        "<segment><source>sea</source></segment></unit></xliff>",
    ):
        new = noted("a.xlf", content, {"sea": 33.0})
        assert new == noted("a.xlf", content, {}, 0).replace("confidence 5", "confidence 33")


@pytest.mark.parametrize(
    "notes", ["", "<notes/>", "<notes></notes>", "<notes><!-- a --></notes>", "<n:note xmlns:n='n'/>"]
)
@pytest.mark.parametrize("note", ["", '<note from="nmt"/>', '<note from="nmt"></note>', '<note from="nmt">a</note>'])
def test_other_notes_do_not_change(notes: str, note: str) -> None:
    """Also what is not valid stays well formed."""
    content = f"<xliff><trans-unit><source>sea</source>{note}</trans-unit></xliff>"
    new = noted("a.xlf", content, {"sea": 33.0})
    assert new.replace('<note from="nmt">confidence 33</note>', "") == noted("a.xlf", content, {}, 0) != new
    if note:
        notes = f"<notes>{note.replace('from', 'category')}</notes>"
    content = f"<xliff version='2.0' trgLang='de'><unit>{notes}<segment><source>sea</source></segment></unit></xliff>"
    new = noted("a.xlf", content, {"sea": 33.0})
    rest = re.sub('<notes>(<note category="nmt">confidence 33</note>)</notes>', r"\1", new)
    assert rest.replace('<note category="nmt">confidence 33</note>', "") == noted("a.xlf", content, {}, 0) != new
    ElementTree.fromstring(new)


def test_comments_in_an_unusual_order() -> None:
    content = (
        '#, c-format\n#: a.c\n# nmt: confidence 7\nmsgid "a"\nmsgstr ""\n'
        '#: b.c\n# nmt: confidence 7\nmsgid "b"\nmsgstr ""'
    )
    assert noted("a.po", content, {"a": 1.0, "b": 2.0}) == (
        '# nmt: confidence 1\n#, fuzzy, c-format\n#: a.c\n# nmt: confidence 7\nmsgid "a"\nmsgstr "A"\n'
        '#: b.c\n# nmt: confidence 2\n#, fuzzy\nmsgid "b"\nmsgstr "B"'
    )


@pytest.mark.skipif(shutil.which("msgattrib") is None, reason="needs gettext")
def test_gettext_reads_the_notes(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(noted("a.po", PO, PO_CONFIDENCE))
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


def test_command(job: TranslationJob) -> None:
    assert job.output is not None
    for below, count in ((26, 0), (27, 1)):
        translate(replace(job, review_below=below))
        assert job.output.read_text().count("# nmt: confidence 26\n#, fuzzy\nmsgid") == count


def test_what_has_no_confidence(job: TranslationJob, tmp_path: Path) -> None:
    for name in ("a.txt", "a.srt", "a.json"):
        (tmp_path / name).write_text("")
        with pytest.raises(NmtError, match="--review-below is for PO and XLIFF files"):
            translate(replace(job, source=tmp_path / name))
    other = tmp_path / "other"
    with pytest.raises(NmtError, match=f"{other}: no calibration, so it gives no confidence: first use nmt calibrate"):
        translate(replace(job, model=other))
    with pytest.raises(NmtError, match="an ensemble has no confidence: leave out"):
        translate(replace(job, ensemble=[job.model]))
    with pytest.raises(NmtError, match="an endpoint translates lines of text"):
        endpoint_job.translate(job)
    assert not (tmp_path / "out.po").exists()
