"""A document comes back as it was, with other text alone. All text here is made up."""

import io
import json
import logging
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from helpers.model_files import make_checkpoint
from hypothesis import given
from hypothesis import strategies as st

from nmt.checkpoints import model_file
from nmt.commands import file_job
from nmt.commands.documents.document import Document, Text
from nmt.commands.documents.formats import FORMATS, format_of
from nmt.commands.documents.opened import OpenedDocument, decoded
from nmt.commands.documents.subtitles import share
from nmt.commands.translate import Request, translate
from nmt.config.schema import Config
from nmt.decoding.markup.marked_text import MarkedLine
from nmt.decoding.translator import Translator
from nmt.errors import NmtError

SRT = """1
00:00:01,000 --> 00:00:02,000 X1:40
<i>the old boat and</i>

2
00:00:02,100 --> 00:00:03,000
{\\an8}its crew were waiting
for the tide.

00:00:04,000 --> 00:00:05,000
- who is it?
- <b>me</b> again.
"""
VTT = """WEBVTT

NOTE no text

STYLE
::cue { color: red }

id
00:01.000 --> 00:02.000 line:0
<v Ann>salt &amp; pepper
"""
PO = r"""# a comment
msgid ""
msgstr "Language: lv\nPlural-Forms: nplurals=3; plural=(n==0 ? 0 : n==1 ? 1 : 2);\n"

#: a.c:1
#, c-format
msgctxt "menu"
msgid "%d boat"
msgid_plural "%d boats"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

#, fuzzy
#| msgid "old"
msgid "done"
msgstr "KEPT"

msgid ""
"a <b>red</b> \"sail\"\n"
"for {name}\n"
msgstr ""

#~ msgid "gone"
#~ msgstr ""
"""
XLIFF = """<?xml version='1.0' encoding="utf-8"?>
<!-- <source>no</source> -->
<xliff version="1.2"><file source-language='en'><body>
\t<trans-unit id="1">
\t\t<source>a <g id='1' x=">">red</g> sail <ph id="2">&lt;br&gt;</ph> &amp; é</source>
\t</trans-unit>
\t<trans-unit id="2">
<source>two &lt; 3</source><target state="new"/><alt-trans><target>no</target></alt-trans></trans-unit>
\t<trans-unit id="3"><source>done</source><target>KEPT</target></trans-unit>
\t<trans-unit id="4" translate="no"><source>no</source></trans-unit>
</body></file></xliff>
"""
XLIFF_2 = '<xliff version="2.0"><file id="f"><unit id="1"><segment><source>one</source></segment></unit></file></xliff>'
ARB = r"""{ "@@locale": "en",
  "a": "caf\u2026 of {name}", "@a": {"description": "no", "n": 1.50},
  "b": ["{n, plural, =0 {none} other {# boats for {who}}}", "", true] }"""
HTML = "<!doctype html>\n<p class=x>two <b>boats</b>&nbsp;wait<br>here</p>"
DOCUMENTS = {"a.srt": SRT, "a.vtt": VTT, "a.po": PO, "a.xliff": XLIFF, "b.xlf": XLIFF_2, "a.arb": ARB, "a.html": HTML}


def read(name: str, content: str, **options: bool) -> Document:
    path = Path(name)
    format = format_of(path)
    assert format is not None
    return format.read(content, path, **options)


def upper(text: Text) -> str:
    """In capitals, but for tags, references and placeholders."""
    parts = re.split(r"(<[^<>]*>|&\w+;|%d|\{\w+\})", text.text)
    return "".join(part if i % 2 else part.upper() for i, part in enumerate(parts))


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_all_but_the_text_stays(name: str, end: str) -> None:
    """Texts that stay give the same document; others change letters alone, besides what marks them as new."""
    content = DOCUMENTS[name].replace("\n", end)
    document = read(name, content)
    if name.endswith((".po", ".xliff", ".xlf")):
        new = document.translated(upper)
        again = read(name, new)
        assert again.translated(lambda text: "") == new and again.existing == len(document.segments) + document.existing
        all_new = read(name, new, only_missing=False).translated(upper)
        assert read(name, all_new, only_missing=False).translated(upper) == all_new
    else:
        assert document.translated(lambda text: text.text) == content
        assert document.translated(upper).lower().split() == content.lower().split()


def test_sentences_run_over_cues() -> None:
    document = read("a.srt", SRT)
    sentence = "the old boat and its crew were waiting for the tide."
    assert [text.text for text in document.texts] == [sentence, "who is it?", "<b>me</b> again."]
    new = document.translated(
        lambda text: "eins zwei drei, vier fünf sechs sieben acht" if text.markup is None else text.text
    )
    assert "<i>eins zwei drei,</i>" in new and "{\\an8}vier fünf sechs\nsieben acht\n" in new
    assert [line for line in new.split("\n") if "-->" in line] == [line for line in SRT.split("\n") if "-->" in line]
    [report] = document.report(SRT)
    assert "2 of 3 cues have more than 20 characters per second" in report  # 16, 33 and 22 in about a second each


