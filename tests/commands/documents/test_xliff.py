"""XLIFF: which units get a target."""

import pytest
from helpers.documents import XLIFF, XLIFF_2, read, upper

from nmt.errors import NmtError


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
    for content in (unit("<source/>"), unit("<source></source>"), unit("<source>one</source>")):
        assert read("a.xlf", content).translated(lambda text: None) == content


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
