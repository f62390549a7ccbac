"""Translation memories: the text of each unit, however it is marked up, encoded and named."""

import logging
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.compressed import COMPRESS

from nmt.config.schema import Corpus, DataConfig
from nmt.data.sources import corpus, tmx
from nmt.errors import NmtError
from nmt.files import notes

Pairs = list[tuple[str, str]]


def settings(source: str = "en", target: str = "de") -> DataConfig:
    return DataConfig(source_language=source, target_language=target, train=())


def memory(*units: str, head: str = '<?xml version="1.0" encoding="UTF-8"?>') -> str:
    body = "\n".join(f"<tu>{unit}</tu>" for unit in units)
    header = '<header segtype="sentence" adminlang="en" srclang="en" datatype="plaintext"><note>note</note></header>'
    return f'{head}\n<tmx version="1.4">\n{header}\n<body>\n{body}\n</body>\n</tmx>\n'


def variant(language: str, text: str) -> str:
    return f'<tuv xml:lang="{language}"><prop type="x">about it</prop><seg>{text}</seg></tuv>'


def unit(**texts: str) -> str:
    return "".join(variant(language, text) for language, text in texts.items())


def read(path: Path, content: str | bytes, data: DataConfig | None = None, **columns: str) -> Pairs:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(corpus.read_pairs(Corpus(file=str(path), **columns), data or settings(), "train"))


@pytest.fixture(autouse=True)
def nothing_was_logged_before() -> Iterator[None]:
    notes.say_once.cache_clear()
    yield


# --------------------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ("plain &amp; simple &#x1F600; &lt;b&gt;", "plain & simple 😀 <b>"),
        ('see <ph type="fnote">{\\f <sub>a footnote</sub>}</ph>here<it pos="begin">x</it><ut>y</ut>.', "see here."),
        ("<![CDATA[a < b]]> and <!-- a comment -->c", "a < b and c"), ("\n   two\n   lines\n  ", "two lines"),
        ("a\r\nb\tc&#13;d&#10;e", "a b c d e"),
        ("one<ph>&lt;br/&gt;</ph>two<ph> </ph>three<ph>&amp;nbsp;</ph>four<it>\\n</it>five", "one two three four five"),
        ('one<x id="1"/><x id="2"/>two, <x id="3"/>three<x id="4"/>.<x ctype="lb"/>', "one two, three."),
    ],
)  # fmt: skip
def test_text_of_a_segment(tmp_path: Path, segment: str, text: str) -> None:
    content = memory(unit(en=segment, de="Ziel"), unit(en="next", de=segment))
    assert read(tmp_path / "a.tmx", content) == [(text, "Ziel"), ("next", text)]


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("encoding", "head"),
    [
        ("utf-8-sig", '<?xml version="1.0" encoding="utf-8"?>'),
        ("utf-16", '<?xml version="1.0" encoding="UTF-16"?>'),
        ("windows-1252", '<?xml version="1.0" encoding="windows-1252"?>'),
    ],
)
def test_encodings(tmp_path: Path, encoding: str, head: str, ending: str) -> None:
    content = memory(*[unit(en="large", de="größer")] * 1000, head=head).encode(encoding)
    path = tmp_path / f"A.TMX{ending}"
    assert read(path, COMPRESS[ending](content) if ending else content) == [("large", "größer")] * 1000