@given(st.lists(st.text("ab,", min_size=1), min_size=1), st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_shares_are_the_text(words: list[str], lengths: list[int]) -> None:
    text = " ".join(words)
    shares = share(text, lengths)
    assert len(shares) == len(lengths) and all(shares)
    assert " ".join(shares) == text if len(words) >= len(lengths) else set(shares) == {text}


def test_po_plurals_and_flags() -> None:
    new = read("a.po", PO).translated(upper)
    assert 'msgstr[0] "%d BOATS"\nmsgstr[1] "%d BOAT"\nmsgstr[2] "%d BOATS"' in new
    assert "#: a.c:1\n#, fuzzy, c-format\nmsgctxt" in new and '#, fuzzy\n#| msgid "old"\nmsgid "done"' in new
    assert '\n#, fuzzy\nmsgid ""\n"a <b>' in new and r'msgstr ""' "\n" r'"A <b>RED</b> \"SAIL\"\n"' in new
    assert new.startswith(PO[: PO.index("#: a.c")]) and new.endswith(PO[PO.index("#~") :])


def test_xliff_targets() -> None:
    new = read("a.xliff", XLIFF).translated(upper)
    target = """\n\t\t<target state="needs-review-translation">A <g id='1' x=">">RED</g> SAIL """
    assert f'{target}<ph id="2">&lt;br&gt;</ph> &amp; É</target>' in new
    assert '<target state="needs-review-translation">TWO &lt; 3</target><alt-trans>' in new
    assert "<target>ONE</target></segment>" in read("b.xlf", XLIFF_2).translated(upper)


def bomb(count: int) -> str:
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, count))
    declared = f'<!DOCTYPE x [<!ENTITY e0 "x">{entities}]>'
    return f"{declared}<xliff><trans-unit><source>&e{count - 1};</source></trans-unit></xliff>"


