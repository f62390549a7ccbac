"""A document comes back as it was, with other text alone. All text here is made up."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.documents import DOCUMENTS, PO, read, upper
from helpers.model_files import make_checkpoint

from nmt.checkpoints import model_file
from nmt.commands.translate import translate
from nmt.commands.translation_job import TranslationJob
from nmt.config.schema import Config
from nmt.decoding.translator import Translator
from nmt.documents.encoding import decoded
from nmt.documents.file_formats import FORMATS, format_of
from nmt.errors import NmtError


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_all_but_the_text_stays(name: str, end: str) -> None:
    """Texts that stay give the same document; others change letters alone, besides what marks them as new."""
    content = DOCUMENTS[name].replace("\n", end)
    document = read(name, content)
    if name.endswith((".po", ".xliff", ".xlf")):
        new = document.translated(upper)
        again, count = read(name, new), sum(bool(segment.texts) for segment in document.segments)
        assert again.translated(lambda text: "") == new and again.existing == count + document.existing
        all_new = read(name, new, only_missing=False).translated(upper)
        assert read(name, all_new, only_missing=False).translated(upper) == all_new
    else:
        assert document.translated(lambda text: text.text) == content
        assert document.translated(upper).lower().split() == content.lower().split()


def bomb(count: int) -> str:
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, count))
    declared = f'<!DOCTYPE x [<!ENTITY e0 "x">{entities}]>'
    return f"{declared}<xliff><trans-unit><source>&e{count - 1};</source></trans-unit></xliff>"


HOSTILE = {
    "bomb.xliff": (bomb(10), "declares the entity &e0;"),
    "deep.xliff": (
        f"<xliff><trans-unit><source>{'<g>' * 100_000}{'</g>' * 100_000}</source></trans-unit></xliff>",
        "500",
    ),
    "cut.xliff": ("<xliff><trans-unit>", "not well-formed XML"),
    "deep.json": ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    "cut.json": ('{"a": ', "not JSON"),
    "lines.arb": ("one\ntwo", "not JSON.*; if it has lines of text: nmt translate MODEL < lines.arb"),
    "no.po": ('msgid "a"\nmsgtsr ""\n', "line 2"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_read_is_one_line(name: str) -> None:
    content, message = HOSTILE[name]
    with pytest.raises(NmtError, match=message) as error:
        read(name, content)
    assert len(str(error.value)) < 200 and name in str(error.value)


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize(
    "text",
    [
        *("x" + " " * 100_000 + "y", "<" * 100_000, "{\\" * 50_000, "<b> " * 25_000 + "x", "<!--<meta " * 25_000),
        *("x" + "<b>" * 50_000, "x " + "<b>" * 25_000 + "x" + "</i>" * 25_000 + "y", "x<b>\n" * 10_000),
    ],
)
def test_time_is_linear(text: str) -> None:
    times = "1\n00:00:01,000 --> 00:00:02,000\n"
    tables = {"a.srt": f"{times}{text}\n", "a.json": json.dumps([text, "{n, plural, other {" * 20_000 + text])}
    for name, content in {**tables, "a.po": f'msgid {json.dumps(text)}\nmsgstr ""\n'}.items():
        assert read(name, content).translated(lambda each: each.text)
        declaration = FORMATS[Path(name).suffix].declaration
        assert decoded(content.encode(), Path(name), declaration or FORMATS[".html"].declaration)


@pytest.mark.parametrize("name", ["a.srt", "a.po", "a.xliff", "b.xlf", "a.arb", "a.html"])
def test_command(name: str, make_config: Callable[..., Config], tmp_path: Path) -> None:
    """By an untrained model: markup, placeholders and what is around the texts are right nevertheless."""
    model, source, output = tmp_path / "model", tmp_path / name, tmp_path / f"out-{name}"
    model_file.save(model, make_checkpoint(make_config("decoding.max_extra_tokens=3")))
    source.write_bytes(b"\xef\xbb\xbf" + DOCUMENTS[name].encode())
    assert translate(TranslationJob(model=model, source=source, output=output)) == 0
    new = output.read_bytes().decode("utf-8-sig")
    assert output.read_bytes().startswith(b"\xef\xbb\xbf") and new != DOCUMENTS[name]
    items = re.compile(r"<[^<>]*>|\{name\}|\{who\}|#|-->|\"@a\": .*|[#]~.*|KEPT")
    added = r'fuzzy|#, |<target[^<>]*>|</target>|<source>.*?</source>|msgid(_plural)? .*(\n".*)*'
    old_items, new_items = (items.findall(re.sub(added, "", text)) for text in (DOCUMENTS[name], new))
    if name == "b.xlf":
        assert '<xliff version="2.0" trgLang="de">' in new and read(name, new).existing == 1
    elif format_of(source) not in (FORMATS[".po"], FORMATS[".xliff"]):
        assert sorted(new_items) == sorted(old_items)
    else:
        assert read(name, new).existing == 3 and "KEPT" in new_items


def test_an_interrupted_document_leaves_the_old_output(
    make_config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> list[str]:
        raise KeyboardInterrupt

    model, source, output = tmp_path / "model", tmp_path / "a.html", tmp_path / "out.html"
    model_file.save(model, make_checkpoint(make_config("decoding.max_extra_tokens=3")))
    source.write_text("<p>one <b>two</b><p>three")
    output.write_text("old")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Translator, "with_tags", interrupted)
        translate(TranslationJob(model=model, source=source, output=output))
    assert output.read_text() == "old" and set(tmp_path.iterdir()) == {model, source, output}
    assert translate(TranslationJob(model=model, source=source, output=output)) == 0
    assert output.read_text() != "old" and set(tmp_path.iterdir()) == {model, source, output}


def test_what_documents_do_not_take(make_config: Callable[..., Config], tmp_path: Path) -> None:
    model, source = tmp_path / "model", tmp_path / "a.po"
    source.write_text(PO)
    with pytest.raises(NmtError, match=r"a PO file: add --output FILE"):
        translate(TranslationJob(model=model, source=source))
    for more in ({"line_by_line": True}, {"processes": 2}):
        with pytest.raises(NmtError, match="translated as a whole: leave out"):
            translate(TranslationJob(model=model, source=source, output=tmp_path / "out.po", **more))
