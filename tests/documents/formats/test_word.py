"""Documents of Word come back as they were, with other text alone. All text here is made up."""

import io
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.documents.document import TranslatableText
from nmt.documents.file_formats import FORMATS
from nmt.documents.formats.word import read_part
from nmt.documents.opened import OpenedDocument
from nmt.errors import NmtError

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
BOLD = "<w:rPr><w:b/></w:rPr>"
BREAKS = ["<w:tab/>", "<w:br/>", "<w:br w:type='page'/>", "<w:cr/>", "<w:ptab/>"]


def part(body: str) -> str:
    return (
        f"<?xml version='1.0'?>\n<w:document xmlns:w='{W}' xmlns:m='m' xmlns:v='v'><w:body>{body}</w:body></w:document>"
    )


def run(*contents: str, look: str = "") -> str:
    """A run with texts and, where they begin with `<`, other elements."""
    inner = (each if each.startswith("<") else f"<w:t xml:space='preserve'>{each}</w:t>" for each in contents)
    return f"<w:r>{look}{''.join(inner)}</w:r>"


def field(code: str, shown: str) -> str:
    marks = {kind: run(f"<w:fldChar w:fldCharType='{kind}'/>") for kind in ("begin", "separate", "end")}
    return f"{marks['begin']}{run(f'<w:instrText>{code}</w:instrText>')}{marks['separate']}{shown}{marks['end']}"


def upper(text: TranslatableText) -> str:
    """In capitals, but for tags, references and what is not translated."""
    parts = re.split(r'(<x [^<>]*translate="no">[^<>]*</x>|<[^<>]*>|&\w+;)', text.text)
    return "".join(part if i % 2 else part.upper() for i, part in enumerate(parts))


def texts(content: str) -> list[str]:
    return [text.text for segment in read_part(content, "a").segments for text in segment.texts]


def letters(content: str) -> str:
    """What one reads, in small letters."""
    return "".join(ElementTree.fromstring(content).itertext()).lower()


