"""Strict reading: every problem with its place in one report, whatever the YAML; back and forth without loss."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import reader, writer
from nmt.config.declaration import required, section, setting
from nmt.errors import NmtError


@dataclass(frozen=True)
class Book:
    title: str = required("what is on its spine", affects="nothing")
    pages: int | None = setting(None, "how thick it is", at_least=1, affects="nothing")


@dataclass(frozen=True)
class Lamp:
    colour: str | None = setting(None, "of its light", affects="nothing")
    watts: int | None = setting(None, "how bright it is", at_least=1, affects="nothing")


@dataclass(frozen=True)
class Door:
    lock: str = required("what locks it", affects="nothing")
    handles: int | None = setting(None, "how many", at_least=1, affects="nothing")


@dataclass(frozen=True)
class Shelf:
    height: int = setting(3, "boards", at_least=1, affects="nothing")
    width: float = setting(0.5, "metres", above=0, at_most=2, affects="nothing")
    limits: tuple[float, float] = setting((0.0, 0.5), "of the load", at_least=0, below=1, affects="nothing")
    wood: Literal["oak", "pine"] = setting("oak", "what it is made of", affects="nothing")
    open: bool = setting(True, "without a door", affects="nothing")
    top: Lamp | None = setting(None, "what stands on it", affects="nothing")


@dataclass(frozen=True, kw_only=True)
class Room:
    name: str = required("of the room", affects="nothing")
    books: tuple[Book, ...] = setting((), "on the floor", affects="nothing")
    note: str | None = setting(None, "for the | reader", affects="nothing")
    shelf: Shelf = section(Shelf, "The shelf.")
    door: Door = section(Door, "The door.")


ROOM = "name: study\ndoor: {lock: D}\n"


def read(text: str, *overrides: str) -> Room:
    return reader.parse(Room, text, "room.yaml", overrides)


def problems(text: str, *overrides: str) -> list[str]:
    """What is reported, without the file's name and the count, which are checked."""
    with pytest.raises(NmtError) as error:
        read(text, *overrides)
    first, *rest = str(error.value).split("\n")
    if not rest:
        assert first.startswith("room.yaml: ")
        return [first.removeprefix("room.yaml: ")]
    assert first == f"room.yaml: {len(rest)} problems"
    assert all(re.match(r"  \S", line) for line in rest)
    return [line.strip() for line in rest]


def test_what_is_given_is_read_and_the_rest_has_its_default() -> None:
    room = read("name: study\nbooks: [{title: A}, {title: B, pages: 7}]\nshelf:\n  width: 2\ndoor:\n  lock: D\n")
    books = (Book("A"), Book("B", 7))
    assert room == Room(name="study", books=books, shelf=Shelf(width=2.0), door=Door("D"))
    assert type(room.shelf.width) is float


