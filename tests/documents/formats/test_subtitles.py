"""Subtitles: which text is in which cue, what stands between its words, and where its translation goes."""

from pathlib import Path

import pytest
from helpers.documents import SRT, read, upper
from hypothesis import given
from hypothesis import strategies as st

from nmt.documents.document import Document
from nmt.documents.formats.subtitle_codes import to_text
from nmt.documents.formats.subtitles import share
from nmt.errors import NmtError

TIMES = "00:00:01.000 --> 00:00:02.000"


def read_cue(cue: str, name: str = "a.srt") -> Document:
    return read(name, f"{'WEBVTT' if name.endswith('.vtt') else ''}\n\n{TIMES}\n{cue}\n")


def written(cue: str, translation: str, name: str = "a.srt") -> str:
    """A cue of one text with this translation."""
    return read_cue(cue, name).translated(lambda text: translation).split(f"{TIMES}\n")[1].removesuffix("\n")


def test_sentences_run_over_cues() -> None:
    document = read("a.srt", SRT)
    sentence = "the old boat and its crew were waiting for the tide."
    assert [text.text for text in document.texts] == [sentence, "who is it?", "<c0>me</c0> again."]
    new = document.translated(
        lambda text: "eins zwei drei, vier fünf sechs sieben acht" if text.markup is None else text.text
    )
    assert "<i>eins zwei drei,</i>" in new and "{\\an8}vier fünf sechs\nsieben acht\n" in new
    assert [line for line in new.split("\n") if "-->" in line] == [line for line in SRT.split("\n") if "-->" in line]
    [report] = document.report(SRT)
    assert "2 of 3 cues have more than 20 characters per second" in report  # 16, 33 and 22 in about a second each


@given(st.lists(st.text("ab,", min_size=1), min_size=1), st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_shares_are_the_text(words: list[str], lengths: list[int]) -> None:
    text = " ".join(words)
    shares = share(text, lengths)
    assert len(shares) == len(lengths) and all(shares)
    assert " ".join(shares) == text if len(words) >= len(lengths) else set(shares) == {text}


@given(st.text("日本ab、。 ", min_size=1), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_text_without_spaces_is_cut_between_words(text: str, lengths: list[int]) -> None:
    shares = share(text, lengths)
    assert "".join("".join(shares).split()) == "".join(text.split()) or shares == [text] * len(lengths)
    assert len(shares) == len(lengths)
    assert all(each.strip() for each in shares) or not text.strip()
    assert share("日本では、SentencePieceがある", [1, 1]) == ["日本では、", "SentencePieceがある"]


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.srt", f"1\n{TIMES}\na --> b.\n2\n{TIMES}\n4\nc.\n3\n{TIMES}\n4\n{TIMES}\n5", ["a --> b.", "4 c."]),
        ("a.vtt", f"WEBVTT\n\n{TIMES}\na.\n2\n{TIMES}\n4\nb.\nc --> d\ne\n\n{TIMES}\nf.", ["a.", "4 b.", "f."]),
    ],
)
def test_a_cue_ends_where_the_next_begins(name: str, content: str, texts: list[str]) -> None:
    """Without empty lines between cues, numbers and times would be translated as text."""
    document = read(name, content)
    assert [text.text for text in document.texts] == texts
    new = document.translated(upper)
    assert new.lower() == content.lower() and all(text.upper() in new.replace("\n", " ") for text in texts)


