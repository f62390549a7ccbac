"""Strict reading: every problem with its place in one report, whatever the YAML; back and forth without loss."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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


# --------------------------------------------------------------------------- YAML 1.2


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("12:30", "12:30"),
        ("2001-01-01", "2001-01-01"),
        ("0x1F", "0x1F"),
        ("'08'", "08"),
        ("'1e9'", "1e9"),
        ("x # why", "x"),
        ("|-\n  folded", "folded"),
    ],
)
def test_text(written: str, value: str) -> None:
    assert read(f"name: {written}\ndoor: {{lock: D}}\n").name == value


@pytest.mark.parametrize(
    ("written", "value"), [("1e-1", 0.1), (".5", 0.5), ("+1.", 1.0), ("2", 2.0), ("1_0E-1", 1.0), ("00.1", 0.1)]
)
def test_numbers(written: str, value: float) -> None:
    assert read(f"{ROOM}shelf: {{width: {written}}}").shelf.width == value


@pytest.mark.parametrize(("written", "value"), [("25_000", 25_000), ("+7", 7), ("017", 17), ("9" * 18, 10**18 - 1)])
def test_whole_numbers(written: str, value: int) -> None:
    assert read(f"{ROOM}shelf: {{height: {written}}}").shelf.height == value


@pytest.mark.parametrize("null", ["null", "~", "", "Null"])
def test_null(null: str) -> None:
    assert read(f"{ROOM}note: {null}\n").note is None


# --------------------------------------------------------------------------- one value that does not fit


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("name: 2024", "name: expected text; found 2024: put it in quotes"),
        ("shelf: {top: true}",
         "shelf.top: expected mapping or null; found true: write {} for the defaults, null for none"),
        ("name: true", "name: expected text; found true: put it in quotes"),
        ("name: ' '", "name: expected text; found ' '"),
        ('name: "a\\0b"', r"name: 'a\x00b' has a control character (U+0000), which no setting can have: leave it out"),
        ("name: |\n  two\n  lines",
         r"name: 'two\nlines\n' has a line break (U+000A), which no setting can have: leave it out"),
        ("name: [a]", "name: expected text; found [a]"),
        ("books: {title: A}", "books: expected list of mappings; found {title: A}: put it in [ ]"),
        ("books: [A]", "books[0]: expected mapping; found A"),
        ("books: [{title: A}, {title: B, pages: 0}]",
         "books[1].pages: expected whole number or null, at least 1; found 0"),
        ("shelf: [height]", "shelf: expected mapping; found [height]"),
    ],
)  # fmt: skip
def test_wrong_text_lists_and_mappings(line: str, message: str) -> None:
    rest = "".join(f"{own}\n" for own in ROOM.split("\n") if own and own[:4] != line[:4])
    assert problems(f"{rest}{line}\n") == [f"line {rest.count(chr(10)) + 1}: {message}"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        *[(f"height: {value}", f"height: expected whole number, at least 1; found {value}")
          for value in ("3.0", "true", "'3'", "null", "0", "[3]")],
        *[(f"width: {value}", f"width: expected number, above 0, at most 2; found {value}")
          for value in ("0", "2.1", ".nan", "-.inf", "1e400", "1e-400", "false", "0,5")],
        *[(f"wood: {value}", f"wood: expected oak | pine; found {value}")
          for value in ("Oak", "[oak]", "null")],
        *[(f"open: {value}", f"open: expected true | false; found {value}")
          for value in ("yes", "1")],
        *[(f"limits: {value}", f"limits: expected list of 2 numbers, at least 0, below 1; found {value}")
          for value in ("[0.1]", "[0.1, 0.2, 0.3]", "[0.1, x]", "[0.1, 1]", "0.1")],
    ],
)  # fmt: skip
def test_wrong_numbers_choices_and_ranges(value: str, message: str) -> None:
    assert problems(f"{ROOM}shelf:\n  {value}\n") == [f"line 4: shelf.{message}"]


@dataclass(frozen=True)
class Clock:
    chimes: int | Literal["auto", "never"] | None = setting(None, "a day", at_least=1, at_most=24, affects="nothing")


@pytest.mark.parametrize(
    ("written", "value"), [("7", 7), ("1", 1), ("24", 24), ("auto", "auto"), ("'never'", "never"), ("null", None)]
)
def test_a_number_or_one_of_some_words(written: str, value: int | str | None) -> None:
    clock = reader.parse(Clock, f"chimes: {written}", "clock.yaml")
    assert clock == Clock(value)  # type: ignore[arg-type]
    assert reader.parse(Clock, writer.to_yaml(clock), "clock.yaml") == clock


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("25", "25"),
        ("true", "true"),
        ("Auto", "Auto"),
    ],
)
def test_neither_such_a_number_nor_such_a_word(written: str, found: str) -> None:
    with pytest.raises(NmtError) as error:
        reader.parse(Clock, f"chimes: {written}", "clock.yaml")
    expected = "whole number or auto | never or null, at least 1, at most 24"
    assert str(error.value) == f"clock.yaml: line 1: chimes: expected {expected}; found {found}"


# --------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nmae: 3", "nmae: unknown setting; did you mean name?"),
        ("Shelf: 3", "Shelf: unknown setting; did you mean shelf?"),
        ("height: 3", "height: unknown setting; did you mean shelf.height?"),
        ("shelf.height: 3", "shelf.height: unknown setting; write it as shelf: {height: …}"),
        ("shelf: {note: x}", "shelf.note: unknown setting; did you mean note?"),
        ("shelf: {zzz: 3}", "shelf.zzz: unknown setting; shelf takes height, width, limits, wood, open, top"),
        ("books: [{title: A, page: 3}]", "books[0].page: unknown setting; did you mean books[0].pages?"),
        ("zzz: 3", "zzz: unknown setting; known settings: name, books, note, shelf, door"),
        ("<<: {note: x}", "<<: unknown setting; known settings: name, books, note, shelf, door"),
        ("note: x\nnote: y", "note is given twice, first in line 3: delete one"),
        ("shelf: {height: 3, height: 3}", "shelf.height is given twice, first in line 3: delete one"),
        ("[a, b]: 3", "a key must be plain text, not [a, b]"),
        ('"a\\e[31mb": 3', 'a key must be plain text, not "a\\e[31mb"'),
    ],
)
def test_keys_that_are_not_understood(line: str, message: str) -> None:
    assert problems(f"{ROOM}{line}\n") == [f"line {line.count(chr(10)) + 3}: {message}"]


@pytest.mark.parametrize("key", ["books[0].pages", "books[0]", "shelf.limits[1]"])
def test_a_list_cannot_be_overridden_in_part(key: str) -> None:
    whole = key.partition("[")[0]
    assert problems(ROOM, f"{key}=3") == [f"override {key}: a list is given as a whole: {whole}=[…]"]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "null\n"])
def test_what_is_missing_is_named_with_its_meaning(text: str) -> None:
    assert problems(text) == ["name is missing (of the room)", "door.lock is missing (what locks it)"]


def test_every_problem_is_in_one_report() -> None:
    text = "shelf:\n  hieght: 3\n  height: 3.5\n  width: 5\n  wood: elm\n  width: 1\nbooks:\n  - pages: x\nrooms: 1\n"
    assert problems(text, "shelf.open=maybe", "note", "name.x=3", "door.lock=[") == [
        "line 6: shelf.width is given twice, first in line 4: delete one",
        "override 'note': write it as section.key=value",
        "override 'door.lock=[': not valid YAML: a value or a closing bracket is missing",
        "line 2: shelf.hieght: unknown setting; did you mean shelf.height?",
        "line 3: shelf.height: expected whole number, at least 1; found 3.5",
        "line 5: shelf.wood: expected oak | pine; found elm",
        "override shelf.open: expected true | false; found maybe",
        "line 8: books[0].pages: expected whole number or null, at least 1; found x",
        "books[0].title is missing (what is on its spine)",
        "line 9: rooms: unknown setting; known settings: name, books, note, shelf, door",
        "override name: expected text; found a mapping",
        "door.lock is missing (what locks it)",
    ]


# --------------------------------------------------------------------------- what is no YAML of settings


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("\tnote: x", "line 3, column 1: not valid YAML: indent with spaces, not tabs"),
        ("note: @x", "line 3, column 7: not valid YAML: put text that begins with @, %, ` or the like in quotes"),
        ("note: a: b", "line 3, column 8: not valid YAML: a second colon in a line: put a value with a colon in "
                       "quotes"),
        ("note:x\nname: y", "line 3, column 1: not valid YAML: no colon and space after a key: write key: value"),
        ("shelf: {height: 3", "line 4, column 1: not valid YAML: a comma or a closing bracket is missing"),
        ("note: 'it's'", "line 3, column 11: not valid YAML: text that does not belong here: is a quote or bracket "
                         "closed too early?"),
        ('note: "\\q"', "line 3, column 7: not valid YAML: found unknown escape character 'q'"),
        ("note: a\x07", "line 3: not valid YAML: delete the character U+0007"),
        ("# a\x85seed: 3", "line 3: delete the character U+0085: some programs take it for a line break"),
        ("---\nnote: x", "line 3, column 1: not valid YAML: a second document begins here: delete the line ---"),
    ],
)  # fmt: skip
def test_invalid_yaml(line: str, message: str) -> None:
    assert problems(f"{ROOM}{line}\n") == [message]


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


@pytest.mark.parametrize("text", ["study", "- name: study", "A dog: runs\n- and"])
def test_what_is_no_mapping(text: str) -> None:
    (problem,) = problems(text)
    assert "each as key: value; found" in problem or "not valid YAML" in problem


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
    ("override", "expected"),
    [
        ("name=attic", Room(name="attic", door=Door("D"))),
        ("shelf.height=4", Room(name="study", door=Door("D"), shelf=Shelf(height=4))),
        ("shelf={height: 4}", Room(name="study", door=Door("D"), shelf=Shelf(height=4))),
        ("shelf.top.watts=5", Room(name="study", door=Door("D"), shelf=Shelf(top=Lamp(watts=5)))),
        ("books=[{title: A}]", Room(name="study", door=Door("D"), books=(Book("A"),))),
        ("note=null", Room(name="study", door=Door("D"))),
        ("note=''", None),
    ],
)
def test_overrides_are_typed_like_the_file(override: str, expected: Room | None) -> None:
    if expected is None:
        assert problems(ROOM, override) == ["override note: expected text or null; found ''"]
    else:
        assert read(ROOM, override) == expected


def test_the_last_override_wins_and_one_key_of_a_mapping_leaves_the_others() -> None:
    text = f"{ROOM}shelf: {{height: 9, top: {{colour: T, watts: 5}}}}\n"
    shelf = read(text, "shelf.width=1", "shelf.top.watts=6", "shelf.width=2").shelf
    assert shelf == Shelf(height=9, width=2.0, top=Lamp("T", 6))
    assert read(text, "shelf=null", "shelf.width=1").shelf == Shelf(width=1.0)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("shelf.height", "override 'shelf.height': write it as section.key=value"),
        ("=3", "override '=3': write it as section.key=value"),
        ("note=", "override 'note=': the value after = is missing"),
        ("shelf..height=3", "override 'shelf..height=3': write it as section.key=value"),
        ("shelf/height=3", "override shelf/height: unknown setting; did you mean shelf.height?"),
        ("shelf.height=3.5", "override shelf.height: expected whole number, at least 1; found 3.5"),
        ("shelf={height: 1, height: 2}", "override shelf.height is given twice: delete one"),
        ("books.0.title=A", "override books.0.title: books is [], not a mapping: override books as a whole"),
        ("note.x=3", "override note: expected text or null; found a mapping"),
        ("note=a: b: c", "override 'note=a: b: c': not valid YAML: a second colon in a line: put a value with a "
                         "colon in quotes"),
        ("note=*x", "override 'note=*x': anchors, aliases and tags (&, *, !) are not allowed: write the value itself, "
                    "or put text in quotes"),
        ("note=\udcff", "override 'note=\\udcff': not valid YAML: delete the character U+DCFF"),
    ],
)  # fmt: skip
def test_overrides_that_cannot_be_read(override: str, message: str) -> None:
    assert problems(f"{ROOM}books: []\n", override) == [message]


# --------------------------------------------------------------------------- files


def test_a_file_is_read_whatever_its_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "room.yaml"
    for content in (ROOM.encode(), b"\xef\xbb\xbf" + ROOM.encode(), ROOM.replace("\n", "\r\n").encode()):
        path.write_bytes(content)
        room = reader.parse(Room, reader.read_text(path), str(path), ["name=attic"])
        assert room == Room(name="attic", door=Door("D"))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing, folder, latin = tmp_path / "missing.yaml", tmp_path, tmp_path / "latin.yaml"
    latin.write_bytes("name: study\nnote: café\n".encode("latin-1"))
    for path, message in {
        missing: "no such file",
        folder: "cannot be read: Is a directory",
        latin: "line 2: not UTF-8 text: save the file as UTF-8",
    }.items():
        with pytest.raises(NmtError) as error:
            reader.parse(Room, reader.read_text(path), str(path))
        assert str(error.value) == f"{path}: {message}"


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
