"""Protected text (decoding.keep) in lines and translations."""

import pytest

from nmt.config.unspaced_scripts import is_unspaced
from nmt.decoding.protected_text import protected_spans
from nmt.documents.placeholders.messages import PLACEHOLDERS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://x.org/a?b=1, or (www.y.de/z).", ["https://x.org/a?b=1", "www.y.de/z"]),
        ("see https://x.org/Dog_(animal), (https://x.org/a)!", ["https://x.org/Dog_(animal)", "https://x.org/a"]),
        ("https://x.org/{{ id }}/%s?q=%d…", ["https://x.org/{{ id }}/%s?q=%d"]),
        ("詳細はhttps://x.org/aを参照。www.y.de、", ["https://x.org/a", "www.y.de"]),
        ("to é.b-c+d@x-y.co.uk, a@b.orgక, a@b.org-এ", ["é.b-c+d@x-y.co.uk", "a@b.org", "a@b.org"]),
        ("<b>{name}</b> of {{ user.name }}", ["<b>", "{name}", "</b>", "{{ user.name }}"]),
        ("from {a, b}, $1 and :x", []),
    ],
)  # fmt: skip
def test_verbatim(text: str, expected: list[str]) -> None:
    assert [text[slice(*span)] for span in protected_spans(text, ("verbatim",))] == expected


def test_letters_without_spaces_end_an_address() -> None:
    for letter in filter(is_unspaced, map(chr, range(0x18D00))):
        assert protected_spans(f"{letter}a@b.de{letter} www.a.de{letter}", ("verbatim",)) == [(1, 7), (9, 17)], letter


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize(
    "part",
    [
        *("a@", "http://", "www.", "{", "{{", "{{'", "{%", "%", "%(", "%<", "'{", "www.(", "$t(", "@", "@a", "_"),
        *("__a_", "#A", "[a,", "[a,_1", ":a", "$a", "%a", "%a-", "%1$", "<", "<a", "1", "1.", "{a{b}", "''{", "@:("),
    ],
)  # fmt: skip
def test_time_is_linear(part: str) -> None:
    for text in (part * (50_000 // len(part)), part + "." * 50_000):
        protected_spans(text, PLACEHOLDERS)