# --------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("line", "value"),
    [
        *[(f"note: {written}", value) for written, value in {
            "no": "no", "12:30": "12:30", "2001-01-01": "2001-01-01", "0x1F": "0x1F", "'08'": "08", "x # why": "x",
            "|-\n  folded": "folded", "null": None, "~": None, "": None}.items()],
        *[(f"shelf: {{width: {written}}}", value) for written, value in {
            "1e-1": 0.1, ".5": 0.5, "+1.": 1.0, "2": 2.0, "1_0E-1": 1.0, "00.1": 0.1}.items()],
        *[(f"shelf: {{height: {written}}}", value) for written, value in {
            "25_000": 25_000, "017": 17, "9" * 18: 10**18 - 1}.items()],
    ],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(line: str, value: str | float | None) -> None:
    room = read(f"{ROOM}{line}\n")
    read_ = room.note if line.startswith("note") else room.shelf.width if "width" in line else room.shelf.height
    assert read_ == value and type(read_) is type(value)


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("name: 2024", "name", "2024"), ("name: true", "name", "true"), ("name: ' '", "name", "' '"),
        ('name: "a\\0b"', "name", "U+0000"), ("name: |\n  two\n  lines", "name", "U+000A"),
        ("name: [a]", "name", "[a]"),
        ("shelf: {top: true}", "shelf.top", "true"), ("shelf: [height]", "shelf", "[height]"),
        ("books: {title: A}", "books", "{title: A}"), ("books: [A]", "books[0]", "A"),
        ("books: [{title: A}, {title: B, pages: 0}]", "books[1].pages", "0"),
        *[(f"shelf: {{height: {value}}}", "shelf.height", value) for value in ("3.0", "true", "'3'", "null", "0")],
        *[(f"shelf: {{width: {value}}}", "shelf.width", value)
          for value in ("0", "2.1", ".nan", "-.inf", "1e400", "1e-400", "false")],
        ("shelf: {wood: Oak}", "shelf.wood", "Oak"), ("shelf: {open: yes}", "shelf.open", "yes"),
        *[(f"shelf: {{limits: {value}}}", "shelf.limits", value)
          for value in ("[0.1]", "[0.1, 0.2, 0.3]", "[0.1, x]", "[0.1, 1]", "0.1")],
        ("nmae: 3", "nmae", "name"), ("height: 3", "height", "shelf.height"),
        ("shelf.height: 3", "shelf.height", "shelf:"),
        ("shelf: {note: x}", "shelf.note", "note"), ("books: [{title: A, page: 3}]", "books[0].page", "books[0].pages"),
        ("zzz: 3", "zzz", "name, books, note, shelf, door"), ("<<: {note: x}", "<<", "unknown"),
        ("note: x\nnote: y", "note", "line 3"), ("[a, b]: 3", "key", "[a, b]"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_with_its_line_its_key_and_its_value(line: str, key: str, value: str) -> None:
    rest = "".join(f"{own}\n" for own in ROOM.split("\n") if own and own[:5] != line[:5])
    [problem] = problems(f"{rest}{line}\n")
    number = rest.count("\n") + 1 + line.startswith("note: x\n")
    assert problem.startswith(f"line {number}: ") and key in problem and value in problem.partition(key)[2]


@dataclass(frozen=True)
class Clock:
    chimes: int | Literal["auto", "never"] | None = setting(None, "a day", at_least=1, at_most=24, affects="nothing")


@pytest.mark.parametrize(("written", "value"), [("7", 7), ("auto", "auto"), ("null", None), ("25", 0), ("Auto", 0)])
def test_a_number_or_one_of_some_words(written: str, value: int | str | None) -> None:
    if value == 0:
        with pytest.raises(NmtError, match=f"chimes: expected .*; found {written}$"):
            reader.parse(Clock, f"chimes: {written}", "clock.yaml")
        return
    clock = reader.parse(Clock, f"chimes: {written}", "clock.yaml")
    assert clock == Clock(value)  # type: ignore[arg-type]
    assert reader.parse(Clock, writer.to_yaml(clock), "clock.yaml") == clock


@pytest.mark.parametrize("key", ["books[0].pages", "shelf.limits[1]"])
def test_a_list_cannot_be_overridden_in_part(key: str) -> None:
    [problem] = problems(ROOM, f"{key}=3")
    assert problem.startswith(f"override {key}: ") and f"{key.partition('[')[0]}=[…]" in problem


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "null\n"])
def test_what_is_missing_is_named(text: str) -> None:
    assert [problem.split()[0] for problem in problems(text)] == ["name", "door.lock"]


def test_every_problem_is_in_one_report() -> None:
    text = "shelf:\n  hieght: 3\n  height: 3.5\n  width: 5\n  wood: elm\n  width: 1\nbooks:\n  - pages: x\nrooms: 1\n"
    found = problems(text, "shelf.open=maybe", "note", "name.x=3", "door.lock=[")
    keys = [
        "shelf.width", "'note'", "'door.lock=['", "shelf.hieght", "shelf.height", "shelf.wood", "shelf.open",
        "books[0].pages", "books[0].title", "rooms", "name", "door.lock",
    ]  # fmt: skip
    assert len(found) == len(keys) and all(key in problem for key, problem in zip(keys, found, strict=True))


# --------------------------------------------------------------------------- what is no YAML of settings


@pytest.mark.parametrize(
    ("line", "place", "word"),
    [
        ("\tnote: x", "line 3, column 1", "tabs"), ("note: @x", "line 3, column 7", "quotes"),
        ("note: a: b", "line 3, column 8", "colon"), ("note:x\nname: y", "line 3, column 1", "colon"),
        ("shelf: {height: 3", "line 4, column 1", "bracket"), ("note: 'it's'", "line 3, column 11", "quote"),
        ("note: a\x07", "line 3", "U+0007"), ("---\nnote: x", "line 3, column 1", "second document"),
    ],
)  # fmt: skip
def test_invalid_yaml(line: str, place: str, word: str) -> None:
    [problem] = problems(f"{ROOM}{line}\n")
    assert problem.startswith(f"{place}: ") and word in problem


@pytest.mark.parametrize(
    "hidden",
    [
        "note: &anchor x", "shelf: *undefined", "shelf: &a [*a]", "&key note: x", "note: !!str x",
        "shelf: !!python/object/apply:os.system ['exit 1']", "shelf: !mine {}",
        "books: &b [{title: A}]\nshelf:\n  <<: *b",
    ],
)  # fmt: skip
def test_anchors_aliases_and_tags_are_refused(hidden: str) -> None:
    (problem,) = problems(f"{ROOM}{hidden}\n")
    assert re.fullmatch(r"line \d, column \d+: anchors, aliases and tags .* are not allowed: .*", problem)


@pytest.mark.parametrize("text", ["a: " + "[" * 5000, "{a: " * 5000, "- " * 5000 + "a", "a: " + "[" * 90 + "]" * 90])
def test_endless_nesting_is_refused(text: str) -> None:
    (problem,) = problems(text)
    assert "nested more than 20 levels deep" in problem


