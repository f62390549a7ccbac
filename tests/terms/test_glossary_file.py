"""The formats of glossary files."""

from pathlib import Path

import pytest

from nmt.config.language_pairs import LanguagePair
from nmt.errors import NmtError
from nmt.terms.glossary import Glossary

PAIR = LanguagePair("en", "de")
HOUSES = {"house": ["Haus", "Häuser"], "dry dock": ["Trockendock"]}


def loaded(path: Path, content: str | bytes, pair: LanguagePair | None = PAIR) -> dict[str, list[str]]:
    """The terms of a glossary file with this content: the target forms of each."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return {term.source: list(term.targets) for term in Glossary.load(path, pair).terms}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "t.tsv",
            "\ufeff# source\ttarget\r\n\n   \nhouse\tHaus|Häuser\r\n  dry  dock \t Trockendock\nhouse\tHaus|Häuser",
        ),
        ("t.txt", "dry dock\tTrockendock\t\t\nhouse\tHaus|Häuser\n".encode("utf-16")),
        ("t", '"house"\t"Haus|Häuser"\n"dry\ndock"\tTrockendock\n'),
        ("t.csv", "house,Haus|Häuser\n# a comment, of no use, at all\ndry dock,Trockendock\n"),
        ("t.CSV", 'sep=;\n"house";Haus|Häuser;;\n"dry dock";"Trockendock"\n'),
        ("t.tsv", "de\ten\nHaus|Häuser\thouse\nTrockendock\tdry dock\nHeim\t\n"),
        ("t.csv", 'note,en-GB,German,fr\n"a, b\n\n",house,Haus|Häuser,maison\n,dry dock,Trockendock\n'),
        ("t.csv", "English (UK);German (Austria)\nhouse;Haus|Häuser\ndry dock;Trockendock\n"),
        ("t.tsv", "Target\tSource\nHaus|Häuser\thouse\nTrockendock\tdry dock\n"),
    ],
)
def test_tables(tmp_path: Path, name: str, content: str | bytes) -> None:
    assert loaded(tmp_path / name, content) == HOUSES


def test_tables_for_a_job_whose_languages_are_not_known(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    assert (
        loaded(path, "house\tHaus\n", None)
        == loaded(path, "target\tsource\nHaus\thouse\n", None)
        == {"house": ["Haus"]}
    )
    with pytest.raises(NmtError, match="en, de do not fit the languages, which are not known here: give source and"):
        loaded(path, "en\tde\nhouse\tHaus\n", None)
    assert loaded(path, "de\ten\nHaus\thouse\n", LanguagePair("deu", "en_GB")) == {"Haus": ["house"]}


def test_quotes_that_are_text(tmp_path: Path) -> None:
    assert loaded(tmp_path / "t.tsv", '5" pipe\t"5"" pipe"\n') == {'5" pipe': ['5" pipe']}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.tsv", "a\tb\n\nhouse\nc\n", r"t\.tsv:3: 'house': write a source term, one tab"),
        ("t.tsv", "a\tb\tc\n", r"t\.tsv:1: 'a \| b \| c': .*name them in the first line"),
        ("t.tsv", "a\tb\nA b\tc\nx|\ty\n", r"t\.tsv:3: empty term or form: 'x\|'"),
        ("t.csv", 'a,b\n"c,d\n', r"t\.csv:2: the row that begins here cannot be read"),
        ("t.tsv", "fr\ten\na\tb\n", r"t\.tsv:1: the headings fr, en do not fit en and de"),
        (
            "t.csv",
            '# x\na,b\nc,"d\nd"\n\n"c",D|E\n',
            r"t\.csv:6: 'c' has two translations, 'd d' and 'D\|E': .* in line 3\)",
        ),
        ("t.xlsx", "PK\x03\x04", "save its content as text"),
        ("t.xml", "<tmx/>", r"t\.xml:1: not a TBX file: its first element is <tmx>"),
        ("t.tmx.gz", "", r"t\.tmx\.gz: a translation memory \(TMX\), which is no glossary"),
        ("t.tbx", "<martif><text>", "not well-formed"),
        ("t.tbx", "<!DOCTYPE martif [<!ENTITY a 'b'>]><martif/>", "declares the entity"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(NmtError, match=message) as caught:
        loaded(tmp_path / name, content)
    assert "\n" not in str(caught.value)


def test_an_empty_glossary_is_allowed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert loaded(tmp_path / "t.tsv", "# nothing yet\n") == {}
    assert "t.tsv: the glossary is empty" in caplog.text


VERSION_2 = """<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX" xml:lang="en"><martifHeader/><text><body>
<termEntry id="1">
 <langSet xml:lang="en-US"><ntig><termGrp><term>home</term>
  <termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote></termGrp></ntig>
  <tig><term>the <hi>dry</hi>
   dock</term></tig></langSet>
 <langSet xml:lang="de"><tig><term>Dock|1</term><termNote type="administrativeStatus">admitted</termNote></tig>
  <tig><term>D\xf6ck</term><termNote type="administrativeStatus">preferredTerm-admn-sts</termNote></tig>
  <tig><term>Alt</term><termNote type="administrativeStatus">supersededTerm-admn-sts</termNote></tig></langSet>
 <langSet xml:lang="fr"><tig><term>cale</term></tig></langSet>
</termEntry>
<termEntry><langSet xml:lang="en-US"><tig><term>without German</term></tig></langSet></termEntry>
</body></text></martif>"""

VERSION_3 = """<?xml version="1.0"?>
<tbx type="TBX-Basic" style="dct" xml:lang="en" xmlns="urn:iso:std:iso:30042:ed-2" xmlns:b="b">
<text><body><conceptEntry id="1">
 <langSec xml:lang="en"><termSec><term>house</term></termSec></langSec>
 <langSec xml:lang="en-GB"><termSec><term>British house</term></termSec></langSec>
 <langSec xml:lang="de"><termSec><term>Heim</term><b:administrativeStatus>deprecatedTerm</b:administrativeStatus>
  </termSec><termSec><term>Haus</term></termSec></langSec>
</conceptEntry>
<conceptEntry><langSec xml:lang="en"><termSec><term>house</term></termSec></langSec>
 <langSec xml:lang="de"><termSec><term>{}</term></termSec></langSec></conceptEntry>
</body></text></tbx>"""


def test_tbx(tmp_path: Path) -> None:
    path = tmp_path / "t.tbx"
    assert loaded(path, VERSION_2.encode("latin-1")) == {"the dry dock": ["Döck", "Dock|1"]}
    assert loaded(path, VERSION_2.encode("latin-1"), LanguagePair("fr", "de")) == {"cale": ["Döck", "Dock|1"]}
    assert loaded(tmp_path / "t.xml", VERSION_3.format("Haus")) == {"house": ["Haus"]}
    assert Glossary.load(tmp_path / "t.xml", PAIR).terms[0].sources == ("house",), "not the British one"
    with pytest.raises(NmtError, match=r"t\.tbx:9: 'house' has two translations, 'Haus' and 'Villa'.* line 3\)$"):
        loaded(path, VERSION_3.format("Villa"))
    with pytest.raises(NmtError, match=r"no concept has both en and ja: its languages are de, en, en-GB$"):
        loaded(path, VERSION_3.format("Haus"), LanguagePair("en", "ja"))
    with pytest.raises(NmtError, match="the languages to translate are not known"):
        loaded(path, VERSION_3, None)
