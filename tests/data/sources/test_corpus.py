"""Corpora of every kind come out as the pairs that went in, and what is wrong with one is said."""

import gzip
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from helpers.compressed import COMPRESS
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from nmt.config.schema import Corpus, DataConfig
from nmt.data.sources import corpus as corpora
from nmt.data.sources.arrow_tables import BATCH_ROWS
from nmt.data.sources.corpus import read_pairs
from nmt.data.sources.invalid_lines import likely_encoding
from nmt.errors import NmtError
from nmt.files.text import blocks_of_lines, decoded_lines

PAIRS = [("a dog runs .", "ein Hund rennt ."), ("", "leer"), ("größer 😀", "\u2028\u0085\x0c\x1c\v\r mitten")]
# What other ways of splitting lines would stumble over; of control characters, "\n" alone ends a line.
HOSTILE = st.text(
    st.sampled_from("\r\t\v\f\x1c\x1d\x1e\x00\u0085\u2028\u2029\ufeff ▁ä😀a") | st.characters(codec="utf-8"),
    max_size=12,
).map(lambda text: text.replace("\n", "").rstrip("\r"))


def data(*train: Corpus) -> DataConfig:
    return DataConfig(source_language="en", target_language="de", train=train)


def read(corpus: Corpus, default_split: str = "train") -> list[tuple[str, str]]:
    return list(read_pairs(corpus, data(corpus), default_split))


def fingerprint(corpus: Corpus, default_split: str) -> str:
    return corpora.fingerprint(corpus, data(corpus), default_split)


def lines_of(content: bytes) -> list[str]:
    """The lines, which are the same if many are decoded together."""
    lines = list(decoded_lines(io.BytesIO(content), "a file"))
    assert list(decoded_lines(blocks_of_lines(io.BytesIO(content)), "a file")) == lines
    return lines


def write(path: Path, content: bytes) -> str:
    path.write_bytes(COMPRESS[path.suffix](content) if path.suffix in COMPRESS else content)
    return str(path)


