"""Texts with tags: what of them is translated, that the rest stays as it is, and that tags go around the words that
belong to theirs."""

import itertools
import re
from html.parser import HTMLParser
from random import Random

import pytest
from helpers.translators import new_translator
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.decoding.markup.blocks import Markup
from nmt.decoding.markup.marked_text import MarkedText
from nmt.decoding.translation import Translation

_TOKENS = re.compile(r"[^\W\u4e00-\u9fff]+|\S")
# Sources, translations, and of each word of a translation the word of the source that it belongs to, both from 0; a
# word that belongs to none is aligned to the end of the sentence.
GERMAN = {
    "A dog runs.": ("Ein Hund läuft.", "0 1 2 3"),
    "dog": ("Hund", "0"),
    "Run nmt train now.": ("Starte jetzt nmt train.", "0 3 1 2 4"),
    "Run x now.": ("Lauf jetzt.", "0 2 3"),
    "Run abs now.": ("Lauf jetzt.", "0 2 3"),
    "Run xsy now.": ("Lauf xsy jetzt.", "0 1 2 3"),
    "Run xabs now.": ("Lauf abx jetzt.", "0 1 2 3"),
    "A big red dog sits.": ("A big sits red dog.", "0 1 4 2 3 5"),
    "Now sits a big red dog.": ("Now a big sits red dog.", "0 2 3 1 4 5 6"),
    "One two.": ("Eins, zwei.", "0 0 1 2"),
    "x runs x.": ("x läuft x.", "0 1 2 3"),
    "Two three four.": ("Vier drei zwei.", "2 1 0 3"),
    "Run &x; now.": ("Lauf jetzt.", "0 4 5"),
    "A cat sits here.": ("Hier sitzt eine Katze.", "3 2 0 1 4"),
    "A red dog and a cat.": ("Eine Katze und ein Hund, der rot ist.", "4 5 3 0 2 - - 1 - 6"),
    "It gets up late.": ("Es steht spät auf.", "0 1 3 2 4"),
    "Red bog.": ("Rotmoor.", "1 2"),
    "A thing hangs.": ("一个东西挂着。", "0 0 1 1 2 2 3"),
    "Hi {name} you.": ("Hallo {name}s du.", "0 1 1 1 - 4 5"),
    "H2O runs.": ("H2O läuft.", "0 1 2"),
    "a < b": ("b > a", "2 1 0"),
    "One, two.": ("Zwei, eins.", "2 1 0 3"),
    "ONE two": ("eins ﬁx", "0 1"),
}


def translation(source: str, aligned: bool = True) -> Translation:
    """With the alignment above. What is not there is translated to capital letters."""
    text, links = GERMAN.get(source, (source.upper(), ""))
    read, written = _pieces(source), _pieces(text)
    numbers = [int(link) if link.isdigit() else len(read) for link in links.split()] or range(len(written))
    rows = [[float(min(number, len(read)) == i) for i in range(len(read) + 1)] for number in (*numbers, len(read))]
    assert len(rows) == len(written) + 1, (written, numbers)
    details = (["</s>"], rows) if aligned else (None, None)
    sources = [*read, *details[0]] if details[0] else None
    return Translation(text, 0.0, 0.0, [*written, "</s>"], [], sources, details[1])


def _pieces(text: str) -> list[str]:
    """Words as subwords, with `▁` where a space is before."""
    return ["▁" * (text[: found.start()][-1:] in ("", " ")) + found[0] for found in _TOKENS.finditer(text)]


def translated(text: str, markup: Markup = "html", *, aligned: bool = True) -> str:
    marked = MarkedText(text, markup=markup)
    return marked.with_lines([line.translated(translation(line.text, aligned)) for line in marked.lines])


def lines(text: str, language: str = "", markup: Markup = "html") -> list[str]:
    return [line.text for line in MarkedText(text, language, markup).lines]


