"""The commands of docs/translation-memory.md compose: from two TMX files to models and whole documents."""

import json
import re
import zipfile
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from helpers.other_models import marian_folder
from helpers.page_commands import run_page
from typer.testing import CliRunner

from nmt.cli import app

ADJECTIVES = {"old": "vanha", "small": "pieni", "new": "uusi", "long": "iso", "good": "hyvin"}
NOUNS = {"house": "talo", "street": "katu", "invoice": "lasku", "letter": "kirje", "server": "palvelin"}
MEMORY = {
    f"The {adjective} {noun} has {i} rooms.": f"{ADJECTIVES[adjective]} {NOUNS[noun]} on {i}."
    for adjective, noun, i in product(ADJECTIVES, NOUNS, range(20))
}
UPDATE = {
    f"All {i} {noun}s stand near us.": f"kaikki {i} {NOUNS[noun]} on lassa." for noun, i in product(NOUNS, range(88))
}
PO = r"""# Comments stay.
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"

msgid "Save"
msgstr "Tallenna"

#, python-format
msgid "The server has sent %(n)d invoices."
msgstr ""
"""
XLIFF = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en"
target-language="fi" datatype="plaintext"><body>
<trans-unit id="1"><source>Pay the <g id="1">invoice</g> in {0} days.</source></trans-unit>
<trans-unit id="2"><source>Save</source><target>Tallenna</target></trans-unit>
</body></file></xliff>
"""
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
WORD = f"""<?xml version='1.0'?><w:document xmlns:w='{W}'><w:body><w:p><w:r><w:t>The server is old.</w:t></w:r></w:p>
<w:p><w:pPr><w:jc/></w:pPr><w:r><w:rPr><w:b/></w:rPr><w:t>Pay the invoice.</w:t></w:r></w:p></w:body></w:document>"""
RELATIONS = """<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'><Relationship
Id='m' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument'
Target='word/document.xml'/></Relationships>"""
FEW_STEPS = ["max_steps=2", "validate_every=2", "checkpoint_every=2", "warmup_steps=1"]


def test_the_commands_of_the_page_compose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files()
    results = run_page(
        "docs/translation-memory.md",
        added={"split": ["--pairs", "200"], "train": [f"training.{setting}" for setting in FEW_STEPS]},
        skipped=["pip ", "nmt serve", "nmt evaluate opus.safetensors runs/memory --test-set"],  # the last one: network
    )

    for pairs, folder in ((MEMORY, "memory"), (UPDATE, "update")):
        for language, texts in (("en", pairs.keys()), ("fi", pairs.values())):
            sets = [lines(f"data/{folder}/{name}.{language}") for name in ("train", "validation", "test")]
            assert sorted(chain(*sets)) == sorted(texts) and len(sets[1]) == len(sets[2]) == 200

    tables = [output for command, output in results if "--compare" in command]
    systems = [re.findall(r"^system \d  (\S+)", table, re.MULTILINE) for table in tables]
    assert systems == [["opus.safetensors", "runs/memory"], *[["runs/memory", "runs/update"]] * 2]

    check_documents()
    check_update()
    status = CliRunner().invoke(app.app, ["translate", "runs/update", "data/update/test.en", "--output", "test.fi"])
    assert status.exit_code == 0 and len(lines("test.fi")) == 200


def write_files() -> None:
    """The files that the page names, and the model at the path of its name on the hub."""
    folder = Path("Helsinki-NLP/opus-mt-en-fi")
    folder.mkdir(parents=True)
    marian_folder(folder)
    about = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**about, "target_lang": "fi"}))
    (folder / "generation_config.json").write_text(json.dumps({"num_beams": 2, "max_length": 16}))
    write_tmx("memory.tmx", MEMORY)
    write_tmx("update.tmx", UPDATE)
    Path("terms.tsv").write_text("invoice|invoices\tlasku|laskut\nserver\tpalvelin\n", encoding="utf-8")
    Path("app.po").write_text(PO, encoding="utf-8")
    Path("app.xliff").write_text(XLIFF, encoding="utf-8")
    with zipfile.ZipFile("handbook.docx", "w") as archive:
        archive.writestr("_rels/.rels", RELATIONS)
        archive.writestr("word/document.xml", WORD)
        archive.writestr("word/media/image1.png", b"\x89PNG")


def write_tmx(name: str, pairs: dict[str, str]) -> None:
    units = "\n".join(
        f"<tu><tuv xml:lang='en-US'><seg>{source}</seg></tuv><tuv xml:lang='fi-FI'><seg>{target}</seg></tuv></tu>"
        for source, target in pairs.items()
    )
    Path(name).write_text(f"<tmx version='1.4'><header/><body>\n{units}\n</body></tmx>", encoding="utf-8")


def check_documents() -> None:
    """Only texts without a translation have changed; each has one, with its placeholder and its note."""
    texts = [archive_texts(name) for name in ("handbook.docx", "handbook.fi.docx")]
    assert texts[0][1:] == texts[1][1:] and len(texts[0][0]) == len(texts[1][0]) == 2
    assert all(before != after for before, after in zip(texts[0][0], texts[1][0], strict=True))

    old, new = PO.splitlines(), lines("app.fi.po")
    assert new[:7] == old[:7] and re.fullmatch(r"# nmt: confidence \d\d?", new[7])
    assert new[8:10] == ["#, fuzzy, python-format", old[8]] and new[10].count("%(n)d") == 1

    units = [unit for unit in ElementTree.parse("app.fi.xliff").iter() if unit.tag.endswith("trans-unit")]
    target, kept = (unit.find("{*}target") for unit in units)
    assert target is not None and "".join(target.itertext()).count("{0}") == 1 and len(target) == 1
    assert units[0].find("{*}note") is not None and kept is not None and kept.text == "Tallenna"


def archive_texts(name: str) -> tuple[Sequence[str], list[str], bytes]:
    """The texts of the paragraphs, the names of all elements except runs, and another file of the archive."""
    with zipfile.ZipFile(name) as archive:
        document = ElementTree.fromstring(archive.read("word/document.xml"))
        paragraphs = ["".join(paragraph.itertext()) for paragraph in document.iter(f"{{{W}}}p")]
        tags = [element.tag for element in document.iter()]
        return paragraphs, tags, archive.read("word/media/image1.png")


def check_update() -> None:
    """The update reads as much old text as new text, and is scored on both sets."""
    corpora = yaml.safe_load(Path("update.yaml").read_text(encoding="utf-8"))["data"]["train"]
    assert [Path(corpus["source"]) for corpus in corpora] == [
        Path("data/update/train.en"),
        Path("data/memory/train.en"),
    ]
    assert corpora[0]["weight"] == corpora[1]["weight"]
    log = Path("runs/update/train.log").read_text(encoding="utf-8")
    assert re.search(r"mean of 2 sets", log)


def lines(name: str) -> list[str]:
    return Path(name).read_text(encoding="utf-8").splitlines()