COMMENT = f"<w:commentRangeStart w:id='1'/>{run('old')}<w:commentRangeEnd w:id='1'/>{run('<w:commentReference/>')}"
PARAGRAPHS: dict[str, tuple[str, list[str]]] = {
    "several texts in a run": (run("two ", "boats"), ["two boats"]),
    "hyphens and pages": (
        run("<w:lastRenderedPageBreak/>", "har", "<w:softHyphen/>", "bour", "<w:noBreakHyphen/>", "wide")
        + run(" sa", "<w:lastRenderedPageBreak/>", "ils"),
        ["harbour-wide sails"],
    ),
    "runs of one look": (
        run("two ol", look="<w:rPr><w:lang w:val='x'/></w:rPr>") + "<w:proofErr/>" + run("d", look="<w:rPr/>"),
        ["two old"],
    ),
    "looks": (run("an ") + run("o", look=BOLD) + run("ar", look=BOLD) + run(" here"), ['an <r i="0">oar</r> here']),
    "link": (
        run("see ") + f"<w:hyperlink w:id='>'>{run('the ')}{run('map', look=BOLD)}</w:hyperlink>" + run(" now"),
        ['see <h i="0">the <r i="0">map</r></h> now'],
    ),
    "link over all": (f"<w:pPr><w:jc/></w:pPr><w:hyperlink>{run('the map')}</w:hyperlink>", ["the map"]),
    "field with digits": (
        run("page ") + field("PAGE", run("12")) + run(" of it"),
        ['page <x i="0" translate="no">12</x> of it'],
    ),
    "field with letters": (run("see ") + field("REF x", run("the map")) + run("."), ['see <h i="0">the map</h>.']),
    "field that shows nothing": (
        run("an ") + run("<w:fldChar w:fldCharType='begin'/>", "<w:fldChar w:fldCharType='end'/>") + run("oar"),
        ['an <x i="0"/>oar'],
    ),
    "field in a run": (
        run("page ", *re.findall("<w:[fi].*?/>|<w:instr.*?>X</w:instrText>", field("X", "")), " of it"),
        ['page <x i="0"/> of it'],
    ),
    "text in the code of a field": (
        run("an ") + field("IF", run("oar")).replace("</w:instrText>", "</w:instrText><w:t>x</w:t>"),
        ['an <h i="0">oar</h>'],
    ),
    "simple field": (
        run("page ") + f"<w:fldSimple w:instr='PAGE'>{run('1')}</w:fldSimple>",
        ['page <x i="0" translate="no">1</x>'],
    ),
    "field of several paragraphs": (
        run("<w:fldChar w:fldCharType='begin'/>") + run("<w:instrText>TOC</w:instrText>")
        + run("<w:fldChar w:fldCharType='separate'/>")
        + f"<w:hyperlink>{run('on oars', '<w:tab/>')}{field('PAGEREF', run('5'))}</w:hyperlink>",
        ["on oars"],
    ),
    "tracked changes": (
        run("an ") + f"<w:ins>{run('old ')}</w:ins><w:del>{run('<w:delText>new</w:delText>')}</w:del>" + run("oar"),
        ['an <h i="0">old </h><x i="0"/>oar'],
    ),
    "moved text": (
        run("an ") + f"<w:moveFrom>{run('old ')}</w:moveFrom>" + run("oar, ") + f"<w:moveTo>{run('old')}</w:moveTo>"
        + run("."),
        ['an <x i="0"/>oar, <h i="0">old</h>.'],
    ),
    "comment": (run("an ") + COMMENT + run(" oar"), ['an <h i="0">old</h><x i="0"/> oar']),
    "content control": (
        run("an ") + f"<w:sdt><w:sdtPr/><w:sdtContent>{run('old')}</w:sdtContent></w:sdt>" + run(" oar"),
        ['an <h i="0">old</h> oar'],
    ),
    "empty content control": (
        run("an ") + "<w:sdt><w:sdtPr/><w:sdtContent/></w:sdt><w:hyperlink/>" + run(" oar"), ['an <x i="0"/> oar'],
    ),
    "formula": (
        run("where ") + "<m:oMath>\n<m:r>\n<m:t>m&lt;2</m:t>\n</m:r></m:oMath>" + run(" is mass"),
        ['where <x i="0" translate="no">m&lt;2</x> is mass'],
    ),
    "symbol and note": (
        run("an ") + run("<w:sym/>") + run(" oar") + run("<w:footnoteReference/>") + run(" and") + run("<w:sym/>"),
        ['an <x i="0"/> oar<x i="1"/> and'],
    ),
    "ranges that cross": (
        "<w:bookmarkStart w:id='1'/>" + run("one") + "<w:bookmarkStart w:id='2'/>" + run("two")
        + "<w:bookmarkEnd w:id='1'/>" + run("three") + "<w:bookmarkEnd w:id='2'/>" + run("four"),
        ["one", "two", "three", "four"],
    ),
    "range that ends in a link": (
        "<w:bookmarkStart w:id='1'/>" + run("one") + f"<w:hyperlink>{run('two')}<w:bookmarkEnd w:id='1'/>{run('x')}"
        "</w:hyperlink>" + run("three"),
        ["one", "two", "x", "three"],
    ),
    "text box": (
        run("one", f"<v:a><v:b><w:p>{run('two')}</w:p><w:p>{run('three')}</w:p></v:b></v:a>", "four") + run(" five"),
        ["one", "two", "three", "four five"],
    ),
    "text box in a formula": (
        run("one ") + f"<m:oMath><m:t>x</m:t><w:p>{run('two')}</w:p></m:oMath>" + run("three"),
        ["one", "two", "three"],
    ),
    "field with text in its code alone": (
        field("IF", "").replace("</w:instrText>", "</w:instrText><w:t>x</w:t>"), [],
    ),
    "paragraph in a paragraph": (f"<w:p>{run('one')}</w:p>" + run("<w:sym/>", "two"), ["one", "two"]),
    "ruby": (
        run("<w:ruby><w:rt><w:r><w:t>x</w:t></w:r></w:rt><w:rubyBase><w:r>A</w:r></w:rubyBase></w:ruby>", "b"),
        ["Ab"],
    ),
    "line breaks in XML": (run("\n  two\n  boats &amp; é<![CDATA[<]]>\n"), ["two   boats & é<"]),
    "no letters": (run("12") + run("<w:tab/>") + run("3"), []),
}  # fmt: skip
for element in BREAKS:
    PARAGRAPHS[element] = run("name:", element, "an ") + run("oar", element), ["name:", "an oar"]