def test_a_line_without_a_translation_is_not_changed() -> None:
    """Also if the line is only protected text."""
    text = "<p>one <b>two</b></p> <p><b>https://example.org/a</b></p>"
    marked = MarkedText(text)
    new = [line.translated(translation("")) for line in marked.lines]
    assert new == ["", ""] and marked.with_lines(new) == text


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>A dog\n  runs.</p> <p> dog</p>", "<p>Ein Hund läuft.</p> <p> Hund</p>"),
        ("<p>A <b>dog</b> runs.</p>", "<p>Ein <b>Hund</b> läuft.</p>"),
        (  # in another order
            "A <i>red</i> <b>dog</b> and a <u>cat</u>.",
            "Eine <u>Katze</u> und ein <b>Hund</b>, der <i>rot</i> ist.",
        ),
        ("A <i>red <b>dog</b></i> and a cat.", "Eine Katze und ein <i><b>Hund</b></i>, der rot ist."),
        ("<i>A <b>cat</b> sits here.</i>", "<i>Hier sitzt eine <b>Katze</b>.</i>"),
        ("<b>A dog runs. A cat</b> sits here.", "<b>Ein Hund läuft. Hier sitzt eine Katze</b>."),
        ("Run <code>nmt train</code> now.", "Starte jetzt <code>nmt train</code>."),
        ("Run <code>x</code> now.", "Lauf <code>x</code> jetzt."),
        ("<b>One. Two</b> three <i>four. Five</i>.", "<b>ONE. </b>Vier drei zwei<i>. FIVE</i>."),
        ("Hi <code>{name}</code> you.", "Hallo <code>{name}</code>s du."),
        ("Run x<code>a</code><b>b</b>s now.", "Lauf x<code>a</code>bs <b></b>jetzt."),
        ("A <!-- ko if: x -->cat<!-- /ko --> sits here.", "Hier sitzt eine <!-- ko if: x -->Katze<!-- /ko -->."),
        ("H<sub>2</sub>O runs.", "H<sub>2</sub>O läuft."),
        ("\n<i>A</i> dog <b>runs. </b>\n", "\n<i>Ein</i> Hund <b>läuft. </b>\n"),
        ("A <b>thing</b> hangs.", "一个<b>东西</b>挂着。"),
        ("<b>Red</b> <i>bog</i>.", "<b></b><i>Rotmoor</i>."),
        ("<b>A big red dog</b> <img>sits.", "<b>A big sits red dog</b> <img>."),
        ("A dog <img> runs.", "Ein Hund <img> läuft."),
        ("<p id='dog &amp; cat' >dog</P >", "<p id='dog &amp; cat' >Hund</P >"),
        ("""A <img data-x=' alt="dog"' ALT = "dog" src=dog> <b>dog</b> runs.""",
         """Ein <img data-x=' alt="dog"' ALT = "Hund" src=dog> <b>Hund</b> läuft."""),
        ("<a title=dog alt=dog&amp;1>dog</a>", "<a title=\"Hund\" alt=\"DOG&amp;1\">Hund</a>"),
        ("<?php if (1 > 0) { ?><p>dog</p>", "<?php if (1 > 0) { ?><p>Hund</p>"),
        ("<p class='x notranslate'>dog</p>dog", "<p class='x notranslate'>dog</p>Hund"),
        ("<p translate='no'>dog <b translate=yes>dog</b></p>", "<p translate='no'>dog <b translate=yes>Hund</b></p>"),
        ("<pre>dog\n  dog\n</pre>", "<pre>Hund\n  Hund\n</pre>"),
    ],
)  # fmt: skip
def test_tags_stay_and_text_is_translated(html: str, expected: str) -> None:
    assert translated(html) == expected


def test_without_an_alignment_tags_stay_in_their_places() -> None:
    html = "A <i>red</i> <b>dog</b> and a <u>cat</u>."
    assert translated(html, aligned=False) == "<i>Eine Katze</i> <b>und ein</b> Hund, der <u>rot ist</u>."
    assert translated("A <b>thing</b> hangs.", aligned=False) == "一<b>个东西</b>挂着。"


