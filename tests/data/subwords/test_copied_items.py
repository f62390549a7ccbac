"""What translations copy: found as it stands in text, made up so that it is found again."""

import pytest

from nmt.data.subwords.copied_items import (
    find_items,
    map_outside_verbatim,
    shared_items,
)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("See https://x.org/a?b=1, or (www.y.de/z).", [("url", "https://x.org/a?b=1"), ("url", "www.y.de/z")]),
        (
            "{0} {name} {{x}} ${y} %s %1$s <b>bold</b> <x id=\"1\"/>",
            [("placeholder", one) for one in ("{0}", "{name}", "{{x}}", "${y}", "%s", "%1$s", "<b>", "</b>",
                                              '<x id="1"/>')],
        ),
        ("In 1,000 or 1.000 days at 12:30", [("number", "1000"), ("number", "1000"), ("number", "1230")]),
        ("👍🏽 ❤️ 👩‍👩‍👧 🇩🇪🇫🇷 ☀", [("emoji", one) for one in ("👍🏽", "❤", "👩‍👩‍👧", "🇩🇪", "🇫🇷", "☀")]),
        ("no items here — “none”…", []),
    ],
)  # fmt: skip
def test_found(text: str, items: list[tuple[str, str]]) -> None:
    assert sorted(find_items(text).elements()) == sorted(items)


@pytest.mark.parametrize(
    ("source", "target", "shared"),
    [
        ("We met Anna in 2016.", "Wir trafen Anna 2016.", {"Anna": "name", "2016": "number"}),
        ("see Anna and Anna", "sieht Anna", {}),
        ("1 dog, 1,000 cats", "1 Hund, 1.000 Katzen", {}),
        ("near NATO", "nahe NATO", {}),
    ],
)
def test_shared(source: str, target: str, shared: dict[str, str]) -> None:
    assert shared_items(source, target) == shared


@pytest.mark.parametrize("part", ["a@", "<a", "❤️\u200d"])
def test_long_lines_take_no_quadratic_time(part: str) -> None:
    """A pattern that starts anew at each character would take hours."""
    text = part * (100_000 // len(part))
    find_items(text)
    shared_items(text, text)
    map_outside_verbatim(str.upper, text)
