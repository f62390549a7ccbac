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
