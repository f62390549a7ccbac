"""XLIFF: which units get a target."""

import re
from pathlib import Path

import pytest
from helpers.documents import XLIFF, XLIFF_2, read, upper

from nmt.decoding.markup.marked_text import MarkedText
from nmt.decoding.translation import Translation
from nmt.documents.document import NotTranslatable, TranslatableText
from nmt.documents.file_formats import FORMATS
from nmt.errors import NmtError

SECONDS = 20  # that a test may take


def test_xliff_targets() -> None:
    new = read("a.xliff", XLIFF).translated(upper)
    target = """\n\t\t<target state="needs-review-translation">A <g id='1' x=">">RED</g> SAIL """
    assert f'{target}<ph id="2">&lt;br&gt;</ph> &amp; É</target>' in new
    assert '<target state="needs-review-translation">TWO &lt; 3</target><alt-trans>' in new
    assert "<target>ONE</target></segment>" in read("b.xlf", XLIFF_2).translated(upper)


def unit(content: str) -> str:
    return f"<xliff version='1.2'><trans-unit>{content}</trans-unit></xliff>"


@pytest.mark.parametrize("state", ["new", "needs-translation"])
def test_a_copy_of_the_source_is_no_translation(state: str) -> None:
    document = read("a.xlf", unit(f"<source>one</source><target state='{state}'>one</target>"))
    assert document.existing == 0
    assert '<target state="needs-review-translation">ONE</target>' in document.translated(upper)


def test_what_is_not_translated_gets_no_target() -> None:
    def left(text: TranslatableText) -> str:
        raise NotTranslatable("a reason")

    for content in (unit("<source/>"), unit("<source></source>"), unit("<source>one</source>")):
        assert read("a.xlf", content).translated(left) == content


def test_another_xml_is_refused() -> None:
    with pytest.raises(NmtError, match="first element is <html>"):
        read("a.xlf", "<html><trans-unit/></html>")


@pytest.mark.parametrize("code", ["dogs", "<x id='I' equiv-text='{{ n }}'/> dogs"])
def test_icu_messages(code: str) -> None:
    """Such as Angular has them, with codes in them."""
    document = read("a.xlf", unit(f"<source>{{N, plural, =0 {{none}} other {{{code}}} }} &amp; one</source>"))
    assert len(document.texts) == 3
    new = document.translated(upper)
    expected = code.replace("dogs", "DOGS")
    assert f">{{N, plural, =0 {{NONE}} other {{{expected}}} }} &amp; ONE</target>" in new.replace("&AMP;", "&amp;")


def unit_2(content: str) -> str:
    return f"<xliff version='2.0' srcLang='en' trgLang='lv'><unit>{content}</unit></xliff>"