CHARACTERS = "ab:-[]{}&*!|>'\"#%@`,?~=<.\n\t 013e_\x85\u2028\ufeffé語\U0001f600"
PARTS = ["\n  ", ": ", "- ", "!!int ", "---\n", "name", "door", "shelf", "title: ", "height: ", "books: ", "\\x", "0x"]
yamlish = st.lists(st.sampled_from([*CHARACTERS, *PARTS]), max_size=25).map("".join)


@given(yamlish, st.lists(yamlish, max_size=2))
def test_any_text_and_overrides_give_a_value_or_an_nmt_error(text: str, overrides: list[str]) -> None:
    for whole in (text, ROOM + text, f"{ROOM}shelf:\n  {text}"):
        try:
            assert isinstance(read(whole, *overrides), Room)
        except NmtError as error:
            assert str(error).startswith("room.yaml: ")
            assert all(len(line) < 400 for line in str(error).split("\n"))


# --------------------------------------------------------------------------- overrides


@pytest.mark.parametrize(
    ("override", "changes"),
    [
        ("name=attic", {"name": "attic"}),
        ("shelf={height: 4}", {"shelf": Shelf(height=4)}),
        ("shelf.top.watts=5", {"shelf": Shelf(top=Lamp(watts=5))}),
        ("books=[{title: A}]", {"books": (Book("A"),)}),
    ],
)
def test_overrides_are_typed_like_the_file(override: str, changes: dict[str, Any]) -> None:
    assert read(ROOM, override) == replace(read(ROOM), **changes)


def test_the_last_override_wins_and_one_key_of_a_mapping_leaves_the_others() -> None:
    text = f"{ROOM}shelf: {{height: 9, top: {{colour: T, watts: 5}}}}\n"
    shelf = read(text, "shelf.width=1", "shelf.top.watts=6", "shelf.width=2").shelf
    assert shelf == Shelf(height=9, width=2.0, top=Lamp("T", 6))
    assert read(text, "shelf=null", "shelf.width=1").shelf == Shelf(width=1.0)


@pytest.mark.parametrize(
    ("override", "word"),
    [
        ("shelf.height", "section.key=value"), ("=3", "section.key=value"), ("note=", "missing"),
        ("shelf/height=3", "shelf.height"), ("shelf.height=3.5", "3.5"), ("shelf={height: 1, height: 2}", "twice"),
        ("books.0.title=A", "books as a whole"), ("note.x=3", "mapping"), ("note=a: b: c", "quotes"),
        ("note=*x", "aliases"), ("note=\udcff", "U+DCFF"), ("note=''", "''"),
    ],
)  # fmt: skip
def test_overrides_that_cannot_be_read(override: str, word: str) -> None:
    [problem] = problems(f"{ROOM}books: []\n", override)
    assert problem.startswith("override ") and word in problem


# --------------------------------------------------------------------------- files


def test_a_file_is_read_whatever_its_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "room.yaml"
    for content in (ROOM.encode(), b"\xef\xbb\xbf" + ROOM.encode(), ROOM.replace("\n", "\r\n").encode()):
        path.write_bytes(content)
        room = reader.parse(Room, reader.read_text(path), str(path), ["name=attic"])
        assert room == Room(name="attic", door=Door("D"))


@pytest.mark.parametrize(("name", "word"), [("missing", "no such file"), (".", "directory"), ("latin", "line 2")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, word: str) -> None:
    (tmp_path / "latin").write_bytes("name: study\nnote: café\n".encode("latin-1"))
    path = tmp_path / name
    with pytest.raises(NmtError, match=f"^{path}: (?i:.*{word})"):
        reader.parse(Room, reader.read_text(path), str(path))


# --------------------------------------------------------------------------- and back


def test_written_settings_are_read_back_equal() -> None:
    """Also text that looks like another value, and to a reader of YAML 1.1."""
    for text in ("no", "1e5", "08", "0x1f", "1_0", "~", "true", "12:30", "2001-01-01", "=", "<<", ".5e3", "&", "-"):
        shelf = Shelf(10**18 - 1, 5e-324, (1e-9, 0.999), "pine", open=False, top=Lamp(text))
        room = Room(name=text, books=(Book(text, 7), Book(text)), note=text, shelf=shelf, door=Door(text))
        assert read(writer.to_yaml(room)) == room
        assert yaml.safe_load(writer.to_yaml(room)) == writer.to_dict(room)


def test_differences_are_short_and_in_the_order_declared() -> None:
    old = read(f"{ROOM}note: x\nshelf: {{limits: [0, 0.25]}}")
    new = read("name: no\nbooks: [{title: A}, {title: B, pages: 3}]\ndoor: {lock: D, handles: 4}")
    fewer = read("name: no\nbooks: [{title: A}, {title: B}]\ndoor: {lock: D, handles: 4}")
    assert writer.differences(fewer, new) == {"books[1].pages": ("null", "3")}
    assert list(writer.differences(old, new).items()) == [
        ("name", ("study", "'no'")),
        ("books", ("a list of 0", "a list of 2")),
        ("note", ("x", "null")),
        ("shelf.limits", ("[0.0, 0.25]", "[0.0, 0.5]")),
        ("door.handles", ("null", "4")),
    ]
