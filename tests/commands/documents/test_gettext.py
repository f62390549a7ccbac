"""PO files: which forms are translated, and what marks them."""

from helpers.documents import PO, read, upper


def test_po_plurals_and_flags() -> None:
    new = read("a.po", PO).translated(upper)
    assert 'msgstr[0] "%d BOATS"\nmsgstr[1] "%d BOAT"\nmsgstr[2] "%d BOATS"' in new
    assert "#: a.c:1\n#, fuzzy, c-format\nmsgctxt" in new and '#, fuzzy\n#| msgid "old"\nmsgid "done"' in new
    assert '\n#, fuzzy\nmsgid ""\n"a <b>' in new and r'msgstr ""' "\n" r'"A <b>RED</b> \"SAIL\"\n"' in new
    assert new.startswith(PO[: PO.index("#: a.c")]) and new.endswith(PO[PO.index("#~") :])


def test_forms_that_are_missing() -> None:
    """Of an entry in which some forms are translated, the others are."""
    content = PO.replace('msgstr[1] ""', 'msgstr[1] "KEPT"')
    document = read("a.po", content)
    new = document.translated(upper)
    assert 'msgstr[0] "%d BOATS"\nmsgstr[1] "KEPT"\nmsgstr[2] "%d BOATS"' in new and "#, fuzzy, c-format" in new
    assert document.existing == 1 and read("a.po", new).existing == 3