@pytest.mark.parametrize("name", PARAGRAPHS)
def test_texts(name: str) -> None:
    """Also where what is translated comes back without the spaces around it."""
    body, expected = PARAGRAPHS[name]
    content = part(f"<w:p>{body}</w:p>")
    assert texts(content) == expected
    document = read_part(content, "a")
    assert document.translated(lambda text: text.text) == content
    new = document.translated(lambda text: upper(text).strip())
    written = letters(re.sub("<w:rt>.*?</w:rt>", "", content)).replace("\n", " ")
    if name == "hyphens and pages":
        written = written.replace("rwide", "r-wide")
    assert letters(new).replace("\n", " ") == written
    assert len(re.findall(r"<w:t[ >]", new)) <= len(re.findall(r"<w:t[ >]", content)) and "<w:r></w:r>" not in new


def as_prefix(content: str) -> str:
    return content.replace("xmlns:w=", "xmlns:q=").replace("<w:", "<q:").replace("</w:", "</q:").replace(" w:", " q:")


def as_default(content: str) -> str:
    return content.replace("xmlns:w=", "xmlns=").replace("<w:", "<").replace("</w:", "</").replace(" w:", " ")


@pytest.mark.parametrize(
    "other",
    [
        as_prefix,
        as_default,
        lambda content: content.replace(W, "http://purl.oclc.org/ooxml/wordprocessingml/main"),
        lambda content: re.sub(r"(?<!</w:t)>(?=<)", ">\n  ", content),
        lambda content: "\ufeff" + content,
    ],
)  # fmt: skip
def test_other_ways_to_write_it(other) -> None:  # type: ignore[no-untyped-def]
    content = part("".join(f"<w:p>{body}</w:p>" for body, _ in PARAGRAPHS.values()))
    assert texts(other(content)) == texts(content) != []
    new = read_part(other(content), "a").translated(upper)
    ElementTree.fromstring(new)
    assert texts(new) == [upper(TranslatableText(text)) for text in texts(content)]


_CONTENTS = st.sampled_from(["a ", "b", " ", "7", "é&amp;", *BREAKS, "<w:sym/>", "<w:softHyphen/>"]) | st.sampled_from(
    [f"<w:fldChar w:fldCharType='{kind}'/>" for kind in ("begin", "separate", "end")]
)
_RUNS = st.builds(
    lambda contents, look: run(*contents, look=look),
    st.lists(_CONTENTS, max_size=4),
    st.sampled_from(["", BOLD, "<w:rPr><w:i/></w:rPr>"]),
)
_MARKS = st.sampled_from(
    [f"<w:bookmark{kind} w:id='{i}'/>" for kind in ("Start", "End") for i in (1, 2)]
    + ["<w:proofErr/>", "<w:del/>", "<w:pPr/>", "<m:oMath><m:t>x</m:t></m:oMath>"]
)


