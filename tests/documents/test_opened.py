"""Files of documents: their encodings, and what is said of them."""

import gzip
import json
import logging
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from helpers.documents import upper

from nmt.commands.output_format import OutputFormat
from nmt.commands.translation_job import TranslationJob
from nmt.decoding.translation import Translation
from nmt.documents.document import TranslatableText
from nmt.documents.encoding import decoded
from nmt.documents.file_formats import FORMATS, check_lines, format_of
from nmt.documents.opened import OpenedDocument
from nmt.errors import NmtError


def test_size_and_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(NmtError, match="larger than 64 MiB"):
        OpenedDocument.read(path, FORMATS[".srt"])
    with pytest.raises(NmtError, match="line 2 is not UTF-8"):
        decoded("a\né".encode("latin-1"), path)
    data = "é".encode("utf-16")
    content, encoding = decoded(data, path)
    assert content == "é" and encoding.encoded(content, path) == data


DECLARED = {
    "a.po": 'msgid ""\nmsgstr "x\\nContent-Type: text/plain; charset={}\\n"\n\nmsgid "one"\nmsgstr ""\n',
    "a.xlf": "<?xml version='1.0' encoding='{}'?><xliff><trans-unit><source>one</source></trans-unit></xliff>",
    "a.html": "<!-- <meta charset=utf-16> --><META http-equiv=x content='text/html; charset={}'><p>one",
    "b.html": '<?xml version="1.0" encoding="{0}"?><html><meta charset="{0}"><p>one</p></html>',
}


def translated(path: Path, data: bytes, added: str) -> bytes:
    path.write_bytes(data)
    format = format_of(path)
    assert format is not None
    document = OpenedDocument.read(path, format)
    assert document.write([document.parts[0].content]) == data
    return document.write([document.parts[0].translated(lambda text: upper(text).replace("ONE", "ONE" + added))])


@pytest.mark.parametrize("name", DECLARED)
def test_declared_encodings(name: str, tmp_path: Path) -> None:
    """A translation is in the encoding that its file declares; that is UTF-8 if it must be."""
    path, content = tmp_path / name, DECLARED[name]
    for declared, data in {
        "ISO-8859-1": content.format("ISO-8859-1").encode(),  # ASCII
        "CHARSET": content.format("CHARSET").encode(),
        "utf-16": content.format("utf-16").encode(),  # as programs write it that convert the file afterwards
        "koi8-r": content.format("koi8-r").replace("one", "one\N{CYRILLIC SMALL LETTER A}").encode("koi8-r"),
        "iso-8859-1": content.format("iso-8859-1").replace("one", "one’").encode("cp1252"),  # as browsers read it
        "ascii": content.format("ascii").replace("one", "oneé").encode(),
    }.items():
        assert declared.encode() in translated(path, data, "") or declared == "ascii"
        new = translated(path, data, "łß")
        assert new.decode().count("UTF-8") == content.count("{}") + content.count("{0}") and "łß" in new.decode()
        assert declared not in new.decode().replace("<!-- <meta charset=utf-16>", "")
    data = content.format("ISO-8859-1").replace("one", "one’").encode("cp1252")
    assert "ONE€’".encode("cp1252") in translated(path, data, "€")
    data = content.format("ISO-8859-1").encode()
    assert translated(path, data, "ß").decode("latin-1") == translated(path, data, "").decode().replace("ONE", "ONEß")


def test_byte_order_marks(tmp_path: Path) -> None:
    """They go before what a document declares."""
    content = DECLARED["a.xlf"].format("ISO-8859-1")
    for codec in ("utf-8-sig", "utf-16", "utf-32"):
        assert "ONEž" in translated(tmp_path / "a.xlf", content.encode(codec), "ž").decode(codec)
    for data, message in (
        (content.encode("utf-16-le"), "UTF-16 without a byte order mark: convert it: iconv -f UTF-16LE"),
        ((content + "\u3000").encode("utf-16-be"), "UTF-16 without a byte order mark: convert it: iconv -f UTF-16BE"),
        (b"PK\3\4\0\0", "a ZIP archive"),
        (b"\x7fELF\0\0\0\0", "not text, because it has zero bytes"),
        (
            "é".encode("cp1252"),
            "line 1 is not UTF-8: convert it from its encoding, such as: iconv -f WINDOWS-1252 -t UTF-8",
        ),
    ):
        with pytest.raises(NmtError, match=message):
            decoded(data, tmp_path)


