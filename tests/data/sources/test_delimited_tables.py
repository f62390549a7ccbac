"""Tables as spreadsheets and people write them: quotes are those of a table, or text, but never both."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config.schema import Corpus, DataConfig
from nmt.data.sources import corpus
from nmt.errors import NmtError

Pairs = list[tuple[str, str]]
DATA = DataConfig(source_language="en", target_language="de", train=())
QUOTED = "fields are quoted, as a spreadsheet writes them: the quotes around them are left out"
HEADINGS = "the first line is left out: it holds the headings "


def read(path: Path, content: str | bytes, **columns: str) -> tuple[Pairs, list[str]]:
    """The pairs, and what is said of the file."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = list[str]()
    return list(corpus.read_pairs(Corpus(file=str(path), **columns), DATA, "train", notes=said)), said


@pytest.mark.parametrize(
    ("content", "pairs", "said"),
    [
        ('a\tb\n"He said ""no"", and left"\t"Er sagte ""nein"""\n',
         [("a", "b"), ('He said "no", and left', 'Er sagte "nein"')], [QUOTED]),
        ('a\tb\r\n"two\nlines\n\nor four"\tc\r\nd\t"e\nf"\r\n', [("a", "b"), ("two lines  or four", "c"), ("d", "e f")],
         [QUOTED]),
        ("English\tGerman (AT)\na\tb\n", [("a", "b")], [f"{HEADINGS}'English' and 'German (AT)'"]),
        ('"a"\t"b"\n' * 20, [("a", "b")] * 20, [QUOTED]),
        ('"a"\t"b"\n' * 20 + "c\td\n", [('"a"', '"b"')] * 20 + [("c", "d")], []),
        ('a ""b""\tc\n"d"\t"e ""f"""\n', [('a ""b""', "c"), ('"d"', '"e ""f"""')], []),
        ('a\t"b\nc"\td\ne\tf\n', [("a", '"b'), ('c"', "d"), ("e", "f")], []),
        ('source\tQuelle\na\t"', [("source", "Quelle"), ("a", '"')], []),
    ],
)  # fmt: skip
def test_tsv(tmp_path: Path, content: str, pairs: Pairs, said: list[str]) -> None:
    """What can only be of a table is read so, and said; ordinary text with quotes stays as it is."""
    path = tmp_path / "a.tsv"
    assert read(path, content) == (pairs, said)
    for encoding in ("utf-8-sig", "utf-16"):
        assert read(tmp_path / "b.tsv", content.encode(encoding)) == (pairs, said)


TEXT = st.text(st.sampled_from('",;\n aä\u2028'), max_size=6)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "http://x\thttp://y\tone\teins\t0.9\n",
            "3 of 5 columns are not used as text: 3 ('one'), 4 ('eins'), 5 ('0.9')"
        ),
        ("a\tb\n" * 3 + "c\td\te\nf\tg\t\n", "2 rows do not have 2 columns, as the first row has: 2 have 3"),
    ],
)  # fmt: skip
def test_columns_and_widths_that_are_not_expected_are_said_once(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "a.tsv"
    pairs, remarks = read(path, content)
    assert len(pairs) == content.count("\n") and remarks[-1] == said
    assert sum("not used" in remark for remark in remarks) == (not content.startswith("a\tb\n"))
    csv_said = read(tmp_path / "a.csv", "a,b,c\nd,e\nf,g,h\n")[1]
    assert csv_said[1:] == [
        "1 of 3 columns is not used as text: 3 ('c')",
        "1 row does not have 3 columns, as the first row has: 1 has 2",
    ]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=2, max_size=6), st.sampled_from([",", ";", "\t"]))
def test_what_a_library_for_csv_writes_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, pairs: Pairs, delimiter: str
) -> None:
    """With headings, in both kinds of files, whatever the text has."""
    folder, stream = tmp_path_factory.mktemp("csv"), io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([("en", "de"), *pairs])
    expected = [(source.replace("\n", " "), target.replace("\n", " ")) for source, target in pairs]
    shown = any(character in text for pair in pairs for text in pair for character in '"\n')
    for name in ("a.csv", *["a.tsv"] * (delimiter == "\t" and shown)):
        assert read(folder / name, stream.getvalue())[0] == expected


@pytest.mark.parametrize(
    ("content", "columns", "pairs"),
    [
        ('one,eins\n"two, or ""three""","zwei\nZeilen"\n', {}, [("one", "eins"), ('two, or "three"', "zwei Zeilen")]),
        ("Hello, you;Hallo, du\none, two;eins\n", {}, [("Hello, you", "Hallo, du"), ("one, two", "eins")]),
        ("sep=,\na;b,c\n", {}, [("a;b", "c")]),
        ("id,Englisch,Deutsch\n1,a,b\n2,c\n\n,,,,\n", {"source_column": "englisch", "target_column": "Deutsch"},
         [("a", "b"), ("c", ""), ("", "")]),
        ("id,en,de\n1,a,b\n", {"source_column": "3", "target_column": "2"}, [("de", "en"), ("b", "a")]),
    ],
)  # fmt: skip
def test_csv(tmp_path: Path, content: str, columns: dict[str, str], pairs: Pairs) -> None:
    for end in ("\n", "\r\n"):
        found, said = read(tmp_path / "a.csv", content.replace("\n", end), **columns)
        assert found == pairs
        assert said[0] == f"read as CSV with '{';' if 'Hallo' in content else ','}' between columns"


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("a,b\nc,d,e\n", {}, r"a.csv:2: 3 columns, and the first line has 2: put quotes around a field that holds ','"),
        ("a\nb\n", {}, "a.csv:1: one column: separate columns by a comma, a semicolon or a tab"),
        ('a,b\n"c,d\ne,f\n', {}, r"a.csv:2: .*: a quote is not closed: close the quotes around a field, and double"),
        ("en,en,de\na,b,c\n", {}, r"a.csv: the headings 'en' \(column 1\) and 'en' \(column 2\) all fit: choose one, "
         'as source_column: "1"'),
        ("", {}, "^[^,;]*no sentence pairs"),
        ("en,x\na,b\n", {"target_column": "y"}, "no column 'y': columns of a .csv file are numbered from 1, or named "
         "as in its first line, which has 'en', 'x'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_csv_file(tmp_path: Path, content: str, columns: dict[str, str], message: str) -> None:
    with pytest.raises(NmtError, match=message) as error:
        read(tmp_path / "a.csv", content, **columns)
    assert "\n" not in str(error.value)


def test_a_first_line_that_may_hold_headings_is_mentioned(tmp_path: Path) -> None:
    note = "the first line is read as text: if 'English' and 'Deutsch' are headings, give them as source_column and "
    found, said = read(
        tmp_path / "a.tsv", "English\tDeutsch\n" + "Where is the nearest station?\tWo ist der Bahnhof?\n" * 20
    )
    assert len(found) == 21
    assert said == [f"{note}target_column"]
