"""`nmt split --by`: documents stay together, and no sentence is in two sets."""

import json
import random
from pathlib import Path

import pytest
from helpers.page_commands import run_page
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from nmt.cli import app
from nmt.commands.document_split import DocumentPair, split_documents
from nmt.errors import NmtError

SETS = ("train", "validation", "test")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app.app, ["split", *map(str, arguments)])


def book(name: str, *lines: str) -> list[DocumentPair]:
    return [(line, f"{line} auf Deutsch", name) for line in lines]


def books(count: int, size: int = 4) -> list[DocumentPair]:
    """Documents of `size` sentences of their own, with a footer that all of them have."""
    lines = [(f"book {i}", [f"line {i} {j}" for j in range(size)]) for i in range(count)]
    return [pair for name, own in lines for pair in book(name, *own[:2], "All rights reserved.", *own[2:])]


words = st.sampled_from(["a", "A!", "b", "c", "d e", "d, E"])
documents = st.lists(st.tuples(words, words, st.sampled_from(["", "x", "y", "z"])), max_size=20)


@given(documents, st.integers(1, 3), st.integers(0, 9))
def test_no_document_and_no_sentence_is_in_two_sets(
    found: list[tuple[str, str, str]], held_out: int, seed: int
) -> None:
    pairs = found + books(7, 3)
    sets = split_documents(pairs, held_out, None, seed)
    names = [{pair[2] for pair in sets[name]} for name in SETS]
    assert sum(map(len, names)) == len(set().union(*names)) == len({pair[2] for pair in pairs})
    assert "" not in names[1] | names[2]
    for side in (0, 1):
        sentences = [{"".join(filter(str.isalnum, pair[side].lower())) for pair in sets[name]} for name in SETS]
        assert sum(map(len, sentences)) == len(set().union(*sentences))
    for name, of_set in zip(SETS, names, strict=True):  # in their order; nothing is missing without a reason
        assert name == "train" or len(sets[name]) >= held_out
        for document in of_set:
            whole = [pair for pair in pairs if pair[2] == document]
            kept = [pair for pair in sets[name] if pair[2] == document]
            if name == "train":
                assert kept == whole
            elif document.startswith("book"):
                assert kept == [pair for pair in whole if "rights" not in pair[0]]
            else:
                remaining = iter(whole)
                assert all(pair in remaining for pair in kept)
    order = sorted({pair[2] for pair in pairs})
    random.Random(seed).shuffle(order)
    other = [pair for document in order for pair in pairs if pair[2] == document]
    assert split_documents(other, held_out, None, seed) == sets


def test_small_documents_are_held_out_first() -> None:
    pairs = [*book("large", *(f"of the large one {i}" for i in range(50))), *books(4, 6), *books(2, 0)]
    sets = split_documents(pairs, 12, 9, 1)
    assert [len(sets[name]) for name in SETS] == [9, 12, 12] and {pair[2] for pair in sets["train"]} == {"large"}
    with pytest.raises(NmtError, match=r"--pairs 13: too few documents: 5, with 74 pairs that share no.* another --by"):
        split_documents(pairs, 13, None, 1)


def test_a_source_that_is_a_target_elsewhere_is_not_shared() -> None:
    pairs = [("a", "b", "x"), ("b", "c", "y"), ("d", "e", "z")]
    assert [len(of_set) for of_set in split_documents(pairs, 1, None, 1).values()] == [1, 1, 1]


