"""Near-duplicates have equal hashes; other pairs have not."""

import pytest

from nmt.data.rules.near_duplicates import folded_hashes

PAIR = ("The year 2019 was good.", "Das Jahr 2019 war schön.")


@pytest.mark.parametrize(
    "other",
    [
        PAIR,
        (PAIR[0].upper(), PAIR[1]),
        ("The year 2020 was good!", "Das Jahr 2020 war schön!"),
        ("  The  year was good ", "„Das Jahr war schön“"),
        ("The year was good", "Das Jahr war scho\u0308n"),
        ("Ｔｈｅ year was good", "Das Jahr war schon"),
    ],
)
def test_near_duplicates(other: tuple[str, str]) -> None:
    one, two = folded_hashes([PAIR, other])
    assert one == two == folded_hashes([other])[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PAIR, PAIR[::-1]),
        (PAIR, (PAIR[0], "Das Jahr war gut.")),
        (("12.", "12."), ("13.", "13.")),
        (("a 1", "Seite 1"), ("a 2", "Seite 2")),
        (("No. 1", "Nummer 1"), ("No. 2", "Nummer 2")),
        (("Article 3", "Art. 3"), ("Article 4", "Art. 4")),
        (("half", "time out"), ("half time", "out")),
        (("नमस्ते जी", "hello there"), ("नमसत जी", "hello there")),
        (("你好吗朋友", "how are you"), ("你好吧朋友", "how are you")),
    ],
)
def test_other_pairs(one: tuple[str, str], other: tuple[str, str]) -> None:
    first, second = folded_hashes([one, other])
    assert first != second