MARK = "<mrk mtype='seg' mid='{}'>{}</mrk>"
MARKS = f"<seg-source>{MARK.format(0, 'One.')} <g id='1'>{MARK.format(1, 'Two.')}</g></seg-source>"
UNITS = {
    "a match": unit_2(
        "¶<mtc:matches><mtc:match><source>no</source><target>no</target></mtc:match></mtc:matches>"
        "<segment><source>one</source>{<target>ONE</target>}</segment>"
    ),
    "a match of the next unit": unit_2(
        "<segment><source>one</source>{<target>ONE</target>}</segment></unit>¶<unit>"
        "<mtc:matches><mtc:match><source>no</source><target>no</target></mtc:match></mtc:matches>"
        "<segment><source>two</source>{<target>TWO</target>}</segment>"
    ),
    "alt-trans": unit(
        "<source>one</source>{<target STATE>ONE</target>}<alt-trans><source>no</source>"
        "<seg-source><mrk mtype='seg' mid='0'>no</mrk></seg-source><target>no</target></alt-trans>"
    ),
    "segments": unit(
        f"<source>One. Two.</source>{MARKS}{{<target STATE>"
        f"{MARK.format(0, 'ONE.')} <g id='1'>{MARK.format(1, 'TWO.')}</g></target>}}<alt-trans>{MARKS}</alt-trans>"
    ),
    "segments of which one is there": unit(
        f"<source>One. Two.</source>{MARKS}<target{{ STATE}}>{MARK.format(0, 'MINE.')} <g id='1'>"
        f"{MARK.format(1, '{TWO.}')}</g></target>"
    ),
    "a seg-source without segments": unit(
        "<source>one</source><seg-source>one</seg-source>{<target STATE>ONE</target>}"
    ),
    "protected": unit(
        "<source>a <mrk mtype='protected'>b <mrk>c</mrk><ph id='1'>d</ph></mrk> e</source>"
        "{<target STATE>A <mrk mtype='protected'>b <mrk>c</mrk><ph id='1'>d</ph></mrk> E</target>}"
    ),
    "a bracket that is protected": unit(
        "<source>¤n, plural, other ¤a <mrk mtype='protected'>¤</mrk> b¦¦</source>"
        "{<target STATE>¤n, plural, other ¤A <mrk mtype='protected'>¤</mrk> B¦¦</target>}"
    ),
    "translate": unit_2(
        "<segment><source>a <mrk id='1' translate='no'>b</mrk> c</source>"
        "{<target>A <mrk id='1' translate='no'>b</mrk> C</target>}</segment>"
    ),
    "markers": unit_2(
        "<segment><source>a <pc><sm id='1' translate='no'/>b <pc id='3'>c</pc><em startRef='1'/> d</pc></source>"
        "{<target>A <pc><sm id='1' translate='no'/>b <pc id='3'>c</pc><em startRef='1'/> D</pc></target>}</segment>"
    ),
    "markers in several segments": unit_2(
        "<segment><source>a <sm id='1' translate='no'/>b</source>"
        "{<target>A <sm id='1' translate='no'/>b</target>}</segment>"
        "<segment><source>c <sm id='2'/></source>{<target>c <sm id='2'/></target>}</segment>"
        "<segment><source>d<em startRef='1'/> e</source>{<target>d<em startRef='1'/> E</target>}</segment>"
    ),
    "line breaks in what is protected": unit(
        "<source>one <g id='8'><mrk mtype='protected'>¶<x id='2'/>¶b</mrk></g> two</source>"
        "{<target STATE>ONE <g id='8'><mrk mtype='protected'>¶<x id='2'/>¶b</mrk></g> TWO</target>}"
    ),
    "codes with a prefix": "<x:xliff version='1.2'><x:trans-unit><x:source>a <x:ph id='1'>b</x:ph> "
    "<x:bpt id='2'>c</x:bpt>d<x:ept id='2'>e</x:ept></x:source>{<x:target STATE>A <x:ph id='1'>b</x:ph> "
    "<x:bpt id='2'>c</x:bpt>D<x:ept id='2'>e</x:ept></x:target>}</x:trans-unit></x:xliff>",
    "carriage returns": unit(
        "<source>a&#13;b &amp; c&#xD;&#10;d</source>{<target STATE>A&#13;B &amp; C&#13;\nD</target>}"
    ),
    "carriage returns beside codes": unit(
        "<source>a <ph id='1'>x</ph>&#10;&#13; &amp; c&#xD;d&#13;\r\ne</source>"
        "{<target STATE>A <ph id='1'>x</ph>&#10;&#13; &amp; C&#xD;D&#13;\r\nE</target>}"
    ),
    "carriage returns and line breaks": unit("<source>a&#13;\r\nb</source>{<target STATE>A&#13;\r\nB</target>}"),
    "a prefix": "<x:xliff version='1.2'><x:trans-unit><x:source>a <x:mrk mtype='protected'>b</x:mrk></x:source>"
    "{<x:target STATE>A <x:mrk mtype='protected'>b</x:mrk></x:target>}</x:trans-unit></x:xliff>",
}


@pytest.mark.parametrize("name", UNITS)
def test_units(name: str) -> None:
    """What stands in braces is written; `¤` and `¦` are braces."""
    template = UNITS[name].replace("¶", "\n")
    content = re.sub(r"(?s)\{.*?\}", "", template)
    expected = re.sub("[{}]", "", template).replace("STATE", 'state="needs-review-translation"')
    content, expected = (text.replace("¤", "{").replace("¦", "}") for text in (content, expected))
    assert in_capitals(content) == expected and in_capitals(expected) == expected


def in_capitals(content: str) -> str:
    document = read("a.xlf", content)

    def translation(text: TranslatableText) -> str:
        marked = MarkedText(text.text, "en", text.markup)
        lines = [line.translated(Translation(line.text.upper(), 0.0, 0.0, [], [])) for line in marked.lines]
        return marked.with_lines(lines)

    return document.translated(translation)


