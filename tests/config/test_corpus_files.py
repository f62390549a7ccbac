"""Files that a command line gives as corpora: which are none, and which languages they have."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.config import corpus_files
from nmt.config.corpus_files import Codes
from nmt.config.language_pairs import LanguagePair
from nmt.errors import NmtError
from nmt.files import notes


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    notes.say_once.cache_clear()
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def memory(name: str, header: str, *languages: str) -> None:
    variants = "".join(f'<tuv xml:lang="{code}"><seg>text</seg></tuv>' for code in languages)
    srclang = f' srclang="{header}"' if header else ""
    Path(name).write_text(f"<tmx><header{srclang}/><body><tu>{variants}</tu></body></tmx>")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ("a.en a.en", "both sides are the same file"),
        ("a.en sub/../a.en", "both sides are the same file"),
        ("a.en link.fi", "both sides are the same file"),
        ("none none", "both sides are the same file"),
        ("export.en a.fi", "export.en: is XML, not plain text: if it is a translation memory (TMX), let its name end"),
        ("a.en packed.gz", "packed.gz: is XML"),
        ("m.tmx a.fi", "m.tmx has both sides: give it alone: --train m.tmx"),
        ("a.en none.tsv", "none.tsv has both sides: give it alone: --train none.tsv"),
    ],
)
def test_files_that_are_no_corpus_are_refused(files: str, reason: str) -> None:
    Path("sub").mkdir()
    for name in ("a.en", "a.fi"):
        Path(name).write_text("<b>text</b>\n<?xml?>\n")  # it may be about XML
    Path("link.fi").symlink_to("a.en")
    memory("export.en", "en", "en", "fi")
    memory("m.tmx", "en", "en", "fi")
    with gzip.open("packed.gz", "wb") as packed:
        packed.write(b'\xef\xbb\xbf<?xml version="1.0"?>\n<xliff/>')
    with pytest.raises(NmtError) as raised:
        corpus_files.check("--train", tuple(map(Path, files.split())))
    assert reason in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("files", "given", "known", "codes"),
    [
        ("a.en a.fi.gz", (None, None), "", ("en", "fi")),
        ("a.en a.txt", (None, None), "", ("en", None)),
        ("a.en a.fi", (None, "sv"), "", ("en", "sv")),
        ("a.eng a.fin", (None, None), "fi-en", ("en", "fi")),
        ("news.en-fi.tsv", (None, None), "", ("en", "fi")),
        ("pairs.tsv", (None, None), "", (None, None)),
        ("two.tmx", (None, None), "", ("fi", "en")),  # the header's language first; two variants of English
        ("no-header.tmx", (None, None), "", ("en", "fi")),
        ("two.tmx", (None, "fi"), "", ("en", "fi")),
        ("two.tmx", (None, None), "en-fi", ("en", "fi")),  # the model's direction
        ("two.tmx", (None, None), "eng_Latn-fin_Latn", ("eng_Latn", "fin_Latn")),
        ("two.tmx", (None, None), "en-sv", ("fi", "en")),
        ("three.tmx", (None, None), "en-de sv-fi", ("sv", "fi")),
        ("three.tmx", ("sv", "en"), "", ("sv", "en")),
        ("none.tmx", (None, None), "", (None, None)),
        ("utf16.tmx", (None, None), "", ("sw", "en")),
    ],
)
def test_languages_are_those_of_the_options_the_names_or_the_memory(
    files: str, given: Codes, known: str, codes: Codes
) -> None:
    Path("two.tmx").write_text(
        '<tmx><header srclang="FI-fi"/><body><tu><tuv xml:lang="EN-US"/><tuv xml:lang="FI-FI"/></tu>'
        '<tu><tuv lang="en-GB"/><tuv lang="fi"/></tu></body></tmx>'
    )
    memory("no-header.tmx", "*all*", "en", "fi")
    memory("three.tmx", "en", "en", "fi", "sv")
    filler = "<note>" + "x > y " * 300_000 + "</note>"  # tags are in different blocks
    text = f"<tmx><header srclang='sw' /><tuv\n xml:lang='en'></tuv>{filler}<tuv lang = 'sw'></tuv></tmx>"
    Path("utf16.tmx").write_text(text, encoding="utf-16")
    pairs = [LanguagePair(*pair.split("-")) for pair in known.split()]
    assert corpus_files.language_codes(tuple(map(Path, files.split())), given, pairs) == codes


@pytest.mark.parametrize("given", [(None, None), ("sv", None)])
def test_of_three_languages_two_must_be_chosen(given: Codes) -> None:
    memory("three.tmx", "fi", "en", "fi", "sv")
    with pytest.raises(NmtError, match=r"^three.tmx: its languages are fi, en, sv: choose two of them with --source"):
        corpus_files.language_codes((Path("three.tmx"),), given, ())