def json_lines(rows: Sequence[object]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def nested(pairs: Sequence[tuple[str | None, str | None]]) -> list[dict[str, Any]]:
    return [{"id": i, "translation": {"en": source, "de": target}} for i, (source, target) in enumerate(pairs)]


def one_line_each(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """What fields of tables become."""
    breaks = str.maketrans("\n\r\t", "   ")
    return [(source.translate(breaks), target.translate(breaks)) for source, target in pairs]


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library `datasets` without a network, and with a cache of its own."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    import datasets
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub-cache")
    datasets.disable_progress_bars()


# --------------------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"one\r\ntwo\r\r\n", ["one", "two\r"]),
        (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo", ["one", "\ufefftwo"]),
        ("a\u2028b\u0085c\x0cd\x1ce\vf\n".encode(), ["a\u2028b\u0085c\x0cd\x1ce\vf"]),
    ],
)
def test_lines_end_at_line_feeds_alone(content: bytes, lines: list[str]) -> None:
    assert lines_of(content) == lines


def test_bytes_that_are_not_utf8_are_placed_in_large_files() -> None:
    lines = [f"line {number} ä".encode() for number in range(30_000)]
    lines[7_001] = b"\xc3\xa4b\xff"
    found = list[str]()
    with pytest.raises(NmtError, match=r"a file:7002: byte 4 is not UTF-8"):
        found.extend(decoded_lines(blocks_of_lines(io.BytesIO(b"\r\n".join(lines))), "a file"))
    assert len(found) == 7_001 and found[-1] == "line 7000 ä"


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(HOSTILE, HOSTILE), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_hostile_text_stays_aligned(tmp_path_factory: Any, pairs: list[tuple[str, str]], end: str) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    pairs = [(source.removeprefix("\ufeff"), target.removeprefix("\ufeff")) for source, target in pairs]
    source, target = (
        write(folder / f"text.{side}", "".join(pair[side] + end for pair in pairs).encode()) for side in (0, 1)
    )
    assert read(Corpus(source=source, target=target)) == pairs
    rows = write(folder / "rows.jsonl", json_lines(nested(pairs)))
    assert read(Corpus(file=rows)) == one_line_each(pairs)
    parquet.write_table(pyarrow.Table.from_pylist(nested(pairs)), folder / "rows.parquet")
    assert read(Corpus(file=str(folder / "rows.parquet"))) == one_line_each(pairs)


# --------------------------------------------------------------------------- lines that are not UTF-8


def mixed(lines: Sequence[str], encoding: str, bad: range) -> bytes:
    """Lines in UTF-8, but for some."""
    return b"".join(f"{line}\n".encode(encoding if i in bad else "utf-8") for i, line in enumerate(lines))


FRENCH = [f"café crème {i}" for i in range(60)]
GERMAN = [f"größer {i}" for i in range(60)]
CONTENT = {
    "lines": FRENCH,
    ".tsv": [f"{source}\t{target}" for source, target in zip(FRENCH, GERMAN, strict=True)],
    ".csv": [f'"{source}";"{target}"' for source, target in zip(FRENCH, GERMAN, strict=True)],
    ".jsonl": [
        json.dumps({"source": source, "target": target}, ensure_ascii=False)
        for source, target in zip(FRENCH, GERMAN, strict=True)
    ],
}


@pytest.mark.parametrize("kind", CONTENT)
@pytest.mark.parametrize("bad", [range(7, 60, 20), range(60)])
def test_lines_that_are_not_utf8(tmp_path: Path, kind: str, bad: range) -> None:
    """An error says how many and what they are; with `invalid: drop` their pairs are empty, so that scores fit, and
    counted."""
    target = write(tmp_path / "a.de", "\n".join(GERMAN).encode())
    path = write(tmp_path / f"a{kind}", mixed(CONTENT[kind], "cp1252", bad))
    corpus = Corpus(source=path, target=target) if kind == "lines" else Corpus(file=path)
    said = (
        rf"^{path}:{bad[0] + 1}: byte \d+ is not UTF-8: {len(bad)} of 60 lines are not \(probably windows-1252\)"
        + ("" if len(bad) == 60 else ", while others are")
        + ": convert .*, or give the corpus invalid: drop in the config, to leave such lines out$"
    )
    with pytest.raises(NmtError, match=said):
        read(corpus)
    dropped, notes = replace(corpus, invalid="drop", reversed=True), list[str]()
    found = list(read_pairs(dropped, data(dropped), "train", fingerprint(dropped, "train"), notes))
    right = list(zip(GERMAN, FRENCH, strict=True))
    assert found == [("", "") if i in bad else pair for i, pair in enumerate(right)]
    assert notes[-1] == f"{len(bad)} pairs are left out (as empty ones): not UTF-8, probably windows-1252"
    path = write(tmp_path / f"a{kind}", mixed(CONTENT[kind], "utf-8", bad))
    good, notes = replace(dropped, reversed=False), []
    assert list(read_pairs(good, data(good), "train", notes=notes)) == list(zip(FRENCH, GERMAN, strict=True))
    assert not any("left out (as" in note for note in notes)
    assert fingerprint(good, "train") != fingerprint(replace(good, invalid="error"), "train")


def test_half_of_a_surrogate_pair_is_not_utf8_either(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", json_lines([{"en": "\ud800", "de": "b"}, {"en": "c", "de": "\udc80é"}]))
    assert read(Corpus(file=path, invalid="drop")) == [("", ""), ("", "")]
    with pytest.raises(NmtError, match="half of a surrogate pair"):
        read(Corpus(file=path))


@pytest.mark.parametrize(
    ("text", "encoding", "languages", "named"),
    [
        ("Příliš žluťoučký kůň", "cp1250", ["cs"], "windows-1250"),
        ("Съешь ещё французских булок", "cp1251", ["ru"], "windows-1251"),
        ("漢字", "shift_jis", ["ja"], "shift_jis"), ("été", "cp1252", ["ja", "fr"], "windows-1252"),
        ("été", "cp1252", ["hi"], None),
    ],
)  # fmt: skip
def test_the_likely_encoding_is_that_of_the_language(
    text: str, encoding: str, languages: list[str], named: str | None
) -> None:
    assert likely_encoding([text.encode(encoding)], languages) == named
    assert likely_encoding([b"\x81\xff", b"\x8d"], ["en"]) is None


# --------------------------------------------------------------------------- every kind of corpus


@pytest.mark.parametrize("packed", ["", *COMPRESS])
def test_text_files(tmp_path: Path, packed: str) -> None:
    source, target = (
        write(tmp_path / f"train.{side}{packed}", "\n".join(pair[side] for pair in PAIRS).encode()) for side in (0, 1)
    )
    assert read(Corpus(source=source, target=target)) == PAIRS


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        (lambda source, target: {"translation": {"en": source, "de": target}}, {}),
        (lambda source, target: {"source": source, "target": target}, {}),
        (lambda source, target: {"en": "not this", "x": [1], "deep": {"er": {"s": source}}, "t.t": target},
         {"source_column": "deep.er.s", "target_column": "t.t"}),
    ],
)  # fmt: skip
def test_jsonl(tmp_path: Path, row: Callable[[str, str], object], columns: dict[str, str]) -> None:
    path = write(tmp_path / "train.jsonl.gz", json_lines([row(*pair) for pair in PAIRS]))
    assert read(Corpus(file=path, **columns)) == one_line_each(PAIRS)