def around(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = ["w:ins", "w:fldSimple", "w:sdt", "w:sdtContent", "w:p", "w:del", "m:oMath", "w:t", "w:ruby"]
    return st.builds(lambda name, each: f"<{name}>{''.join(each)}</{name}>", st.sampled_from(names), st.lists(inner))


@given(st.lists(st.recursive(_RUNS | _MARKS, around, max_leaves=12)))
def test_nothing_is_lost_or_twice(inner: Sequence[str]) -> None:
    """Whatever is in a paragraph, also what Word would not write."""
    content = part(f"<w:p>{''.join(inner)}</w:p>")
    document = read_part(content, "a")
    assert document.translated(lambda text: text.text) == content
    new = document.translated(upper)
    ElementTree.fromstring(new)
    if "<w:ruby>" not in content:
        assert letters(new) == letters(content)
    for item in ("<w:sym/>", "<w:fldChar", "<w:bookmark", "<w:del", "<m:oMath>", "<w:ins>", "<w:sdt", *BREAKS):
        assert new.count(item) == content.count(item)


def write(path: Path, parts: dict[str, str], main: str = "word/document.xml") -> None:
    """A file whose main part names a footer."""
    folder, _, name = main.rpartition("/")
    relationships = {
        "_rels/.rels": f"<r:Relationship Type='{TYPE}/officeDocument' Target='/{main}'/>",
        f"{folder}/_rels/{name}.rels": f"<r:Relationship Type='{TYPE}/footer' Target='foot.xml'/>"
        f"<r:Relationship Type='{TYPE}/footer' Target='http://a' TargetMode='External'/>",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, content in relationships.items():
            archive.writestr(each, f"<r:Relationships xmlns:r='r'>{content}</r:Relationships>")
        for each, content in parts.items():
            archive.writestr(each, content)


@pytest.mark.parametrize("main", ["word/document.xml", "word/document2.xml", "a/b.xml"])
def test_the_file_around_the_text_stays(main: str, tmp_path: Path) -> None:
    path, content = tmp_path / "a.docx", part(f"<w:p w:id='1'>{run('an oar')}</w:p>")
    foot = f"{main.rpartition('/')[0]}/foot.xml"
    write(path, {main: content, foot: content, "word/styles.xml": content}, main)
    document = OpenedDocument.read(path, FORMATS[".docx"])
    assert document.write([each.content for each in document.parts]) == path.read_bytes()
    data = document.write([each.translated(upper) for each in document.parts])
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(path) as old:
        assert archive.namelist() == old.namelist()
        changed = {name for name in old.namelist() if archive.read(name) != old.read(name)}
        assert changed == {main, foot}
        assert archive.read(main).decode() == content.replace("'preserve'>an oar", '"preserve">AN OAR')


REFUSED = {
    "declares the entity": f"<!DOCTYPE x [<!ENTITY e 'x'>]>{part('')}",
    "500 nested elements": part("<a>" * 100_000 + "</a>" * 100_000),
    "not well-formed XML": "<w:document",
    "begins with <workbook>, which is not WordprocessingML": "<workbook xmlns='x'/>",
    "is in latin-1, not in UTF-8": part("").replace("?>", " encoding='latin-1'?>", 1),
}


@pytest.mark.parametrize("message", REFUSED)
def test_parts_that_are_refused(message: str, tmp_path: Path) -> None:
    write(tmp_path / "a.docx", {"word/document.xml": REFUSED[message]})
    refused(tmp_path / "a.docx", message)


def refused(path: Path, message: str) -> None:
    with pytest.raises(NmtError, match=message) as error:
        OpenedDocument.read(path, FORMATS[".docx"])
    assert len(str(error.value).removeprefix(str(path))) < 150


def test_files_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as file:
        for _ in range(257):
            file.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    refused(path, "more than 256 MiB")
    write(path, {"word/styles.xml": "<x/>"})
    refused(path, "its _rels/.rels names no main document")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("image", "x" * 100)
    path.write_bytes(path.read_bytes().replace(b"xxx", b"xyx", 1))
    refused(path, "image in it is damaged")
    for start, message in {
        b"\xd0\xcf\x11\xe0": "before 2007, or has a password",
        b"%PDF-1": "is a PDF",
        b"{\\rtf1": "RTF",
    }.items():
        path.write_bytes(start)
        refused(path, f"{message}: open it in a word processor and save it as .docx")
    path.write_text("no archive")
    refused(path, "not a .docx, which is a ZIP archive")


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize(
    "inner",
    [
        "<w:bookmarkStart w:id='1'/>" * 50_000 + run("a") + "<w:bookmarkEnd w:id='2'/>" * 50_000,
        "<w:bookmarkStart w:id='1'/>" * 50_000 + run("a") + "<w:bookmarkEnd w:id='1'/>" * 50_000,
        run("<w:fldChar w:fldCharType='begin'/>", "<w:fldChar w:fldCharType='separate'/>", "7") * 20_000
        + run("a") + run("<w:sym/>", "<w:fldChar w:fldCharType='end'/>") * 20_000,
        run("a", "<w:tab/>") * 20_000,
        run("a" + "&amp;" * 100_000 + " " * 100_000 + "b"),
        (run("a") + run("b", look=BOLD) + run("<w:sym/>")) * 10_000,
    ],
    ids=range(6),
)  # fmt: skip
def test_time_is_linear(inner: str) -> None:
    assert read_part(part(f"<w:p>{inner}</w:p>"), "a").translated(upper)