def test_elements_of_xml_stand_in_sentences() -> None:
    xml = '<seg>A <p id="1">dog</p> <br/>runs.</seg>'
    assert translated(xml, "xml") == '<seg>Ein <p id="1">Hund</p> <br/>läuft.</seg>'
    assert lines(xml, markup="xml") == ["A dog runs."]
    assert translated("A dog<![CDATA[<b>x]]> runs.", "xml") == "Ein Hund<![CDATA[<b>x]]> läuft."


def test_a_placeholder_stays_in_its_tag() -> None:
    """It is no word of what the model read, if it was taken out before."""
    item = "https://example.org/a-long-way?to=go"
    [line] = MarkedText(f"A <b>{item}</b> runs, <i>my {item}</i>.").lines
    found = Translation(
        f"Ein {item} läuft, mein {item}.", 0.0, 0.0, ["▁Ein", "▁läuft", ",", "▁mein", ".", "</s>"], [],
        ["▁A", "▁runs", ",", "▁my", ".", "</s>"], [[float(row == column) for column in range(6)] for row in range(6)],
    )  # fmt: skip
    assert line.translated(found) == f"Ein <b>{item}</b> läuft, <i>mein {item}</i>."


def test_what_python_is_told() -> None:
    with pytest.raises(TypeError, match=r"for one line, give \[line\]"):
        new_translator().translate("<b>one</b>", markup="html")
    with pytest.raises(ValueError, match="'markdown': expected one of html, xml"):
        new_translator().translate(["one"], markup="markdown")  # type: ignore[arg-type]


def test_entities_of_a_document_stay() -> None:
    doctype = '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY x "1 > 0"> ]>\n'
    assert translated(f"{doctype}<a>Run &x; now.</a>", "xml") == f"{doctype}<a>Lauf &x; jetzt.</a>"
    assert translated("a &lt; &amp; &b; é", "xml") == translated("a &lt; &amp; &b; &eacute;") == "A &lt; &amp; &b; É"


def test_characters_for_private_use_are_no_marks() -> None:
    every = "".join(map(chr, range(0xE000, 0xF900)))
    for text in (every, "&#xE000;0&#xE000; "):
        html = f"<a title='dog'>{text} dog</a>"
        assert joined(html, "Hund", "x" + text[:3]) == f"<a title='Hund'>x{text[:3]}</a>".replace("&#x", "&amp;#x")


def test_a_line_translated_in_parts_has_its_tags() -> None:
    one, two = translation("A dog runs."), translation("A cat sits here.")
    both = Translation(
        f"{one.text} {two.text}", 0.0, 0.0, [*one.pieces, *two.pieces], [],
        [*(one.source_pieces or ()), *(two.source_pieces or ())], [*(one.alignment or ()), *(two.alignment or ())],
    )  # fmt: skip
    marked = MarkedText("A <b>dog</b> runs.A <i>cat</i> sits here.")  # without a space: no sentence ends
    assert len(marked.lines) == 1
    assert (
        marked.with_lines([marked.lines[0].translated(both)]) == "Ein <b>Hund</b> läuft. Hier sitzt eine <i>Katze</i>."
    )


def test_sentences_end_by_the_rules_of_the_language() -> None:
    html = "Am 3. <b>Mai</b> bellt ein Hund. Er &amp; <i>sie</i>."
    assert lines(html, "de") == ["Am 3. Mai bellt ein Hund.", "Er & sie."]
    assert lines("A <b> </b>dog <p><i>A dog</i> 1</p> <b>2</b>") == ["A dog", "A dog 1"]


def plain(text: str) -> Translation:
    return Translation(text, 0.0, 0.0, [], [])


def joined(html: str, *translations: str) -> str:
    """With these translations of the lines, the last one also for all others; without any, each line is its own."""
    text = MarkedText(html)
    several = itertools.chain(translations, itertools.repeat(translations[-1])) if translations else None
    return text.with_lines([line.translated(plain(next(several) if several else line.text)) for line in text.lines])


class _Tags(HTMLParser):
    def __init__(self, html: str):
        super().__init__()
        self.tags: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(f"{tag} {[(name, value if name == 'class' else '') for name, value in attrs]}")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")


