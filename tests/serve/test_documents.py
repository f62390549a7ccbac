"""Documents sent to /translate_file, and the files at /download_file."""

import errno
import gzip
import io
import json
import logging
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.services import LINES, Answer, Gated, Service, service, until
from hypothesis import given
from hypothesis import strategies as st

from nmt.documents.opened import OpenedDocument
from nmt.documents.process import FILE_FORMATS
from nmt.serve import documents, fields
from nmt.serve.fields import Received, RequestError, Upload, read_upload
from nmt.serve.requests import Limits

pytestmark = pytest.mark.usefixtures("time_limit")

KIND = "multipart/form-data; boundary=----Boundary7"
CUES = "".join(f"{i}\n00:00:{i:02},000 --> 00:00:{i:02},900\n{line}.\n\n" for i, line in enumerate(LINES[:9], start=1))


def form(file: bytes | None, name: str = "a.txt", **others: str) -> bytes:
    """As browsers, curl and Python's requests write it."""
    of_text = {"source": "en", "target": "de", "api_key": ""} | others
    parts = [f'name="{field}"\r\n\r\n{value}'.encode() for field, value in of_text.items()]
    if file is not None:
        parts.append(f'name="file"; filename="{name}"\r\nContent-Type: text/html\r\n\r\n'.encode() + file)
    start = b"------Boundary7\r\nContent-Disposition: form-data; "
    return b"".join(start + part + b"\r\n" for part in parts) + b"------Boundary7--\r\n"


def send(served: Service, file: bytes | None, name: str = "a.txt", **others: str) -> Answer:
    return served.post_bytes(form(file, name, **others), KIND, "/translate_file")


def fetched(served: Service, answer: Answer) -> Answer:
    assert answer.status == 200, answer.body
    url, here = answer.json["translatedFileUrl"], f"http://127.0.0.1:{served.port}/download_file/"
    assert url.startswith(here)
    return served.get(url.removeprefix(here.removesuffix("/download_file/")))


def docx(document: bytes) -> bytes:
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>'
    )
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_rels/.rels", relations)
        archive.writestr("word/document.xml", document)
    return written.getvalue()


def word(paragraphs: str, declaration: str = "") -> bytes:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    return f'{declaration}<w:document xmlns:w="{space}"><w:body>{paragraphs}</w:body></w:document>'.encode()


LOOKS = "<w:p><w:r><w:t>one </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>two</w:t></w:r></w:p>"
RUNS = "".join(f"<w:p><w:r><w:t>{line}</w:t></w:r></w:p>" for line in LINES[:5])
KEEP = ("Q[0-9]+",)  # of the model
MARKED = "one two <b>__NAME__</b> three <i>Q7</i> four"  # what the document keeps, and the model
DOCUMENTS = {
    "film.srt": CUES.encode(),
    "a.json": json.dumps({line: f"{line} {{name}} {line}" for line in LINES[:7]} | {"a": MARKED}).encode(),
    "Seite.HTML": b"<p>one <b>two</b> three.</p><p>four</p><p><i>five</i> six</p>",
    "Überblick.docx": docx(word(RUNS + LOOKS)),
    "a.xlf": b"<xliff version='2.0'><unit>%b</unit></xliff>"
    % b"".join(b"<segment><source>%d x</source></segment>" % i for i in range(3)),
    "notes.txt": "one two\r\n\r\n  three\r\n12\r\nüber".encode(),
}  # fmt: skip


def as_nmt_translate(translator: Gated, name: str, content: bytes) -> bytes:
    path = Path(name)
    document = OpenedDocument.of(content, path, FILE_FORMATS[path.suffix.lower()], language="en", target_language="de")
    translator.decoding = replace(translator.decoding, keep=(*KEEP, *document.keep))
    return document.with_lines([json.dumps(line) for line in translator.with_tags(document.marked_lines)], path)


