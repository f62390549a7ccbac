"""What translations copy: found as it stands in text, made up so that it is found again."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.draws import Draws
from nmt.data.subwords.copied_items import (
    SYMBOLS,
    find_items,
    map_outside_verbatim,
    random_item,
    replace_items,
    shared_items,
)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("See https://x.org/a?b=1, or (www.y.de/z).", [("url", "https://x.org/a?b=1"), ("url", "www.y.de/z")]),
        ("Mail a.b-c@x-y.co.uk.", [("email", "a.b-c@x-y.co.uk")]),
        (
            "{0} {name} {{x}} ${y} %s %1$s <b>bold</b> <x id=\"1\"/>",
            [("placeholder", one) for one in ("{0}", "{name}", "{{x}}", "${y}", "%s", "%1$s", "<b>", "</b>",
                                              '<x id="1"/>')],
        ),
        ("100% sure, 50%d, a < b > c", [("number", "100"), ("number", "50")]),
        ("In 1,000 or 1.000 days at 12:30", [("number", "1000"), ("number", "1000"), ("number", "1230")]),
        ("٣ und ３", [("number", "3"), ("number", "3")]),
        ("25个", [("number", "25")]),
        ("👍🏽 ❤️ 👩‍👩‍👧 🇩🇪🇫🇷 ☀", [("emoji", one) for one in ("👍🏽", "❤", "👩‍👩‍👧", "🇩🇪", "🇫🇷", "☀")]),
        ("no items here — “none”…", []),
    ],
)  # fmt: skip
def test_found(text: str, items: list[tuple[str, str]]) -> None:
    assert sorted(find_items(text).elements()) == sorted(items)


@pytest.mark.parametrize("kind", ["url", "email", "number", "emoji", "placeholder"])
def test_random_ones_are_found_as_one(kind: str) -> None:
    for start in range(200):
        item = random_item(kind, Draws(start))
        for text in (item, f"{item} Ein Hund.", f"Ein Hund. {item}"):
            assert list(find_items(text).elements()) == [(kind, item)], text
    assert len({random_item(kind, Draws(start)) for start in range(100)}) > 30


def test_symbols_are_no_items_and_not_normalized() -> None:
    assert len(set(SYMBOLS)) == len(SYMBOLS)
    assert all(unicodedata.normalize("NFKC", one) == one and not find_items(one) for one in SYMBOLS)


@pytest.mark.parametrize(
    ("source", "target", "shared"),
    [
        ("We met Anna in 2016.", "Wir trafen Anna 2016.", {"Anna": "name", "2016": "number"}),
        ("Anna left.", "Anna ging.", {}),  # the first word has a capital anyway
        ("see Anna and Anna", "sieht Anna", {}),  # not equally often
        ("1 dog, 1,000 cats", "1 Hund, 1.000 Katzen", {}),  # a number below 10 decides on a plural
        ("from 12:30 on", "ab 12:30 Uhr", {"12:30": "number"}),
        ("at www.x.org 👍", "bei www.x.org 👍", {"www.x.org": "url", "👍": "emoji"}),
        ("for {0} of Anna's", "für {0} von Annas", {}),
        ("near NATO", "nahe NATO", {}),
    ],
)
def test_shared(source: str, target: str, shared: dict[str, str]) -> None:
    assert shared_items(source, target) == shared


def test_replaced_where_it_was_found_alone() -> None:
    new = {"Anna": "Berta", "12": "34", "{0}": "x"}
    assert (
        replace_items("Anna, Anna, then Anna at 12, 123, a12 {0}", new) == "Anna, Berta, then Berta at 34, 123, a12 {0}"
    )


def test_a_number_keeps_its_form() -> None:
    found = [random_item("number", Draws(start), like="1,234.5") for start in range(100)]
    assert all(len(one) == 7 and one[1] == "," and one[5] == "." and one[0] != "0" for one in found)


@given(st.text(max_size=60))
def test_nothing_outside_of_items_is_lost(text: str) -> None:
    assert map_outside_verbatim(lambda part: part, text) == text


@pytest.mark.parametrize("part", ["a@", "http://", "{", "<a", "%1", "1.", "❤️\u200d"])
def test_long_lines_take_no_quadratic_time(part: str) -> None:
    """A pattern that starts anew at each character would take hours."""
    text = part * (100_000 // len(part))
    find_items(text)
    shared_items(text, text)
    map_outside_verbatim(str.upper, text)