def test_what_is_said_of_texts_that_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A text whose placeholders are lost gets no translation, so that the next command tries again."""
    caplog.set_level(logging.INFO, "nmt")
    path = tmp_path / "a.po"
    path.write_text('msgid "one"\nmsgstr ""\n\nmsgid "two %s"\nmsgstr ""\n\nmsgid "x"\nmsgstr "y"\n')
    document = OpenedDocument.read(path, FORMATS[".po"])
    assert list(document.texts) == [TranslatableText("one"), TranslatableText("two %s")]
    new = document.with_lines([("eins", None), ("zwei", None)], tmp_path / "b.po")
    assert new.decode() == "#, fuzzy\n" + path.read_text().replace('""', '"eins"', 1)
    assert (
        f"{path}: line 4: not translated, because the placeholders of its translation differ: 'two %s'" in caplog.text
        and "1 text already has a translation" in caplog.text
    )
    path.write_text('msgid "%s, %d"\nmsgstr ""\n\nmsgid "{n, plural, a"\nmsgstr ""\n\nmsgid "%v of %q"\nmsgstr ""\n')
    document = OpenedDocument.read(path, FORMATS[".po"])
    _, notes = document.translated([("%2$q a %1$v", None)], tmp_path / "b.po")
    assert notes == [
        (logging.WARNING, f"{path}: line {line}: not translated, because {why}")
        for line, why in (
            (4, "the ICU message is not well formed: '{n, plural, a'"),
            (7, "the order of its arguments would change: '%v of %q'"),
        )
    ]
    path.write_text('msgid ""\nmsgstr "x"\n')
    OpenedDocument.read(path, FORMATS[".po"]).with_lines([], tmp_path)
    assert f"{path}: no text to translate was found" in caplog.text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.po", 'msgid "one"\nmsgstr ""\n\nmsgid "see {0}"\nmsgstr ""\n\n#, fuzzy\nmsgid "two"\nmsgstr "TWO"\n'),
        (
            "a.xliff",
            "<xliff><file><body><trans-unit><source>one</source></trans-unit>"
            "<trans-unit><source>see <b>{0}</b></source></trans-unit><trans-unit><source>two</source>"
            '<target state="needs-review-translation">TWO</target></trans-unit></body></file></xliff>',
        ),
        ("a.json", '{"a": "one", "b": "see {0}", "c": "TWO"}'),
        ("a.html", "<p>one<p>see {0}<p title=one>TWO"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nsee {0} \nat one.\n\n00:00:09,000 --> 00:00:10,000\nTWO."),
    ],
)
def test_a_text_without_a_translation_is_counted_and_not_changed(name: str, content: str) -> None:
    """Also where the only text of the translation is its placeholder. In a page, other texts are translated."""
    expected = content
    for old, new in (
        ("#, fuzzy\n", ""),
        ('"TWO"\n', '""\n'),
        ('<target state="needs-review-translation">TWO</target>', ""),
    ):
        content = content.replace(old, new)
    document = OpenedDocument.from_bytes(content.replace("TWO", "two").encode(), Path(name), FORMATS[Path(name).suffix])
    lines = list[tuple[str, float | None]]()
    for line in document.marked_lines:
        text = line.text.upper() if "two" in line.text else "{0}" * ("{0}" in line.text)
        lines.append((line.translated(Translation(text, 0, 0, [], []), ("verbatim",)), None))
    written, notes = document.translated(lines, Path("b"))
    assert written.decode() == expected
    counts = {"a.html": "3 texts are", "a.srt": "1 text is"}
    reason = "not translated, because the model wrote nothing"
    assert notes == [(logging.WARNING, f"{name}: {counts.get(name, '2 texts are')} {reason}")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.po", '# x\nmsgid ""\nmsgstr ""\n"Project-Id-Version: 1\\n"\n"Language: {}\\n"\n\nmsgid "x"\nmsgstr ""\n'),
        ("a.po", 'msgid ""\nmsgstr "MIME-Version: 1.0\\nLanguage: {}\\n"\n\nmsgid "x"\nmsgstr ""\n'),
        (
            "a.xlf",
            "<xliff version='1.2'><file source-language='en' target-language='{}'><body><trans-unit id='1'><source>x"
            "</source></trans-unit></body></file></xliff>",
        ),
        (
            "a.xlf",
            '<x:xliff\n version="2.0" srcLang="en" trgLang="{}"><x:file><x:unit><x:segment><x:source>x</x:source>'
            "</x:segment></x:unit></x:file></x:xliff>",
        ),
    ],
)
def test_a_file_of_another_target_language_gives_a_warning(name: str, content: str) -> None:
    def notes(named: str) -> list[str]:
        document = OpenedDocument.from_bytes(
            content.replace("{}", named).encode(), Path(name), FORMATS[Path(name).suffix], target_language="pl"
        )
        return [note for _, note in document.translated([("y", None)], Path("b"))[1]]

    assert notes("pl-PL") == notes("pl") == notes("pol") == notes("") == []
    assert FORMATS[".po"].named_target('msgid ""\nmsgstr ' + '"" ' * 50) == ""  # not in exponential time
    assert notes("de_AT") == [f"{name}: its target language is de_AT, but the translations are in pl"]


def test_attributes_of_strings_are_translated() -> None:
    content = json.dumps({"a": 'two <img alt="The child &amp; {n}" title=milk src=x> boats'})
    document = OpenedDocument.from_bytes(content.encode(), Path("a.json"), FORMATS[".json"])
    new = (Translation(line.text.upper().replace("{N}", "{n}"), 0, 0, [], []) for line in document.marked_lines)
    lines = [line.translated(each, document.keep) for line, each in zip(document.marked_lines, new, strict=True)]
    written, notes = document.translated([(line, None) for line in lines], Path("b.json"))
    assert not notes
    assert json.loads(written)["a"] == 'TWO <img alt="THE CHILD &amp; {n}" title="MILK" src=x> BOATS'


def test_documents_that_are_not_read(tmp_path: Path) -> None:
    with pytest.raises(NmtError, match=r"\.ASS documents are not supported.*nmt translate MODEL < film\.ASS"):
        check_lines(Path("film.ASS"))
    with pytest.raises(
        NmtError, match=r"memory\.tmx\.gz: a translation memory: train with it .* export its texts as XL"
    ):
        check_lines(Path("memory.tmx.gz"))
    with pytest.raises(NmtError, match="subtitles, compressed: decompress it first"):
        check_lines(Path("film.srt.gz"))
    for ending in ("csv", "tsv.gz", "xlsx", "odt", "pptx", "properties", "strings", "resx", "yml", "jsonl", "md.xz"):
        with pytest.raises(NmtError, match="are not supported: convert it"):
            check_lines(tmp_path / f"a.{ending}")
    for name in ("corpus.en", "corpus.en.gz", "corpus.txt", "corpus.mt", "corpus.ts", "corpus.arb_Arab", "corpus"):
        check_lines(Path(name))
    request = TranslationJob(model=Path("m"), source=Path("a.po"), format=OutputFormat(markup="html"))
    with pytest.raises(NmtError, match="a PO file does not have lines with tags: leave out --markup"):
        assert request.document_format
    with pytest.raises(NmtError, match=f"{tmp_path}: a folder: name a file in it"):
        assert TranslationJob(model=Path("m"), source=Path("a.po"), output=tmp_path).document_format
    for name, output, message in (
        ("a.docx", "a.pdf", r"a\.pdf: the translation is a Word document, whose name must end in \.docx"),
        ("a.srt", "b.vtt", r"b\.vtt: the translation is SRT subtitles, whose name must end in \.srt"),
        ("a.po", "/dev/stdout", "it and --output must be regular files"),
        ("a.pot", "b", r"b: the translation is a PO file, whose name must end in \.po or \.pot"),
    ):
        with pytest.raises(NmtError, match=message):
            assert TranslationJob(model=Path("m"), source=Path(name), output=Path(output)).document_format
    assert TranslationJob(model=Path("m"), source=Path("a.pot"), output=tmp_path / "de.new.PO").document_format
    assert (
        TranslationJob(model=Path("m"), source=Path("a.html"), format=OutputFormat(markup="html")).document_format
        is None
    )


def test_endings_that_are_languages(tmp_path: Path) -> None:
    """Tsonga and Moldavian, or documents of Qt, code and compiled catalogues of gettext."""
    qt = "<!DOCTYPE TS>\n<TS version='2.1'></TS>"
    for name, data, refused in (
        ("a.ts", qt.encode(), True),
        ("a.ts", f"\n<?xml version='1.0'?>{qt}".encode("utf-8-sig"), True),
        ("a.ts", f"<?xml version='1.0' encoding='utf-16'?>{qt}".encode("utf-16"), True),
        ("a.ts", qt[14:].encode(), True),
        ("a.ts.gz", gzip.compress(qt.encode()), True),
        ("a.ts", b"export default {}", True),
        ("a.ts", b"Hi ku tsakela ku mi vona. <3", False),
        ("a.ts.gz", gzip.compress(b"Exporta <TS>."), False),
        ("a.ts", b"", False),
        ("a.mo", b"\xde\x12\x04\x95\0\0\0\0", True),
        ("a.mo", "Bună ziua.".encode(), False),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(NmtError, match="are not supported: convert it") if refused else nullcontext():
            check_lines(path)


LINEAR = {
    "badly nested": "<b><i></b></i>",
    "open": "<b>x",
    "ends of others": "<u></i>{{/x}}",
    "spaces": "x <b> </b>",
    "codes": "{% if x %}<code>a</code>s{% else %}b{% endif %} {}",
    "lines": "<b>a\n</b>\n\n",
    "bits": "<{&[%",
}


@pytest.mark.parametrize("name", LINEAR)
def test_twice_as_long_a_document_takes_twice_as_many_steps(name: str) -> None:
    """Function calls, of Python and of C: they are the same on any machine."""

    def steps(document: str, count: int) -> int:
        text, calls = f"<b>x {LINEAR[name] * count} y", [0]
        content = {
            "a.html": text,
            "a.vtt": f"WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n{text}",
            "a.po": f'msgid {json.dumps(text)}\nmsgstr ""',
        }[document]

        def called(*_: object) -> None:
            calls[0] += 1

        sys.setprofile(called)
        try:
            opened = OpenedDocument.from_bytes(content.encode(), Path(document), FORMATS[Path(document).suffix])
            lines = [line.translated(Translation(line.text.upper(), 0, 0, [], [])) for line in opened.marked_lines]
            opened.translated([(line, None) for line in lines], Path(document))
        finally:
            sys.setprofile(None)
        return calls[0]

    for document in ("a.html", "a.vtt", "a.po"):
        steps(document, 10)  # what is loaded or compiled once
        assert steps(document, 200) < 2.1 * steps(document, 100)


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize("text", ["x <code>" + "<" * 400_000, "<b>x</b> " + "<!--<a>" * 100_000 + "<!--"])
def test_the_end_of_what_has_none_is_looked_for_once(text: str) -> None:
    """For each it would take minutes."""
    opened = OpenedDocument.from_bytes(json.dumps([text]).encode(), Path("a.json"), FORMATS[".json"])
    assert opened.marked_lines[0].text.startswith("x")