def test_each_format_names_its_documents(tmp_path: Path) -> None:
    """The same pairs in every format give the same sets; what is left out is counted."""
    pairs = [*books(9), *book("", "No document has this."), ("empty", "", "book 1")]
    rows = [dict(zip(("source", "target", "document"), pair, strict=True)) for pair in pairs]
    (tmp_path / "my.en").write_text("".join(f"{pair[0]}\n" for pair in pairs))
    (tmp_path / "my.de").write_text("".join(f"{pair[1]}\n" for pair in pairs))
    (tmp_path / "names").write_text("".join(f" {pair[2]}\n" for pair in pairs))
    (tmp_path / "my.tsv").write_text("".join(f"{pair[2]}\t{pair[0]}\t{pair[1]}\n" for pair in pairs))
    lines = [",".join(rows[0]), *(f"{pair[0]},{pair[1]},{pair[2]}" for pair in pairs)]
    (tmp_path / "my.csv").write_text("".join(f"{line}\n" for line in lines))
    meta = [{**row, "meta": {"doc": row["document"] or None}} for row in rows]
    (tmp_path / "my.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in meta))
    units = [
        (
            f"<prop type='x-doc'>{name}</prop><tuv lang='en'><prop type='x'>a</prop><seg>{source}</seg></tuv>",
            name,
            target,
        )
        for source, target, name in pairs
    ]
    tmx = "".join(f"<tu d='{name}'>{unit}<tuv lang='de'><seg>{target}</seg></tuv></tu>" for unit, name, target in units)
    foreign = "<tu d='z'><tuv lang='fr'><seg>x</seg></tuv></tu>"
    (tmp_path / "my.tmx").write_text(f"<tmx><body>{foreign}{tmx}</body></tmx>")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(meta), tmp_path / "my.parquet")
    given_by = {
        "parquet": ("my.parquet", "--by", "meta.doc"),
        "lines": ("my.en", "my.de", "--by", tmp_path / "names"),
        "number": ("my.tsv", "--columns", 2, 3, "--by", 1),
        "heading": ("my.csv", "--by", "document"),
        "path": ("my.jsonl", "--by", "meta.doc"),
        "prop": ("my.tmx", "--by", "x-doc"),
        "attribute": ("my.tmx", "--by", "d"),
    }
    contents = []
    for kind, arguments in given_by.items():
        files = [tmp_path / name if str(name).startswith("my.") else name for name in arguments]
        done = run(*files, "--languages", "en", "de", "--pairs", 7, "--output", tmp_path / kind)
        assert done.exit_code == 0, done.stderr
        assert "47 pairs: 26 train, 8 validation, 8 test, 4 left out, 1 with an empty side\n" in done.stderr
        assert "train: 1 pair without a document\n" in done.stderr
        assert "test: 2 documents; 2 pairs left out: another document has the same sentence\n" in done.stderr
        contents.append({path.name: path.read_text() for path in (tmp_path / kind).iterdir()})
    assert all(content == contents[0] for content in contents) and len(contents[0]) == 9
    for name in SETS:
        source, target, of_lines = (contents[0][f"{name}.{ending}"].split("\n") for ending in ("en", "de", "documents"))
        assert set(zip(source, target, of_lines, strict=True)) <= {*pairs, ("", "", "")}


def test_the_commands_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = books(9)
    for name, column in (("my.en", 0), ("my.de", 1), ("my.documents", 2)):
        Path(name).write_text("".join(f"{pair[column]}\n" for pair in pairs))
    Path("pairs.tsv").write_text("".join(f"1\t{pair[0]}\t\t{pair[1]}\n" for pair in pairs))
    side = "<tuv xml:lang='{}'><seg>{}</seg></tuv>".format
    units = (f"<prop type='x-document'>{name}</prop>{side('en', a)}{side('de', b)}" for a, b, name in pairs)
    Path("memory.tmx").write_text(f"<tmx><body>{''.join(f'<tu>{unit}</tu>' for unit in units)}</body></tmx>")
    assert len(run_page("docs/data.md", {"split": ["--pairs", "3"]})) == 3
    assert {path.name for path in Path("data").iterdir()} == {"my", "memory", "documents"}
    assert Path("data/memory/test.documents").read_text() == Path("data/documents/test.documents").read_text() != ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("my.en", "my.de", "--by", "two"), "two has 2 lines and my.en has 3: each line needs its document"),
        (("my.en", "my.de", "--by", "doc"), "--by doc: no such file: for two text files, give a file with"),
        (("my.en", "my.de", "--by", "empty"), "--by empty: no pair has a document: name another"),
        (("my.tsv", "--by", "4"), "my.tsv: no column 4: the first row has 3"),
        (("my.tsv", "--columns", "2", "3", "--by", "doc"), "my.tsv: 'doc' is a heading: name the columns of"),
        (("my.tmx", "--by", "x"), "--by x: no pair has a document: name another property of the units (client, x-doc)"),
        (("my.jsonl", "--by", "doc"), "my.jsonl: no column 'doc'; there are 'en', 'de'"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"my.en": "a\nb\nc\n", "my.de": "d\ne\nf\n", "two": "x\ny\n", "empty": "\n \n\n"}
    files |= {"my.tsv": "doc\tx\ty\n1\ta\tb\n", "my.jsonl": '{"en": "a", "de": "b"}\n'}
    sides = "".join(f"<tuv lang='{language}'><seg>a</seg></tuv>" for language in ("en", "de"))
    properties = "<prop type='client'>a</prop><prop  type='x-doc'>b</prop><prop type='client'>c</prop>"
    files["my.tmx"] = f"<tmx><body><tu>{properties}{sides}</tu></body></tmx>"
    for name, content in files.items():
        Path(name).write_text(content)
    done = run(*arguments, "--languages", "en", "de", "--output", "out")
    assert done.exit_code == 1 and f"error: {message}" in done.stderr.split("\n")[-2], done.stderr
    assert not Path("out").exists()