@pytest.mark.parametrize(
    ("name", "cue", "translation", "expected"),
    [
        ("a.srt", "one {\\i1}two{\\i0} & <3", "<c0>zwei</c0> eins &amp; &lt;3", "{\\i1}zwei{\\i0} eins & <3"),
        ("a.srt", "{\\an8}a{\\b1} b", "<c0/>c <c1/>d", "{\\an8}c {\\b1}d"),
        ("a.srt", "a <font color=red><b>b</font></b>", "<c0><c1/>c</c0><c3/> d", "<font color=red><b>c</font></b> d"),
        ("a.vtt", "a<00:01.500><c.x> b &lt;</c>", "<c1>c</c1><c0/> &lt;", "<c.x>c</c><00:01.500> &lt;"),
        (
            "a.vtt",
            "a <00:04.100>b <c>d <1:00:04.200>c</c>",
            "<c1><c2/>e</c1> <c0/>f",
            "<c><00:04.100>e</c> <1:00:04.200>f",
        ),
        ("a.srt", "<i>a b</i>\n<i>c d</i>", "e f g h", "<i>e f</i>\n<i>g h</i>"),
        ("a.srt", "{\\an8}<i>a b\nc d</i>", "e f g h", "{\\an8}<i>e f\ng h</i>"),
        ("a.srt", "<i>a b</i>\n<i>c</i>", "e", "<i>e</i><i></i>"),
        ("a.srt", "<b>a b</b>\r\n<u>c d</u>", "<c0>e f</c0> <c2>g\nh</c2>", "<b>e f</b>\r\n<u>g h</u>"),
        ("a.srt", "one\\htwo", "zwei", "zwei"),
        ("a.vtt", "a b\n<i>\nc d</i>", "<c0>e f\ng h</c0>", "<i>e f\ng h</i>"),
        ("a.vtt", "<c>a</c>\n<c></c>\n<c>b</c>", "<c0>d</c0><c2></c2> <c4>e</c4>", "<c>d</c><c></c>\n<c>e</c>"),
        ("a.srt", "a\n\n<i></i>\n<b>c</b> d", "e <c0></c0><c2>f</c2> g", "e\n\n<i></i><b>f</b> g"),
    ],
)
def test_codes_and_lines_stay(name: str, cue: str, translation: str, expected: str) -> None:
    assert read_cue(cue, name).translated(lambda text: text.text) == read_cue(cue, name).content
    assert written(cue, translation, name) == expected


@given(
    st.lists(st.sampled_from(["<i>", "</i>", "</b>", "<b>", "{\\i1}", "{\\i0}", "a ", "&lt;", "<", "{\\an8}", "<c0/>"]))
)
def test_no_code_is_lost(parts: list[str]) -> None:
    content = f"x{''.join(parts)}y"
    text, write = to_text(content, is_web=False)
    assert write(text.text) == content


def test_each_speaker_is_a_text() -> None:
    document = read_cue("<i>- <b>who</b> is it?</i>\n- me\n- and <b>you</b>")
    texts = [text.text for text in document.texts]
    assert texts == ["<c0>who</c0> is it?<c2/>", "me", "and <c0>you</c0>"]
    assert document.translated(upper).lower() == document.content.lower()
    document = read_cue("<v Ann>a.</v>\n<v Bob>b.</v>", "a.vtt")
    assert document.translated(lambda text: text.text * 2).endswith("\n<v Ann>a.a.</v>\n<v Bob>b.b.</v>\n")


def test_scripts_without_spaces() -> None:
    """Their subtitles have no full stops: a cue ends a sentence, unless it ends in a comma. Such a character counts as
    two for the reading speed."""
    document = read("a.srt", "\n\n".join(f"{TIMES}\n{text}" for text in ["日本", "本日、", "日日", "one", "two"]))
    assert [text.text for text in document.texts] == ["日本", "本日、 日日", "one two"]
    assert "1 of 1 cue has" in next(iter(document.report(f"{TIMES}\n{'日' * 11}")))
    assert not list(document.report(f"{TIMES}\n{'日' * 10}"))


def test_text_behind_an_empty_line() -> None:
    """Players of SRT show it; in WebVTT it is in no cue, which is said."""
    content = f"1\n{TIMES}\none\n\ntwo\n\n2\n\n{TIMES}\n\n\n3\n{TIMES}\n<i>a</i> b\n\n7\n"
    document = read("a.srt", content)
    assert [text.text for text in document.texts] == ["one two", "<c0>a</c0> b\n\n7"]
    assert document.translated(upper).lower().split() == content.lower().split()
    assert written("a\n\nb", "c") == "c" and written("a\n\n<i>b</i> c", "d <c0>e</c0>") == "d\n\n<i>e</i>"
    blocks = ["WEBVTT\nx", "NOTE\nx", f"id\n{TIMES}\none", "two\nthree", f"{TIMES}\none", "STYLE x", "four"]
    [said] = read("a.vtt", "\n\n".join(blocks)).report("\n\n".join(blocks))
    assert said.startswith("2 texts are in no cue and not translated, the first in line 11")


@pytest.mark.parametrize(("name", "content"), [("a.srt", "one\n"), ("a.vtt", f"{TIMES}\none\n")])
def test_what_is_refused(name: str, content: str) -> None:
    with pytest.raises(NmtError, match=f"{Path(name)}: not "):
        read(name, content)
