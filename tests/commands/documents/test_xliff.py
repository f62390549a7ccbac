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