@pytest.fixture(scope="module")
def parted() -> Iterator[tuple[Service, Gated, Limits]]:
    """A service that translates documents in small parts."""
    translator, limits = Gated(keep=KEEP), Limits(lines=2, characters=60, waiting=2)
    with service(translator, limits) as (served, _):
        yield served, translator, limits


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_comes_back_as_nmt_translate_writes_it(name: str, parted: tuple[Service, Gated, Limits]) -> None:
    """Also in parts, and whatever the name of the file."""
    served, translator, limits = parted
    translator.calls.clear()
    answer = fetched(served, send(served, DOCUMENTS[name], f"../ä ö/{name}"))
    assert len(translator.calls) > 1
    assert all(
        len(lines) <= limits.lines and sum(map(len, lines)) <= limits.characters for lines, _ in translator.calls
    )
    stem, _, ending = name.rpartition(".")
    saved = f'filename="{stem}.de.{ending}"' if name.isascii() else "filename*=utf-8''%C3%9Cberblick.de.docx"
    assert answer.headers["content-disposition"] == f"attachment; {saved}"
    assert answer.headers["content-type"] == "application/octet-stream"
    expected = as_nmt_translate(Gated(), name, DOCUMENTS[name])
    assert answer.body == expected != DOCUMENTS[name]
    if name == "a.json":
        assert answer.body.count(b"{name}") == 7 and b"one {name} one" not in answer.body
        assert b"<b>__NAME__</b> <i>Q7</i>" in answer.body


def test_clients_are_told_what_they_can_send() -> None:
    with service(Gated()) as (served, _):
        settings = served.get("/frontend/settings").json
        assert settings["filesTranslation"] and {".srt", ".docx", ".txt"} < set(settings["supportedFilesFormat"])
        detected = send(served, b"The dog runs.", source="auto").json["detectedLanguage"]
        assert detected["language"] == "en"
    with service(Gated(), Limits(file=0)) as (served, _):
        settings = served.get("/frontend/settings").json
        assert (settings["filesTranslation"], settings["supportedFilesFormat"]) == (False, [])
        assert (answer := send(served, b"one")).status == 403 and "translates no files" in answer.json["error"]
        assert served.get("/download_file/a").status == 404


def test_what_stays_as_it_was_is_said_to_the_client_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Not to the log: texts are nobody's business."""
    caplog.set_level(logging.INFO)
    with service(Gated(), log_requests=True) as (served, _):
        answer = send(served, b'msgid "one"\nmsgstr "secret"\n\nmsgid "two"\nmsgstr ""\n', "a.po")
        assert fetched(served, answer).body.startswith(b'msgid "one"\nmsgstr "secret"\n')
        assert [note.partition(" as before")[0] for note in answer.json["notes"]] == [
            "a.de.po: 1 text has a translation and stays"
        ]
        assert "notes" not in send(served, b"one").json
        assert send(served, b"12").json["notes"] == ["a.txt: no text to translate was found: the output is the same"]
    assert not [message for message in caplog.messages if "a.po" in message or "a.txt" in message]


def test_others_get_their_turn_between_the_parts_of_a_document() -> None:
    translator = Gated()
    with service(translator, Limits(lines=2)) as (served, queue), ThreadPoolExecutor(2) as pool:
        translator.gate.clear()
        document = pool.submit(send, served, CUES.encode(), "a.srt")
        assert translator.inside.wait(30)
        other = pool.submit(served.post, {"text": "other"})
        until(lambda: queue.waiting == 1)
        translator.gate.set()
        assert [other.result(30).status, document.result(30).status] == [200, 200]
    assert [lines == ["other"] for lines, _ in translator.calls].index(True) == 1
    assert len(translator.calls) == 6


def test_a_document_waits_where_the_queue_is_full() -> None:
    translator = Gated()
    with service(translator, Limits(lines=2, waiting=2)) as (served, queue), ThreadPoolExecutor(3) as pool:
        translator.gate.clear()
        first = pool.submit(served.post, {"text": "one"})
        assert translator.inside.wait(30)
        second = pool.submit(served.post, {"text": ["two", "six"]})
        until(lambda: queue.waiting == 2)
        document = pool.submit(send, served, b"ten\nfour")
        assert served.post({"text": "ten"}).status == 429
        translator.gate.set()
        assert [each.result(30).status for each in (first, second, document)] == [200] * 3