PIECES = [
    "<b title='a b' alt=a>",
    "</b>",
    "<i class='a>b'>",
    "</i>",
    "<p>",
    "</p>",
    "<br/>",
    "<pre>",
    "</pre>",
    "a",
    " b ",
    "\n",
    "&amp;",
]
PIECES += ["&lt;", "&", "<", ">", "é", "<!-- c -->", "<code>", "</code>", "1", ".", "<p translate=no>"]


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.text("<!?/[]->&;=\"' a"))
def test_what_is_its_own_translation_comes_back(html: str) -> None:
    assert joined(html) == html


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_a_translation_is_never_markup(html: str) -> None:
    assert sorted(_Tags(joined(html, "<hr>&quot;</b>")).tags) == sorted(_Tags(html).tags)


_WORDS = st.sampled_from(["one", " two ", "three. ", "Four ", "<code>x</code>"])
_BALANCED = st.recursive(
    st.lists(_WORDS).map("".join),
    lambda inner: st.lists(st.tuples(st.sampled_from(["b", "i", "a", "p"]), inner, _WORDS)).map(
        lambda found: "".join(f"{word}<{tag}>{html}</{tag}>" for tag, html, word in found)
    ),
)


@settings(max_examples=25)
@given(_BALANCED, st.lists(st.sampled_from(["one", "four x", "one two", "x one three.", "", "X"]), min_size=1))
def test_tags_stay_balanced_and_no_text_is_lost(html: str, translations: list[str]) -> None:
    found = joined(html, *translations * 10)
    open_ = list[str]()
    for end, tag in re.findall("<(/?)([a-z]+)>", found):
        if end:
            assert open_.pop() == tag
        else:
            open_.append(tag)
    assert not open_
    assert found.count("<code>x</code>") == html.count("<code>x</code>")


_TAGGED = st.recursive(
    st.sampled_from(["aa", "one ", "two ", " bb", "H2O", "a ", ". ", "c", "<img/>", "<!-- x -->", "<code>x1</code>"]),
    lambda inner: st.lists(
        inner | st.tuples(st.sampled_from("biu"), inner).map(lambda found: f"<{found[0]}>{found[1]}</{found[0]}>"),
        min_size=1,
        max_size=4,
    ).map("".join),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(_TAGGED, st.sampled_from(["html", "xml"]), st.randoms(use_true_random=False))
def test_whatever_the_alignment_text_and_tags_are_all_there_and_balanced(html: str, kind: Markup, draw: Random) -> None:
    text, written = MarkedText(html, markup=kind), list[str]()
    for line in text.lines:
        words = draw.choice([line.text.split(), ["Q"], ["aa", "H2Ox", "zz"]])
        found = " ".join(draw.choice([word, f"{word}x"]) for word in draw.sample(words, len(words)))
        read, new = _pieces(line.text), _pieces(found)
        rows = [[draw.choice([0.0, 0.1, 1.0]) for _ in range(len(read) + 1)] for _ in range(len(new) + 1)]
        target = Translation(found, 0.0, 0.0, [*new, "</s>"], [], [*read, "</s>"], rows)
        written.append(line.translated(target))
        if "<code>" not in line.written:
            assert re.sub("<[^>]*>", "", written[-1]).split() == re.sub("<[^>]*>", "", found).split() or (
                "".join(re.sub("<[^>]*>", "", written[-1]).split()) == "".join(found.split())
            )
    result, open_ = text.with_lines(written), list[str]()
    assert sorted(re.findall("<[^>]*>", result)) == sorted(re.findall("<[^>]*>", html))
    for end, tag in re.findall("<(/?)([biu])>", result):
        if end:
            assert open_.pop() == tag
        else:
            open_.append(tag)


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("html", f"<a {'x' * 100_000}>one"),
        ("html", "<a x='" * 20_000 + ">one"),
        ("html", "one <b></b>" * 10_000),
        ("html", "{a}" * 20_000 + "<b>a</b>"),
        ("xml", "<![CDATA[" * 20_000 + ">one"),
    ],
)
def test_reading_takes_linear_time(kind: Markup, text: str) -> None:
    marked = MarkedText(text, markup=kind)
    assert marked.with_lines([line.translated(plain("x")) for line in marked.lines])