@pytest.mark.parametrize(("encoding", "block"), [("utf-8", 5), ("utf-16", 9)])
def test_characters_that_xml_does_not_allow(
    tmp_path: Path, encoding: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are left out and counted, wherever the file is cut into blocks; the rest stays as it is."""
    monkeypatch.setattr(tmx, "_BLOCK_BYTES", block)
    segment = (
        "o&#x1F;ne\x1f\x00&#0;\x0btwo\ufffe &#xD800;&#55357;&#xFFFF;thr&#x1FFFFF;ee "
        "😀&#x1F600;&#55357;&#56832;&#xD83D;&#xDE00;&#xE4;&#10;\x7f\ufffd&amp;#x1F;"
    )
    content = memory(
        *[unit(en=segment, de="b&#12;c")] * 20, head=f'<?xml version="1.0" encoding="{encoding}"?>'
    ).encode(encoding)
    said = list[str]()
    (tmp_path / "a.tmx").write_bytes(content)
    found = list(corpus.read_pairs(Corpus(file=str(tmp_path / "a.tmx")), settings(), "train", notes=said))
    assert found == [("one two three 😀😀😀😀ä \x7f\ufffd&#x1F;", "b c")] * 20
    assert said == [
        "220 characters that XML does not allow are left out (a line or page break of a word processor becomes a "
        "space): U+0000 40, U+001F 40, U+FFFF 40, U+000B 20, U+000C 20, …"
    ]


# --------------------------------------------------------------------------- languages


@pytest.mark.parametrize("tag", ["DE", "DE-CH-1996"])
def test_a_language_is_found_with_any_region(tmp_path: Path, tag: str) -> None:
    others = variant("den", "Slave") + variant("nds", "Platt") + "<tuv><seg>no language</seg></tuv>"
    assert read(tmp_path / "a.tmx", memory(variant("EN-us", "a") + others + variant(tag, "b"))) == [("a", "b")]


def test_several_variants(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The exact name wins, then the first; the others are counted. Of two wanted languages, the longer name wins."""
    caplog.set_level(logging.INFO, "nmt")
    content = memory(
        variant("en-GB", "a") + variant("en", "b") + variant("de-AT", "c") + variant("de-DE", "d"),
        variant("de", "e") + variant("de", "f") + variant("en-GB", "g"),
    )
    assert read(tmp_path / "a.tmx", content) == [("b", "c"), ("g", "e")]
    assert "a.tmx: 3 further variants of en or de in a unit are not used" in caplog.text
    assert read(tmp_path / "c.tmx", memory(variant("en", "a") + variant("de", "b") + variant("de", "c"))) == [
        ("a", "b")
    ]
    assert "c.tmx: 1 further variant of en or de in a unit is not used" in caplog.text
    content = memory(variant("en-GB", "colour") + variant("en-US", "color"))
    assert read(tmp_path / "b.tmx", content, settings("en", "en-GB")) == [("color", "colour")]
    assert read(tmp_path / "b.tmx", content, settings("en-GB", "en")) == [("colour", "color")]


def test_no_unit_has_both(tmp_path: Path) -> None:
    content = memory(unit(en="a"), unit(fr="b"), unit(fr="c", es="d"))
    with pytest.raises(NmtError) as error:
        read(tmp_path / "a.tmx", content)
    assert str(error.value) == (
        f"{tmp_path}/a.tmx: no unit has both en and de; its languages are fr (2), en (1), es (1): choose two "
        "(in a config also as source_column, target_column)"
    )
    with pytest.raises(NmtError, match=r"a.tmx: no sentence pairs"):
        read(tmp_path / "a.tmx", memory())


def test_fingerprint_follows_content_and_named_languages(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"

    def fingerprint(**columns: str) -> str:
        return corpus.fingerprint(Corpus(file=str(path), **columns), settings(), "train")

    path.write_text(memory(unit(en="a", de="b")), encoding="utf-8")
    before, named = fingerprint(), fingerprint(target_column="de")
    path.write_text(memory(unit(en="a", de="c")), encoding="utf-8")
    assert len({before, named, fingerprint()}) == 3
    reader = Corpus(file=str(path))
    with pytest.raises(NmtError, match="has changed while it was read"):
        list(corpus.read_pairs(reader, settings(), "train", before))
    assert list(corpus.read_pairs(reader, settings(), "train", fingerprint())) == [("a", "c")]


# --------------------------------------------------------------------------- what is wrong

BOMB = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (memory(unit(en="a", de="b"))[:-20], r"a.tmx:\d+: not well-formed XML: .*: the file is empty or cut off: "),
        (memory(unit(en="&nbsp;", de="b"), head='<!DOCTYPE tmx SYSTEM "tmx14.dtd">'), "a.tmx:5: &nbsp; is not defined"),
        (memory(unit(en="\xff", de="b")).encode("latin-1"), "a.tmx:5: not well-formed XML"),
        ("<html><body/></html>", "a.tmx:1: not a TMX file: its first element is <html>"),
        (memory(head=f'<!DOCTYPE tmx [<!ENTITY a0 "ha">{BOMB}]>'), "a.tmx:1: declares the entity &a0;"),
        (memory(unit(en="&x;", de="b"), head='<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
         "a.tmx:1: declares the entity &x;"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_memory(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(NmtError, match=message) as error:
        read(tmp_path / "a.tmx", content)
    assert "\n" not in str(error.value)


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.files.text.BLOCK_BYTES", 1 << 16)  # less than the smaller file

    def peak(units: int) -> int:
        path = tmp_path / f"{units}.tmx"
        path.write_text(memory(*[unit(en="a word or two", de="ein Wort oder zwei", fr="x")] * units), encoding="utf-8")
        pairs = corpus.read_pairs(Corpus(file=str(path)), settings(), "train")
        tracemalloc.start()
        try:
            assert sum(1 for _ in pairs) == units
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(8_000) < peak(2_000) * 1.2