def test_who_has_gone_is_not_translated_for() -> None:
    translator = Gated()
    with service(translator, Limits(lines=2)) as (served, _):
        translator.gate.clear()
        gone = served.connect()
        gone.request("POST", "/translate_file", form(CUES.encode(), "a.srt"), {"Content-Type": KIND})
        assert translator.inside.wait(30)
        gone.close()
        until(lambda: b'path="/translate_file",status="499"} 1' in served.get("/metrics").body)
        translator.gate.set()
        assert served.post({"text": "one"}).status == 200
    assert len(translator.calls) == 2


def test_no_document_is_translated_for_a_service_that_stops() -> None:
    """Nobody could fetch it."""
    translator = Gated()
    translator.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        with service(translator) as (served, _):
            answer = pool.submit(send, served, b"ten")
            assert translator.inside.wait(30)
            pool.submit(lambda: (until(lambda: is_refused(served)), translator.gate.set()))
        stopped = {"error": "the service is stopped before the answer is ready"}
        assert (answer.result(20).status, answer.result().json) == (503, stopped)


def test_what_is_left_as_it_is_is_said_in_the_answer_alone(capfd: pytest.CaptureFixture[str]) -> None:
    with service(Gated()) as (served, _):
        answer = send(served, b'{"a": "one",\n"b": "ten {n, plural, x"}', "a.json")
    why = "it is an ICU message that is not well formed: 'ten {n, plural, x'"
    assert answer.json["notes"] == [f"a.json: line 2: left as it is, since {why}"]
    assert "ten" not in capfd.readouterr().err


def is_refused(served: Service) -> bool:
    try:
        served.get("/health")
    except OSError:
        return True
    return False


def test_translated_files_are_private_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After half an hour, at the end, and the oldest where they are too many."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(documents, "_MOST_KEPT", 2)
    text = b"<p translate='no'>%s</p>" % (b"a" * 500)  # not translated: it stays as long
    with service(Gated(), Limits(file=600)) as (served, _):
        answers = [send(served, text, "a.html") for _ in range(3)]
        assert [fetched(served, answer).status for answer in answers] == [404, 200, 200]
        [folder] = tmp_path.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and len([*folder.iterdir()]) == 2
        names = [answer.json["translatedFileUrl"].rpartition("/")[2] for answer in answers]
        assert all(re.fullmatch(r"[\w-]{40,}\.html", name) for name in names) and len(set(names)) == 3
        (tmp_path / "secret").write_text("secret")
        for path in ("../secret", "..%2fsecret", str(tmp_path / "secret"), ".", folder.name):
            assert served.get(f"/download_file/{path}").status == 404
        (tmp_path / "secret").unlink()
        monkeypatch.setattr(documents, "_SECONDS_KEPT", 0.1)
        short = send(served, text[:100], "a.html")
        until(lambda: fetched(served, short).status == 404)
    assert not [*tmp_path.iterdir()]


def test_what_cannot_be_stored_is_refused_and_nothing_is_removed_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(documents, "_MOST_KEPT", 1)

    def write_on_a_full_disk(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[:5])
            raise OSError(errno.ENOSPC, "No space left on device")

    with service(Gated(), Limits(file=600)) as (served, _):
        first = send(served, b"one", "a.txt")
        answer = send(served, b"two\nsix\n" * 70, "b.txt")
        assert (answer.status, len(fetched(served, first).body)) == (507, 9)
        assert answer.json == {
            "error": "b.de.txt: the translated file is larger than 0.000572205 MiB, which is for all translated files: "
            "send a smaller file"
        }
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", write_on_a_full_disk)
            answer = send(served, b"two", "b.txt")
        assert (answer.status, answer.json) == (
            507,
            {"error": "b.de.txt: the translated file cannot be stored: No space left on device: try again later"},
        )
        [folder] = tmp_path.iterdir()
        assert len([*folder.iterdir()]) == 1 and fetched(served, first).body == b"ccccccccc"
        assert fetched(served, send(served, b"two", "b.txt")).status == 200