@pytest.mark.parametrize(
    "kind",
    [pyarrow.string(), pyarrow.dictionary("int32", pyarrow.string())],
)
def test_parquet(tmp_path: Path, kind: pyarrow.DataType) -> None:
    many = PAIRS * (BATCH_ROWS // 2)  # several batches
    columns = [pyarrow.array([pair[side] for pair in many]).cast(kind) for side in (0, 1)]
    flat = pyarrow.table({"en": columns[0], "id": list(range(len(many))), "de": columns[1]})
    parquet.write_table(flat, tmp_path / "flat.parquet", row_group_size=999)
    assert read(Corpus(file=str(tmp_path / "flat.parquet"))) == one_line_each(many)


def test_parquet_with_nested_columns_and_nulls(tmp_path: Path) -> None:
    rows = [*nested([("a", None), ("b", "c")]), {"id": 2, "translation": None}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "nested.parquet")
    assert read(Corpus(file=str(tmp_path / "nested.parquet"))) == [("a", ""), ("b", "c"), ("", "")]


def test_parquet_with_maps(tmp_path: Path) -> None:
    """Each row has other keys, and a batch may lack one that another has."""
    maps = [{"en": "a", "de": "b", "fr": "x"}, {"de": "c"}, None, *[{"en": "d"}] * BATCH_ROWS]
    kind = pyarrow.map_(pyarrow.string(), pyarrow.large_string())
    column = pyarrow.array([row and list(row.items()) for row in maps], kind)
    parquet.write_table(pyarrow.table({"translation": column}), tmp_path / "maps.parquet")
    expected = [("a", "b"), ("", "c"), ("", ""), *[("d", "")] * BATCH_ROWS]
    assert read(Corpus(file=str(tmp_path / "maps.parquet"))) == expected


def test_jsonl_null_is_an_empty_side_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    """Also in place of the object with the text, and before any line that has it. A byte order mark does not matter."""
    rows = b"\xef\xbb\xbf\n" + json_lines([{"translation": None}, *nested([("a", None)])]) + b"  \r\n"
    said = list[str]()
    corpus = Corpus(file=write(tmp_path / "a.jsonl", rows))
    assert list(read_pairs(corpus, data(corpus), "train", notes=said)) == [("", ""), ("a", "")]
    assert said == ["2 blank lines are skipped"]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.usefixtures("offline")
def test_hub_folder(tmp_path: Path, streaming: bool) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    many = PAIRS * (BATCH_ROWS // 2)
    for split, pairs in (("train", many), ("validation", PAIRS)):
        parquet.write_table(pyarrow.Table.from_pylist(nested(pairs)), folder / f"{split}.parquet")
    corpus = Corpus(hub=str(folder), streaming=streaming)
    assert read(corpus) == one_line_each(many)
    assert read(corpus, "validation") == one_line_each(PAIRS)
    named = Corpus(hub=str(folder), streaming=streaming, split="validation", source_column="translation.de")
    assert read(named) == [(target, target) for _, target in one_line_each(PAIRS)]
    downloaded = list((tmp_path / "hub-cache").rglob("*.arrow"))
    assert bool(downloaded) != streaming


# --------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(("source", "target"), [(3, 5), (0, 1)])
def test_misaligned_files_state_both_counts(tmp_path: Path, source: int, target: int) -> None:
    corpus = Corpus(source=write(tmp_path / "s", b"x\n" * source), target=write(tmp_path / "t", b"y\n" * target))
    with pytest.raises(NmtError, match=rf"s has {source} lines and .*t has {target}"):
        read(corpus)


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.tsv", b"", {}, "a.tsv: no sentence pairs"),
        ("a.tsv", b"a\tb\na\n", {}, r"a.tsv:2: no column 2: the line has 1"),
        ("a.tsv", b"a\tb\n\xe4\tb\n", {}, "a.tsv:2: byte 1 is not UTF-8"),
        ("a.jsonl", b'{"en": "a", "de": "b"}\n{"en": \n', {}, r"a.jsonl:2: not JSON: Expecting value at character 8"),
        ("a.jsonl", b'{"en": "a", "x": {"y": "b"}}\n', {}, "a.jsonl:1: no target column 'translation.de' or 'de' or "
         "'target'; there are 'en', 'x.y': give target_column"),
        ("a.jsonl", b'{"en": "a", "de": ["b"]}\n', {}, r"a.jsonl:1: column 'de' must hold text, not \[\"b\"\]"),
        ("a.jsonl", b'{"en": "a", "de": "\\ud800"}\n', {}, "a.jsonl:1: column 'de' holds half of a surrogate pair"),
        ("a.parquet", b"PAR1 and no more", {}, "a.parquet: not a complete Parquet file"),
        ("a.txt", b"a,b\n", {}, "a.txt: its name must end in .tsv, .csv"),
        ("a.tsv", b"PK\3\4\x14\0", {}, "a.tsv: a ZIP archive, as .xlsx and .docx are: save"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table(
    tmp_path: Path, name: str, content: bytes, columns: dict[str, str], message: str
) -> None:
    corpus = Corpus(file=write(tmp_path / name, content), **columns)
    with pytest.raises(NmtError, match=message) as error:
        read(corpus)
    assert "\n" not in str(error.value)


def test_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n" * 1000)[:-12])
    with pytest.raises(NmtError, match=r"a.tsv.gz: damaged gzip file"):
        read(Corpus(file=str(path)))


def test_parquet_column_that_is_not_text(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"en": ["a"], "de": [1]}), tmp_path / "a.parquet")
    with pytest.raises(NmtError, match="column 'de' must hold text, not int64"):
        read(Corpus(file=str(tmp_path / "a.parquet")))
    with pytest.raises(NmtError, match="no target column 'fr'; there are 'en', 'de'"):
        read(Corpus(file=str(tmp_path / "a.parquet"), target_column="fr"))


def test_training_text_in_a_pipe_is_refused(tmp_path: Path) -> None:
    """It is read several times: the second time would wait for ever, or find nothing."""
    text, pipe = tmp_path / "text", tmp_path / "pipe"
    text.write_text("a\n")
    os.mkfifo(pipe)
    with pytest.raises(NmtError, match="pipe: is a pipe or a device, but training text is read several times"):
        corpora.check_files(data(Corpus(source=str(pipe), target=str(text))))


@pytest.mark.usefixtures("offline")
def test_hub_says_in_one_line_what_the_library_says(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    write(folder / "train.jsonl", json_lines(nested(PAIRS)))
    for corpus, reason in (
        (Corpus(hub="no-one/nothing"), "no-one/nothing: the dataset cannot be read: .*no-one"),
        (Corpus(hub=str(folder), split="dev"), "dev: the dataset cannot be read: .*dev.*train"),
        (Corpus(hub=str(folder), name="x"), "x: the dataset cannot be read: .*'x'"),
        (Corpus(hub=str(folder), source_column="en"), "there are 'id', 'translation.en'"),
    ):
        with pytest.raises(NmtError, match=reason) as error:
            read(corpus)
        assert "\n" not in str(error.value)


def test_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)  # so that its import fails
    with pytest.raises(NmtError, match=r"needs the package datasets: pip install 'nmt-toolkit\[hub\]'$"):
        read(Corpus(hub="no-one/nothing"))


# --------------------------------------------------------------------------- content


def test_fingerprint_follows_content_and_reading_alone(tmp_path: Path) -> None:
    source, target = write(tmp_path / "s", b"one\ntwo\n"), write(tmp_path / "t", b"eins\nzwei\n")
    before = fingerprint(Corpus(source=source, target=target), "train")
    copies = write(tmp_path / "copy-s", b"one\ntwo\n"), write(tmp_path / "copy-t", b"eins\nzwei\n")
    assert fingerprint(Corpus(source=copies[0], target=copies[1]), "train") == before
    assert fingerprint(Corpus(source=target, target=source), "train") != before
    write(tmp_path / "t", b"eins\ndrei\n")  # as long as before, and perhaps within the clock's grain
    assert fingerprint(Corpus(source=source, target=target), "train") != before
    table = write(tmp_path / "a.tsv", b"a\tb\tc\n")
    assert fingerprint(Corpus(file=table), "train") != fingerprint(Corpus(file=table, target_column="3"), "train")
    other_format = write(tmp_path / "a.csv", b"a\tb\tc\n")
    assert fingerprint(Corpus(file=table), "train") != fingerprint(Corpus(file=other_format), "train")
    with pytest.raises(NmtError, match="missing: no such file"):
        fingerprint(Corpus(source=source, target=str(tmp_path / "missing")), "train")


def test_fingerprint_of_a_hub_folder(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", json_lines(nested(PAIRS)))
    corpus = Corpus(hub=str(tmp_path))
    before = fingerprint(corpus, "train")
    write(tmp_path / ".note", b"hidden files are no data")
    assert fingerprint(corpus, "train") == before
    assert fingerprint(Corpus(hub=str(tmp_path), streaming=True), "train") == before
    assert fingerprint(corpus, "validation") != before
    write(tmp_path / "train.jsonl", json_lines(nested(PAIRS[:1])))
    assert fingerprint(corpus, "train") != before


@pytest.mark.usefixtures("offline")
def test_fingerprint_of_a_hub_dataset() -> None:
    """A commit needs no network; a branch has to be asked for."""
    commits = [fingerprint(Corpus(hub="no-one/nothing", revision=digit * 40), "train") for digit in "01"]
    assert commits[0] != commits[1]
    with pytest.raises(NmtError, match="no-one/nothing: the dataset cannot be read"):
        fingerprint(Corpus(hub="no-one/nothing", revision="main"), "train")


@pytest.mark.parametrize("name", ["text", "table.jsonl.gz"])
def test_the_fingerprint_is_compared_with_what_was_read(tmp_path: Path, name: str) -> None:
    """Another content that is there while it is read is found, though the right one is back by the end."""

    def written(word: str) -> Corpus:
        path = tmp_path / name
        path.unlink(missing_ok=True)  # so that who reads the old one goes on with it
        texts = {"tsv": f"{word}\tb\n".encode() * 3, "jsonl": json_lines([{"en": word, "de": "b"}] * 3)}
        kind = name.split(".")[1] if name.startswith("table") else ""
        write(path, texts.get(kind, f"{word}\n".encode() * 3))
        return Corpus(file=str(path)) if kind else Corpus(source=str(path), target=str(path))

    corpus = written("right")
    expected = fingerprint(corpus, "train")
    assert len(list(read_pairs(corpus, data(corpus), "train", expected))) == 3
    written("wrong")
    pairs = read_pairs(corpus, data(corpus), "train", expected)
    assert "wrong" in next(pairs)
    written("right")
    with pytest.raises(NmtError, match="has changed while it was read: run the command again"):
        list(pairs)
