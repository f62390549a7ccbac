"""PO files: which forms are translated, and what marks them."""

import re

import pytest
from helpers.documents import PO, read, upper

from nmt.errors import NmtError


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


# An entry, and what is written; `¶` ends a line.
ENTRIES = {
    "two lines of flags": (
        '#, python-format¶#, c-format¶msgid "a %d"¶msgstr ""¶',
        '#, python-format¶#, fuzzy, c-format¶msgid "a %d"¶msgstr "A %d"¶',
    ),
    "the last of which counts": (
        '#, fuzzy¶#, c-format¶#| msgid "b"¶msgid "a"¶msgstr ""¶',
        '#, fuzzy¶#, fuzzy, c-format¶#| msgid "b"¶msgid "a"¶msgstr "A"¶',
    ),
    "other flags": (
        '#= c-format¶msgid "a"¶msgstr ""¶',
        '#, fuzzy¶#= c-format¶msgid "a"¶msgstr "A"¶',
    ),
    "flags, a comment, an empty line": (
        '#, c-format¶#. note¶¶msgid "a"¶msgstr ""',
        '#, fuzzy, c-format¶#. note¶¶msgid "a"¶msgstr "A"',
    ),
    "flags of another entry": (
        '#, c-format¶#~ msgid "a"¶msgid "b"¶msgstr ""',
        '#, c-format¶#~ msgid "a"¶#, fuzzy¶msgid "b"¶msgstr "B"',
    ),
    "an old msgid": (
        '#. note¶#| msgctxt "x"¶#| msgid "y"¶msgid "a"¶msgstr ""',
        '#. note¶#, fuzzy¶#| msgctxt "x"¶#| msgid "y"¶msgid "a"¶msgstr "A"',
    ),
    "a domain": ('domain "x"¶¶msgid "a"¶msgstr ""¶', 'domain "x"¶¶#, fuzzy¶msgid "a"¶msgstr "A"¶'),
    "forms of a domain": (
        'domain "x"¶msgid ""¶msgstr "Plural-Forms: nplurals=2; plural=n==1;\\n"¶¶'
        'msgid "a"¶msgid_plural "b"¶msgstr[0] ""¶msgstr[1] ""¶domain "y"¶msgid ""¶msgstr ""¶',
        'domain "x"¶msgid ""¶msgstr "Plural-Forms: nplurals=2; plural=n==1;\\n"¶¶#, fuzzy¶'
        'msgid "a"¶msgid_plural "b"¶msgstr[0] "B"¶msgstr[1] "A"¶domain "y"¶msgid ""¶msgstr ""¶',
    ),
    "escapes of bytes": (
        r'msgid "caf\303" "\251 \xe2\x82\xAC \41é\a\b\f\v\33"¶msgstr ""¶',
        r'#, fuzzy¶msgid "caf\303" "\251 \xe2\x82\xAC \41é\a\b\f\v\33"¶msgstr "CAFÉ € !É\a\b\f\v\033"¶',
    ),
    "lines": ('msgid ""¶"a\\n"¶"b"¶msgstr ""¶', '#, fuzzy¶msgid ""¶"a\\n"¶"b"¶msgstr ""¶"A\\n"¶"B"¶'),
    "one line": (
        'msgctxt "c"msgid "a" "b"msgstr""¶msgid "c"¶¶msgstr ""',
        '#, fuzzy¶msgctxt "c"msgid "a" "b"msgstr"AB"¶#, fuzzy¶msgid "c"¶¶msgstr "C"',
    ),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ENTRIES)
def test_entries(name: str, end: str) -> None:
    content, expected = (text.replace("¶", end) for text in ENTRIES[name])
    assert read("a.po", content).translated(upper) == expected
    assert read("a.po", expected).translated(lambda text: "") == expected


def test_what_is_no_po_file_is_said_with_its_line() -> None:
    for line, what in (
        ('msgid "a', "a quotation mark is not closed"),
        ('"a \\"', "a quotation mark is not closed"),
        ('b"', "not a line of a PO file"),
        ("msgid a", "not a line of a PO file"),
    ):
        with pytest.raises(NmtError, match=re.escape(f"a.po: line 2: {what}: {line!r}")):
            read("a.po", f'msgid ""\n{line}\nmsgstr ""\n')


def test_escapes_are_in_the_encoding_of_the_file() -> None:
    content = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=KOI8-R\\n"\n\nmsgid "\\xd1\\xc1"\nmsgstr ""\n'
    assert read("a.po", content).translated(upper).endswith('msgstr "ЯА"\n')


def test_arguments_without_numbers_are_known_by_any_line_of_flags() -> None:
    content = '#, python-format\n#, no-wrap\nmsgid "%s of %s"\nmsgstr ""\n'
    swapped = read("a.po", content).translated(lambda text: "%2$s, %1$s")
    assert swapped == content
    assert '"%2$s, %1$s"' in read("a.po", content.replace("python-", "c-")).translated(lambda text: "%2$s, %1$s")


@pytest.mark.usefixtures("time_limit")
def test_many_strings_take_linear_time() -> None:
    content = 'msgid "a"\n' + '""\n' * 200_000 + 'msgstr ""\n'
    assert read("a.po", content).translated(upper).endswith('msgstr "A"\n')