def test_what_is_wrong_is_said_in_a_line(caplog: pytest.LogCaptureFixture) -> None:
    laughs = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 9}">' for i in range(1, 9))
    entities = word("<w:p><w:r><w:t>&a8;</w:t></w:r></w:p>", f'<!DOCTYPE a [<!ENTITY a0 "a">{laughs}]>')
    whole = form(b"one")
    cases: list[tuple[bytes, int, str]] = [
        (form(None), 400, "Invalid request: missing file parameter"),
        (form(b"one", target=""), 400, "Invalid request: missing target parameter"),
        (form(b"one", source="fr"), 400, "source: fr is not supported: this model's source is en"),
        (form(b"one", "a.pdf"), 400, "a.pdf: this format is not supported: send .srt, "),
        (form(b"one", "a\tb.json"), 400, "a_b.json: not JSON"),
        (form(b"\xff\xfe\xff", "a.txt"), 400, "a.txt: "),
        (form(b"a" * 20_001), 413, "20001 characters in one text of a.txt, more than 20000: split the text into"),
        (form(b"a\n" * 70_000), 413, "the file has more than 0.125 MiB"),
        (form(b"a\n" * 100_000), 413, "the body has more than"),
        (whole[:-20], 400, "the body is not complete and valid multipart/form-data"),
        (whole + whole, 400, "the body is not complete and valid multipart/form-data"),
        (b"", 400, "the body is not complete and valid multipart/form-data"),
        (form(b"one", **{f"f{i}": "" for i in range(20)}), 400, "of at most 16 fields"),
        (form(b"one", f'a.txt"; {";" * 5000}'), 400, "a header has more than 2000 characters"),
        (form(b"PK", "a.docx"), 400, "a.docx: not a "),
        (form(docx(entities), "a.docx"), 400, "declares entities"),
        (form(docx(word(RUNS + " " * 2_000_000)), "a.docx"), 400, "when unpacked"),
    ]
    with service(Gated(), Limits(file=2**17)) as (served, _):
        for body, status, words in cases:
            answer = served.post_bytes(body, KIND, "/translate_file")
            assert (answer.status, list(answer.json)) == (status, ["error"]), words
            assert words in answer.json["error"] and "\n" not in answer.json["error"]
        bomb = gzip.compress(b"a" * 1_000_000)
        for kind, of, status in (("text/plain", {}, 415), (KIND, {"Content-Encoding": "gzip"}, 413),
                                 (KIND, {"Origin": "http://evil.example"}, 403)):  # fmt: skip
            assert served.post_bytes(bomb, kind, "/translate_file", **of).status == status
        nested = send(served, b"<b>" * 20_000 + b"one" + b"</b>" * 2000, "a.html")
        assert nested.status in (200, 400)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@given(content=st.lists(st.sampled_from([b"\r", b"\n", b"-", b"------Boundary", b"6", b"\0", b"\xff"])).map(b"".join))
def test_a_file_is_read_byte_for_byte(content: bytes) -> None:
    """Whatever looks as the end of a part and is none."""
    named, upload = read_upload(Received(form(content, "ä.docx"), KIND), limit=10_000)
    assert (named["source"], upload) == ("en", Upload("ä.docx", content))


def test_names_of_files_as_clients_write_them() -> None:
    start, end = b'--B\r\nContent-Disposition: form-data; name="file"; ', b"\r\n\r\none\r\n--B--\r\n"
    for written in ('filename="ä.txt"', "filename*=utf-8''%C3%A4.txt", "filename=ä.txt"):
        _, upload = read_upload(Received(start + written.encode() + end, 'multipart/form-data; boundary="B"'), 1000)
        assert upload == Upload("ä.txt", b"one")
    for body in (start + b"\xff" + end, b'--B\r\nA: b; name="file"' + end, b"--B\r\n\r\none\r\n--B--"):
        try:
            assert read_upload(Received(body, "multipart/form-data; boundary=B"), 1000)[1] is None
        except RequestError as error:
            assert error.status == 400


def test_heads_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """`email` reads them in time that grows with their square."""
    with pytest.raises(RequestError, match=f"more than {fields._LONGEST_HEAD} characters"):
        read_upload(Received(b"", f"multipart/form-data; {'a;' * 2000}"), 1000)