HOSTILE = {
    "bomb.xliff": (bomb(10), "declares the entity 'e0'"),
    "deep.xliff": (
        f"<xliff><trans-unit><source>{'<g>' * 100_000}{'</g>' * 100_000}</source></trans-unit></xliff>",
        "500",
    ),
    "cut.xliff": ("<xliff><trans-unit>", "not XML"),
    "deep.json": ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    "cut.json": ('{"a": ', "not JSON"),
    "no.po": ('msgid "a"\nmsgtsr ""\n', "line 2"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_read_is_one_line(name: str) -> None:
    content, message = HOSTILE[name]
    with pytest.raises(NmtError, match=message) as error:
        read(name, content)
    assert len(str(error.value)) < 200 and name in str(error.value)


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize("text", ["x" + " " * 100_000 + "y", "<" * 100_000, "{\\" * 50_000, "<b> " * 50_000 + "x"])
def test_time_is_linear(text: str) -> None:
    times = "1\n00:00:01,000 --> 00:00:02,000\n"
    tables = {"a.srt": f"{times}{text}\n", "a.json": json.dumps([text, "{n, plural, other {" * 20_000 + text])}
    for name, content in {**tables, "a.po": f'msgid {json.dumps(text)}\nmsgstr ""\n'}.items():
        assert read(name, content).translated(lambda each: each.text)


def test_size_and_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(NmtError, match="larger than 64 MiB"):
        OpenedDocument.read(path, FORMATS[".srt"])
    with pytest.raises(NmtError, match="line 2 is not UTF-8"):
        decoded("a\né".encode("latin-1"), path)
    data = "é".encode("utf-16")
    content, encoding, mark = decoded(data, path)
    assert content == "é" and mark + content.encode(encoding) == data


@pytest.mark.parametrize("name", ["a.srt", "a.po", "a.xliff", "a.arb", "a.html"])
def test_command(name: str, make_config: Callable[..., Config], tmp_path: Path) -> None:
    """By an untrained model: markup, placeholders and what is around the texts are right nevertheless."""
    model, source, output = tmp_path / "model", tmp_path / name, tmp_path / f"out-{name}"
    model_file.save(model, make_checkpoint(make_config("decoding.max_extra_tokens=3")))
    source.write_bytes(b"\xef\xbb\xbf" + DOCUMENTS[name].encode())
    assert translate(Request(model=model, source=source, output=output)) == 0
    new = output.read_bytes().decode("utf-8-sig")
    assert output.read_bytes().startswith(b"\xef\xbb\xbf") and new != DOCUMENTS[name]
    items = re.compile(r"<[^<>]*>|\{name\}|\{who\}|#|-->|\"@a\": .*|[#]~.*|KEPT")
    added = r'fuzzy|#, |<target[^<>]*>|</target>|<source>.*?</source>|msgid(_plural)? .*(\n".*)*'
    old_items, new_items = (items.findall(re.sub(added, "", text)) for text in (DOCUMENTS[name], new))
    if format_of(source) not in (FORMATS[".po"], FORMATS[".xliff"]):
        assert sorted(new_items) == sorted(old_items)
    else:
        assert read(name, new).existing == 3 and "KEPT" in new_items


def test_a_document_is_continued(
    make_config: Callable[..., Config],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is translated before an interruption is not translated again, and the result is the same."""
    caplog.set_level(logging.INFO, "nmt")
    monkeypatch.setattr(file_job, "_DOCUMENT_CHUNK_LINES", 2)
    model, source = tmp_path / "model", tmp_path / "a.html"
    model_file.save(model, make_checkpoint(make_config("decoding.max_extra_tokens=3")))
    source.write_text("<p>one <b>two</b><p>three\nfour<p title='five'>six<p>seven")
    assert translate(Request(model=model, source=source, output=tmp_path / "whole.html")) == 0
    with_tags, left = Translator.with_tags, [1]

    def interrupted(translator: Translator, lines: Sequence[MarkedLine]) -> list[str]:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return with_tags(translator, lines)

    output = tmp_path / "out.html"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt, match="2 of 5 lines are translated"):
        patch.setattr(Translator, "with_tags", interrupted)
        translate(Request(model=model, source=source, output=output))
    [chunk] = tmp_path.glob(".out.html.*.part/1-2")
    chunk.write_text(chunk.read_text().replace("<b>", "kept <b>"))
    assert not output.exists() and translate(Request(model=model, source=source, output=output)) == 0
    assert output.read_text() == (tmp_path / "whole.html").read_text().replace("<b>", "kept <b>")
    assert "2 of 5 lines are translated: continuing" in caplog.text and not list(tmp_path.glob(".*"))


LOOK = "<w:rPr><w:b/></w:rPr>"
WORD = (
    "<w:document xmlns:w='w'><w:body><w:p w:id='1'><w:pPr><w:jc/></w:pPr><w:r><w:t>two ol</w:t></w:r>"
    f"<w:proofErr w:type='x'/><w:r w:rsidR='2'><w:t xml:space='a'>d </w:t></w:r><w:r>{LOOK}<w:t>boats</w:t></w:r>"
    "<w:r><w:tab/></w:r><w:hyperlink w:id='3'><w:r><w:t>wait &amp; see</w:t></w:r></w:hyperlink></w:p><w:p/>"
    "<w:p><w:r><w:t>here.</w:t></w:r></w:p>"
    "<w:p><w:r><w:t>we</w:t></w:r><w:ins><w:r><w:t>all</w:t></w:r></w:ins><w:r><w:t>go</w:t></w:r><w:r><w:fldChar/></w:r>"
    "<w:r><w:t>on</w:t></w:r>"
    "</w:p></w:body></w:document>"
)


def write_word(path: Path, **parts: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"a/[Content_Types].xml": "<x/>", **parts}.items():
            archive.writestr(name.replace("__", "/") + ("" if "." in name else ".xml"), content)


def test_word_documents_keep_looks_and_files(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    write_word(path, word__document=WORD, word__footer1=WORD, word__styles=WORD)
    document = OpenedDocument.read(path, FORMATS[".docx"])
    assert [text.text for text in document.parts[0].texts] == [
        'two old <r i="0">boats</r><x i="0"/><h i="1">wait &amp; see</h>',
        *("here.", "we", "all", "go", "on"),
    ]
    assert document.write([part.content for part in document.parts]) == path.read_bytes()
    new = [part.translated(upper) for part in document.parts]
    assert (
        f"<w:r>{LOOK}<w:t xml:space=\"preserve\">BOATS</w:t></w:r><w:r><w:tab/></w:r><w:hyperlink w:id='3'>" in new[0]
    )
    with zipfile.ZipFile(io.BytesIO(document.write(new))) as archive, zipfile.ZipFile(path) as old:
        assert archive.namelist() == old.namelist()
        assert archive.read("word/footer1.xml").decode() == new[1] == new[0]
        assert archive.read("word/styles.xml").decode() == WORD
    letters = [re.sub(r"<[^<>]*>", "", content).lower() for content in (new[0], WORD)]
    assert letters[0] == letters[1]


def test_word_documents_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"

    def refused(message: str) -> None:
        with pytest.raises(NmtError, match=message) as error:
            OpenedDocument.read(path, FORMATS[".docx"])
        assert len(str(error.value).removeprefix(str(path))) < 150

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as file:
        for _ in range(257):
            file.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    refused("more than 256 MiB")
    write_word(path, word__document=bomb(5))
    refused("declares entities")
    write_word(path, word__document="<a>" * 100_000 + "</a>" * 100_000)
    refused("1,000 elements in one another")
    write_word(path, word__styles="<x/>")
    refused("it has no word/document.xml")
    path.write_text("no archive")
    refused("not a document of Word")


def test_what_documents_do_not_take(make_config: Callable[..., Config], tmp_path: Path) -> None:
    model, source = tmp_path / "model", tmp_path / "a.po"
    source.write_text(PO)
    with pytest.raises(NmtError, match=r"a PO file: add --output FILE"):
        translate(Request(model=model, source=source))
    with pytest.raises(NmtError, match="translated as a whole: leave out"):
        translate(Request(model=model, source=source, output=tmp_path / "out.po", line_by_line=True))