@pytest.mark.parametrize("there", ["<target><mrk mtype='seg' mid='0'/></target>", "<target> <g id='1'/>\n</target>"])
def test_a_target_without_text_is_no_translation(there: str) -> None:
    document = read("a.xlf", unit(f"<source>one</source>{there}"))
    assert document.existing == 0
    assert '<target state="needs-review-translation">ONE</target>' in document.translated(upper)


def test_what_is_partly_protected_is_said() -> None:
    segment = "<segment><source>a <pc id='2'><sm id='1' translate='no'/>b</pc> c<em startRef='1'/> d</source></segment>"
    document = read("a.xlf", unit_2(segment))
    assert document.translated(upper) == unit_2(segment)
    [note] = document.report("")
    assert note.startswith("not translated, because an element in it is only partly translate=no: \"a <pc id='2'>")


def test_protected_arguments_keep_their_order() -> None:
    content = unit("<source>%s of <mrk mtype='protected'>%s</mrk></source>")
    document = read("a.xlf", content)
    assert "<target " in document.translated(lambda text: text.text)
    assert document.translated(lambda text: " ".join(reversed(text.text.partition(" of ")))) == content


def test_the_language_of_targets() -> None:
    """In version 2, a file with a target must name it."""
    segment, path = "<segment><source>one</source></segment>", Path("a.xlf")
    content = unit_2(segment).replace(" trgLang='lv'", "")
    new = FORMATS[".xlf"].read(content, path, target_language="zh_TW").translated(upper)
    assert new.startswith("<xliff version='2.0' srcLang='en' trgLang=\"zh-TW\"><unit>")
    with pytest.raises(
        NmtError, match=r"a\.xlf: does not name the target language: add it to <xliff>, such as trgLang"
    ):
        FORMATS[".xlf"].read(content, path)
    empty = content.replace("one", "")
    assert FORMATS[".xlf"].read(empty, path).translated(upper) == empty


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize("marker", ["<sm id='1' translate='no'/>x", "<mrk mtype='seg' mid='1'>a</mrk>"])
def test_many_markers_take_linear_time(marker: str) -> None:
    many = marker * 20_000
    content = unit(f"<source>{many}</source><seg-source>{many}</seg-source><target>{many}<mrk mtype='seg'/></target>")
    assert read("a.xlf", content).existing == 1


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<bpt id='1'>b</bpt>a<ept id='1'>/b</ept>", "<x0>a</x0>"),
        ("<bpt id='1' rid='3'/>a<ept id='2' rid='3'/>", "<x0>a</x0>"),
        ("<bx id='1' rid='3'/>a<ex id='2' rid='3'/>", "<x0>a</x0>"),
        ("<sc id='1'/>a<ec startRef='1'/>", "<x0>a</x0>"),
        ("<sc id='1' isolated='yes'/>a<ec id='2' isolated='yes'/>", "<x0/>a<x1/>"),
        ("<x id='START_BOLD_TEXT'/>a<x id='CLOSE_BOLD_TEXT'/>", "<x0>a</x0>"),
        ("<x id='START_LINK'/><x id='START_LINK_1'/>a<x id='CLOSE_LINK'/><x id='CLOSE_LINK'/>", "<x0><x1>a</x1></x0>"),
        ("<ph id='0' equiv='START_TAG_A' disp='>'/>a<ph id='1' equiv='CLOSE_TAG_A'/>", "<x0>a</x0>"),
        ("<ph id='0'>&lt;i&gt;</ph>a<ph id='1'>&lt;/i&gt;</ph><ph id='2'>&lt;br&gt;</ph>", "<x0>a</x0><x2/>"),
        ("<g id='1'\n ctype='italic'>a</g>\n{% if x %}b{% endif %}", "<g id='1'\n ctype='italic'>a</g>|<nmt2>b</nmt2>"),
    ],
)
def test_codes_that_belong_together_are_elements(source: str, text: str) -> None:
    document = read("a.xlf", unit(f"<source>{source}</source>"))
    assert "|".join(each.text for each in document.texts) == text
    assert f">{source}</target>" in document.translated(lambda each: each.text)


def test_codes_that_cross_stay_where_they_are() -> None:
    document = read("a.xlf", unit("<source>a <bx id='1'/>b <bx id='2'/>c<ex id='1'/> d<ex id='2'/></source>"))
    assert [each.text for each in document.texts] == ["a <x0>b", "c</x0> d"]
