"""Codes of templates and of XLIFF: those that belong together stay around words, well nested, whatever the model makes
of a text. All text here is made up."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.decoding.markup.marked_text import MarkedLine
from nmt.decoding.markup.masking import masked, unmasked
from nmt.decoding.translation import Translation
from nmt.documents.file_formats import FORMATS
from nmt.documents.opened import OpenedDocument
from nmt.documents.placeholders.messages import message_template


@pytest.mark.parametrize(
    ("string", "texts"),
    [
        ("a {{#x}}b{{/x}}", ["a <nmt0>b</nmt0>"]),
        ("a {% if x %}b {{ n }}{% endif %} & c", ["a <nmt0>b {{ n }}</nmt0> &amp; c"]),
        ("a {% if x %}b{% else %}c{% endif %} d", ["a <nmt0>b", "c</nmt0> d"]),  # each by itself
        ("{{#if x}}b{{else}}c{{/if}}{{if .Y}}d{{end}}", ["<nmt0>b", "c</nmt0><nmt3>d</nmt3>"]),
        ("<% if (x) { %>b<% } else { %>c<% } %>", ["<nmt0>b", "c</nmt0>"]),
        ("<% if x %>b<% end %> <%= y > 1 %>", ["<nmt0>b</nmt0> <nmt2/>"]),
        ("{$START_LINK}b{$START_LINK_1}c{$CLOSE_LINK}{$CLOSE_LINK}", ["<nmt0>b<nmt1>c</nmt1></nmt0>"]),
        ("[url=x]b[/url] [sic] [1]", ["<nmt0>b</nmt0> [sic] [1]"]),
        ("{b}x{/b} {name}", ["<nmt0>x</nmt0> {name}"]),
        ("<b\n class='x>'>two</b>\nc", ["<b\n class='x>'>two</b>", "c"]),
        ("<!-- a\n b --> c", ["<!-- a\n b --> c"]),
        ("{n,\n number} a\nb", ["<nmt0/> a", "b"]),
        ("{{ x\n }} a {% if\n x %}b{% endif %}", ["<nmt0/> a <nmt1>b</nmt1>"]),
        ("a <i title='{{#x}}'>b</i> {{ x > 1 }}", ["a <i title='{{#x}}'>b</i> <nmt2/>"]),
        ("press <code>red\nkey</code> now\nb", ["press <code>red\nkey</code> now", "b"]),
        ("the <address> of <b>a</b>\nhouse", ["the <address> of <b>a</b>", "house"]),
        ("<b><i translate='no'>\n<i>\n</i>b\n<br></i></b> c", ["<b><i translate='no'>\n<i>\n</i>b\n<br></i></b> c"]),
        ("<p class='x notranslate'>a\n</p>\nc <img translate=no>\nd",
         ["<p class='x notranslate'>a\n</p>", "c <img translate=no>", "d"]),
        ("<CODE>a</CODE>\nb </code>\nc", ["<CODE>a</CODE>", "b </code>", "c"]),
        ("a & <?php echo 1 > 2 ?> b", ["a &amp; <nmt0/> b"]),
        ("<b>a</b> <?= $x ?>", ["<b>a</b> <nmt2/>"]),
        ("<!DOCTYPE a>\nb", ["<!DOCTYPE a>", "b"]),
        ("{{ $t('k',\n {n: 1}) }} a\n${ f({a: '\n'}) }", ["<nmt0/> a", "<nmt1/>"]),
        ("{n, plural, one {{m, plural, one {a\n<b>c</b>} other {d}}} other {e}}", ["a", "<b>c</b>", "d", "e"]),
        ("<b>a %<PRIu64></b>", ["<b>a <nmt1/></b>"]),
        ("{n, plural, other {{#x}a{/x} {b,\n number} {c\n}}}", ["{#x}a{/x} <nmt2/> {c", "}"]),
        ("<i>a {{#x}}b</i> c{{/x}}", ["<i>a", "b</i> c"]),  # crossed: they stay where they are
        ("a {{/x}} b {{^}}", ["a {{/x}} b"]),
        ("a <nmt0>b</nmt0> {{#x}}c{{/x}}", ["a <nmt0>b</nmt0> {{#x}}c{{/x}}"]),  # a tag of the string's own
    ],
)  # fmt: skip
def test_which_codes_belong_together(string: str, texts: Sequence[str]) -> None:
    message = message_template(string)
    assert [text.text for text in message.texts] == texts
    assert message.with_texts(texts) == string


WORDS = ["one", "two", "three", "four", "five", "six"]
WORD = st.sampled_from(["one", "two three", "four five six"])
ALONE = {
    "strings": ["{a}", "%{b}", "{c,\n number}", "{% url x %}", "<%= d > 1 %>", "%(e)s", "{{ f }}", "&", "<"],
    "html": ["<img\n src='a>'>", "<!-- a\n b -->", "{g}", "<%= h %>", "&amp;"],
    "xliff": ["<x id='a'/>", "<ph id='b'>x</ph>", "{c}", "&amp;", "<it id='d' pos='open'>x</it>"],
    "subtitles": ["{\\an8}", "<00:01.000>"],
}
TEMPLATES = [
    *(("{{#x}}", "{{/x}}"), ("{{#if x}}", "{{else}}", "{{/if}}"), ("{% if x\n %}", "{% else %}", "{% endif %}")),
    *(("{{if .X}}", "{{end}}"), ("{$START_A}", "{$CLOSE_A}"), ("[b]", "[/b]"), ("{i}", "{/i}")),
]
SCRIPTS = [("<% if (x) { %>", "<% } else { %>", "<% } %>"), ("<% if x %>", "<% end %>")]
HTML = [("<b\n class='x>'>", "</b>"), ("<a href='x'>", "</a>"), ("<!-- ko if: x -->", "<!-- /ko -->")]
PAIRS = {
    "strings": [*TEMPLATES, *SCRIPTS],
    "html": [*TEMPLATES, *SCRIPTS, *HTML],
    "xliff": [
        *(*TEMPLATES, ("<g id='1'\n x='>'>", "</g>"), ("<bpt id='2'>&lt;b&gt;</bpt>", "<ept id='2'>&lt;/b&gt;</ept>")),
        *(("<bx id='3' rid='4'/>", "<ex id='5' rid='4'/>"), ("<sc id='6'/>", "<ec startRef='6'/>")),
        *(("<x id='START_A_1'/>", "<x id='CLOSE_A'/>"), ("<ph id='7'>&lt;i&gt;</ph>", "<ph id='8'>&lt;/i&gt;</ph>")),
        ("<ph id='9' equiv='START_TAG_P'/>", "<ph id='10' equiv='CLOSE_TAG_P'/>"),
    ],
    "subtitles": [("<i>", "</i>"), ("<b>", "</b>"), ("{\\u1}", "{\\u0}")],
}  # fmt: skip


def texts_with_codes(kind: str) -> st.SearchStrategy[str]:
    def around(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.sampled_from(PAIRS[kind]).flatmap(
            lambda codes: st.lists(inner, min_size=len(codes) - 1, max_size=len(codes) - 1).map(
                lambda texts: "".join(map("".join, zip(codes, [*texts, ""], strict=True)))
            )
        )
        return st.lists(inner | pairs, min_size=1, max_size=3).map(" ".join)

    return st.recursive(WORD | WORD | st.sampled_from(ALONE[kind]), around, max_leaves=12)


def translated(line: MarkedLine, keep: tuple[str, ...], draw: Random) -> str:
    """As by a model that copies no placeholder, in another order and with a random alignment."""
    text, elements = masked(line.text, keep)
    words = draw.sample(text.split(), len(text.split()))
    rows = [[draw.choice([0.0, 0.1, 1.0]) for _ in range(len(words) + 1)] for _ in range(len(words) + 1)]
    sources = [f"▁{word}" for word in text.split()]
    found = Translation(" ".join(words).upper(), 0.0, 0.0, [f"▁{word.upper()}" for word in words], [], sources, rows)
    for pieces in (found.pieces, sources):
        pieces.append("</s>")
    new = unmasked(text, elements, found, line.text, keep)
    return line.translated(Translation(new, 0.0, 0.0, found.pieces, [], sources, rows), keep)


WRAPPED = {
    "strings": ("a.json", lambda text: json.dumps(f"z {text} y")),
    "html": ("a.json", lambda text: json.dumps(f"<u>z</u> {text} y")),
    "xliff": ("a.xlf", lambda text: f"<xliff><trans-unit><source>z {text} y</source></trans-unit></xliff>"),
    "subtitles": ("a.srt", lambda text: f"00:00:01,000 --> 00:00:02,000\nz {text} y"),
}


@pytest.mark.parametrize("kind", WRAPPED)
@settings(max_examples=30, deadline=None)
@given(st.data(), st.randoms(use_true_random=False))
def test_each_code_and_word_is_there_and_codes_are_nested(kind: str, data: st.DataObject, draw: Random) -> None:
    text = data.draw(texts_with_codes(kind))
    name, wrap = WRAPPED[kind]
    document = OpenedDocument.from_bytes(wrap(text).encode(), Path(name), FORMATS[Path(name).suffix])
    lines = [(translated(line, (*document.keep, "verbatim"), draw), None) for line in document.marked_lines]
    written, notes = document.translated(lines, Path(name))
    new = written.decode()
    assert not [note for _, note in notes if "left" in note]
    if kind == "xliff":
        ElementTree.fromstring(new)
        new = new.partition("<target")[2]
    elif kind != "subtitles":
        new = json.loads(new)
    codes = [*ALONE[kind], *(code for pair in PAIRS[kind] for code in pair)]
    assert {code: new.count(code) for code in codes} == {code: text.count(code) for code in codes}
    without = re.compile("|".join(sorted(map(re.escape, codes), key=len, reverse=True)))
    old_words, new_words = (re.findall("[a-z]{3,}", without.sub(" ", each).lower()) for each in (text, new))
    assert sorted(old_words) == sorted(word for word in new_words if word in WORDS)
    first, last = ({pair[i]: pair for pair in PAIRS[kind]} for i in (0, -1))
    open_ = list[tuple[str, ...]]()
    for found in without.findall(new):
        if found in last:
            assert open_.pop() == last[found]
        elif found in first:
            open_.append(first[found])
        elif found not in ALONE[kind]:
            assert found in open_[-1]
    assert not open_
