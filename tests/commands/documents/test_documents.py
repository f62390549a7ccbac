"""A document comes back as it was, with other text alone. All text here is made up."""

import io
import json
import logging
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from helpers.documents import ARB, DOCUMENTS, PO, read, upper
from helpers.model_files import make_checkpoint
from hypothesis import given
from hypothesis import strategies as st

from nmt.checkpoints import model_file
from nmt.commands import file_job
from nmt.commands.documents.document import Template
from nmt.commands.documents.encoding import decoded
from nmt.commands.documents.formats import FORMATS, format_of
from nmt.commands.documents.messages import KEPT, message_template
from nmt.commands.documents.opened import OpenedDocument
from nmt.commands.translate import Request, translate
from nmt.config.schema import Config
from nmt.data.copied_items import is_kept
from nmt.decoding.markup.marked_text import MarkedLine
from nmt.decoding.translator import Translator
from nmt.errors import NmtError


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


def test_icu_forms_and_line_breaks() -> None:
    string = " {n, plural, =0 {none} one {# boat for {who}} other {{n} boats}} left\n now "
    template = message_template(string)
    assert [text.text for text in template.texts] == ["none", "# boat for {who}", "{n} boats", "left", "now"]
    assert template.with_texts(text.text for text in template.texts) == string
    assert (
        json.loads(read("a.arb", ARB).translated(upper))["b"][0] == "{n, plural, =0 {NONE} other {# BOATS FOR {who}}}"
    )


@given(st.text("a \n\r\t{}#,plural<>b/1%"))
def test_templates_lose_nothing(string: str) -> None:
    for template in (message_template(string), Template.of_lines(string)):
        assert template.with_texts(text.text for text in template.texts) == string


@pytest.mark.parametrize(
    "item",
    ["{name}", "%s", "%(n)d", "{{ x }}", "%1$s", "<0/>", "</0>", "100%%", "$t(a.b)", "%-5.2f", "%n", "#", "${x}"],
)
def test_placeholders_are_kept(item: str) -> None:
    assert is_kept(f"one {item} two", f"{item} eins", KEPT) and not is_kept(f"one {item} two", "eins", KEPT)
    assert is_kept("half of 50% discount at #1, he said {", "alles", KEPT)


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
@pytest.mark.parametrize(
    "text",
    [
        *("x" + " " * 100_000 + "y", "<" * 100_000, "{\\" * 50_000, "<b> " * 50_000 + "x", "<!--<meta " * 50_000),
        *("x" + "<b>" * 100_000, "x " + "<b>" * 50_000 + "x" + "</i>" * 50_000 + "y", "x<b>\n" * 20_000),
    ],
)
def test_time_is_linear(text: str) -> None:
    times = "1\n00:00:01,000 --> 00:00:02,000\n"
    tables = {"a.srt": f"{times}{text}\n", "a.json": json.dumps([text, "{n, plural, other {" * 20_000 + text])}
    for name, content in {**tables, "a.po": f'msgid {json.dumps(text)}\nmsgstr ""\n'}.items():
        assert read(name, content).translated(lambda each: each.text)
        declaration = FORMATS[Path(name).suffix].declaration
        assert decoded(content.encode(), Path(name), declaration or FORMATS[".html"].declaration)


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
