"""The text of HTML: what of it is translated, and that the rest stays as it is."""

import itertools
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.decoding.markup.html import HtmlText

GERMAN = {
    "A dog runs.": "Ein Hund läuft.",
    "A": "Ein",
    "dog": "Hund.",
    "Run nmt train now.": "Starte jetzt nmt train.",
    "A cat sits.": "Hier sitzt eine.",
    "red": "rot",
    "y & red z": "<y> rot & z",
    "Run NMT train now.": "Starte jetzt nmt train.",
    "A very big or big dog.": "Ein sehr groß Hund.",
    "very big": "sehr groß",
    "big": "groß",
    "A big hog.": "Ein riesengroß Schwein.",
    "A big bog.": "Ein großes Moor.",
    "A dog or dog.": "Ein Hund oder Hund.",
    "a < b": "B > A",
    "runs.": "läuft.",
    "thing": "东西",
    "A thing hangs.": "一个东西挂着。",
    "cat": "Katze",
    "A red dog and a cat.": "Eine Katze und ein Hund, der rot ist.",
    "Red bog.": "Rotmoor.",
    "Run x now.": "LAUF JETZT.",
}


def translated(html: str) -> str:
    text = HtmlText(html)
    return text.join([GERMAN.get(line, line.upper()) for line in text.lines])


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>A dog\n  runs.</p> <p> dog</p>", "<p>Ein Hund läuft.</p> <p> Hund.</p>"),
        ("<p>A <b>dog</b> runs.</p>", "<p>Ein <b>Hund</b> läuft.</p>"),
        ("<p>A <a href='x?a=1&b'><b>dog</b></a> runs.", "<p>Ein <a href='x?a=1&b'><b>Hund</b></a> läuft."),
        (  # in another order
            "A <i>red</i> <b>dog</b> and a <u>cat</u>.",
            "Eine <u>Katze</u> und ein <b>Hund</b>, der <i>rot</i> ist.",
        ),
        ("Run <code>nmt train</code> now.", "Starte jetzt <code>nmt train</code>."),
        ("A <b>cat</b> sits.", "Hier <b>sitzt</b> eine."),  # the whole does not contain the translation of its part
        (
            "A dog runs. A <b>cat</b> sits. A <b>dog</b> runs.",
            "Ein Hund läuft. Hier <b>sitzt</b> eine. Ein <b>Hund</b> läuft.",
        ),
        ("<b>A dog runs. A dog</b> runs. A cat sits.", "<b>Ein Hund läuft. Ein Hund läuft.</b> Hier sitzt eine."),
        ("Run <code>x</code> now.", "LAUF JETZT. <code>x</code>"),  # what is not translated is not lost
        ("H<sub>2</sub>O runs.", "H<sub>2</sub>O RUNS."),  # in a word, as in the source
        ("\n<i>A</i> dog <b>runs. </b>\n", "\n<i>Ein</i> Hund <b>läuft.</b> \n"),
        ("A <b>thing</b> hangs.", "一个<b>东西</b>挂着。"),
        ("y &amp; <b>red</b> z", "&lt;y&gt; <b>rot</b> &amp; z"),
        ("Run <code>NMT  train</code> now.", "Starte jetzt <code>NMT  train</code>."),
        ("A <b>very big</b> or <i>big</i> dog.", "Ein <b>sehr groß</b> <i>Hund</i>."),  # one is in the other
        ("A <b>dog</b> or dog.", "Ein <b>Hund</b> oder Hund."),  # which one?
        ("A <b>dog <i>runs.</i></b>", "<b>Ein Hund <i>läuft.</i></b>"),  # more in an element than one text
        ("<b>Red</b> <i>bog</i>.", "<i><b>Rotmoor</b>.</i>"),  # fewer words than elements
        ("A <i>big</i> hog.", "Ein <i>riesengroß</i> Schwein."),
        ("A <i>big</i> bog.", "Ein <i>großes</i> Moor."),  # not a whole word
        ("A <b></b>dog", "A DOG<b></b>"),
        ("A <b>dog <i>runs</i></b>.", "Ein <b>Hund <i>läuft</i></b>."),
        ("<p title='dog &amp; cat' >dog</P >", "<p title='dog &amp; cat' >Hund.</P >"),
        ("a < b", "B &gt; A"),
        ("<!-- dog --><!DOCTYPE html><?dog?>dog", "<!-- dog --><!DOCTYPE html><?dog?>Hund."),
        ("<p translate='no'>dog <b translate=yes>dog</b></p>", "<p translate='no'>dog <b translate=yes>Hund.</b></p>"),
        ("<pre>dog\n  dog\n</pre>", "<pre>Hund.\n  Hund.\n</pre>"),
    ],
)  # fmt: skip
def test_tags_stay_and_text_is_translated(html: str, expected: str) -> None:
    assert translated(html) == expected


def test_only_elements_are_translated_twice() -> None:
    assert HtmlText(
        "A <b> </b>dog <p><i>A dog</i> <b>runs</b></p> <b>A dog</b> <br> A <b>1</b> <code>x</code>"
    ).lines == [*("A dog", "A dog runs", "A dog", "runs", "A dog", "A 1 x")]


def test_sentences_end_by_the_rules_of_the_language() -> None:
    html = "Am 3. <b>Mai</b> bellt ein Hund. Er &amp; <i>sie</i>."
    assert HtmlText(html, "de").lines == ["Am 3. Mai bellt ein Hund.", "Mai", "Er & sie.", "sie"]
    assert HtmlText("Er &amp; <i>sie</i>.", "el").lines == ["Er & sie.", "sie"]


class _Tags(HTMLParser):
    def __init__(self, html: str):
        super().__init__()
        self.tags: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(f"{tag} {attrs}")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")


PIECES = [
    "<b>",
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
    assert (text := HtmlText(html)).join(text.lines) == html


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_a_translation_is_never_markup(html: str) -> None:
    text = HtmlText(html)
    assert sorted(_Tags(text.join(["<hr>&quot;</b>"] * len(text.lines))).tags) == sorted(_Tags(html).tags)


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
    text, several = HtmlText(html), itertools.cycle(translations)
    found = text.join([next(several) for _ in text.lines])
    open_ = list[str]()
    for end, tag in re.findall("<(/?)([a-z]+)>", found):
        if end:
            assert open_.pop() == tag
        else:
            open_.append(tag)
    assert not open_
    assert found.count("<code>x</code>") == html.count("<code>x</code>")


@pytest.mark.parametrize("end", ["", ">", '">'])
def test_the_end_of_a_tag_is_not_looked_for_again_and_again(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser would look through the rest of the text at each `<`, which took five seconds."""
    looks, look = list[int](), HTMLParser.check_for_whole_start_tag
    monkeypatch.setattr(
        HTMLParser, "check_for_whole_start_tag", lambda self, start: looks.append(start) or look(self, start)
    )
    html = "<a " * 100 + end
    assert HtmlText(html).join(["x"]).count("a") in (0, 100)
    assert len(looks) <= html.count(">")
