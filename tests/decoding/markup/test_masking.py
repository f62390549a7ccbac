"""Protected text (decoding.keep) is in translations unchanged, and equally often."""

from collections import Counter
from dataclasses import replace

import pytest
from helpers.translators import DECODING, new_translator
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import schema
from nmt.decoding.markup.masking import masked, unmasked
from nmt.decoding.protected_text import is_protected, protected_pattern
from nmt.decoding.translation import Translation
from nmt.decoding.translator import Translator
from nmt.errors import NmtError

PATTERNS = ("verbatim", "JIRA-[0-9]+")


def translator() -> Translator:
    made = new_translator()
    made.decoding = replace(DECODING, keep=PATTERNS)
    return made


ITEMS = st.sampled_from(
    ["{name}", "%s", "https://example.org/a?b=c", "a@example.org", "<b>", "</b>", "JIRA-12", "{name}s"]
)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(ITEMS | st.sampled_from(["one", "two", "apples", "(", ".", " "]), max_size=8).map(" ".join)))
def test_each_item_is_there_as_often(lines: list[str]) -> None:
    made = translator()
    for line, text in zip(lines, made.translate(lines), strict=True):
        wanted, found = (
            Counter(item[0] for item in protected_pattern(PATTERNS).finditer(each)) for each in (line, text)
        )
        assert all(found[item] == count for item, count in wanted.items()), (line, text)
    assert made.counts.lines == len(lines) and made.counts.restored <= len(lines)


def test_the_rest_is_the_translation_of_the_line_without_it() -> None:
    made, line, searched = translator(), "one {name} two JIRA-12.", list[int]()
    made.on_lines = searched.append
    [text], [plain] = made.translate([line]), made.translate(["one two."])
    assert "".join(text.replace("{name}", "").replace("JIRA-12", "").split()) == "".join(plain.split())
    assert sum(searched) == 2  # each line once
    several = made.hypotheses([line], 3, alignment=True)[0]
    assert several[0].text == text and len(several) == len(made.hypotheses(["one two."], 3)[0])
    assert all(is_protected(line, each.text, PATTERNS) for each in several)
    assert several[0].alignment is not None and len(several[0].alignment) == len(several[0].pieces)


def test_a_model_that_copies_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, line = translator(), "one {name} two"
    monkeypatch.setattr("nmt.decoding.translation.texts", lambda hypotheses, _: ["zwei {name}"] * len(hypotheses))
    assert made.translate([line]) == ["zwei {name}"] and made.counts.restored == 0
    made.decoding = DECODING  # nothing is to be kept
    monkeypatch.setattr("nmt.decoding.translation.texts", lambda hypotheses, _: ["zwei"] * len(hypotheses))
    assert made.translate([line]) == ["zwei"]


@pytest.mark.parametrize(
    ("line", "without", "translated", "expected"),
    [
        ("{a} likes ({b}).", "likes ().", "mag ().", "{a} mag ({b})."),
        ("<b>one</b> two", "one two", "zwei eins", "zwei <b>eins</b>"),
        ("{a}.", ".", "zwei eins", "zwei {a} eins"),
        ("%s", "", "", "%s"),
        ("一{a}二", "一二", "zwei eins", "zwei eins {a}"),
    ],
)
def test_items_are_put_between_words(line: str, without: str, translated: str, expected: str) -> None:
    links = {
        "mag ().": [0, 1, 2, 3],
        "jetzt siehe": [1, 0],
        "zwei eins": [1, 0],
        "zwei eins.": [1, 0],
        "": [],
    }[translated]
    sources = {"likes ().": ["▁likes", "▁(", ")", "."]}.get(without, [f"▁{word}" for word in without.split()])
    pieces = {"mag ().": ["▁mag", "▁(", ")", "."]}.get(translated, [f"▁{word}" for word in translated.split()])
    rows = [[float(i == link) for i in range(len(sources) + 1)] for link in (*links, len(sources))]
    text, elements = masked(line, PATTERNS)
    assert text == without
    found = Translation(translated, 0.0, 0.0, [*pieces, "</s>"], [], [*sources, "</s>"], rows)
    assert unmasked(text, elements, found, line, PATTERNS) == expected


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "not a regular expression"),
        ("a*", "matches an empty text"),
        ("(a)b", "write"),
        ("verbatm", "did you mean verbatim"),
    ],
)
def test_a_pattern_must_be_a_regular_expression_that_matches_something(pattern: str, said: str) -> None:
    text = "run_dir: r\ndata: {source_language: en, target_language: de, train: [{source: a, target: b}]}\n"
    with pytest.raises(NmtError, match=rf"decoding\.keep\[1\]: .*{said}"):
        schema.parse(f"{text}decoding: {{keep: [verbatim, '{pattern}']}}\n", "test")
