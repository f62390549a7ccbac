"""Documents sent to /translate_file, the processes that read them, and the files at /download_file."""

import errno
import io
import json
import logging
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from helpers.services import CALIBRATION, LINES, Answer, Gated, Service, service, until

from nmt.documents.file_formats import FILE_FORMATS
from nmt.documents.opened import OpenedDocument
from nmt.serve import document_process, documents
from nmt.serve.document_worker import encoded
from nmt.serve.requests import RequestLimits

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
    document = OpenedDocument.from_bytes(
        content, path, FILE_FORMATS[path.suffix.lower()], language="en", target_language="de"
    )
    translator.decoding = replace(translator.decoding, keep=(*KEEP, *document.keep))
    return document.with_lines(translator.with_tags(document.marked_lines), path)


@pytest.fixture(scope="module")
def parted() -> Iterator[tuple[Service, Gated, RequestLimits]]:
    """A service that translates documents in small parts."""
    translator, limits = Gated(keep=KEEP), RequestLimits(lines=2, characters=60, waiting=2)
    translator.calibration = CALIBRATION
    with service(translator, limits) as (served, _):
        yield served, translator, limits


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_comes_back_as_nmt_translate_writes_it(
    name: str, parted: tuple[Service, Gated, RequestLimits]
) -> None:
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
    with service(Gated(), RequestLimits(file=0)) as (served, _):
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
        [note] = answer.json["notes"]
        assert note.startswith("a.po: 1 text already has a translation, which nmt translate replaces only with --retr")
        notes = send(served, b"one", review_below="50", retranslate="true").json["notes"]
        assert notes == [f"{name}: unknown field, which is ignored" for name in ("review_below", "retranslate")]
        assert "notes" not in send(served, b"one").json
        assert send(served, b"12").json["notes"] == ["a.txt: no text to translate was found: the output is the same"]
    assert not [message for message in caplog.messages if "a.po" in message or "a.txt" in message]


def test_a_document_waits_its_turn_like_other_requests() -> None:
    """Others get theirs between its parts, and it waits where the queue is full."""
    translator = Gated()
    with service(translator, RequestLimits(lines=2, waiting=3)) as (served, queue), ThreadPoolExecutor(3) as pool:
        translator.gate.clear()
        document = pool.submit(send, served, CUES.encode(), "a.srt")
        assert translator.inside.wait(30)
        other = pool.submit(served.post, {"text": ["other", "other"]})
        until(lambda: queue.waiting == 2)
        second = pool.submit(send, served, b"ten\nfour")
        assert served.post({"text": ["ten", "ten"]}).status == 429
        translator.gate.set()
        assert [each.result(30).status for each in (other, document, second)] == [200] * 3
    assert [lines == ["other"] * 2 for lines, _ in translator.calls].index(True) == 1
    assert len(translator.calls) >= 6  # the second document may be translated with a part of the first


def test_who_has_gone_is_not_translated_for() -> None:
    translator = Gated()
    with service(translator, RequestLimits(lines=2)) as (served, _):
        translator.gate.clear()
        gone = served.connect()
        gone.request("POST", "/translate_file", form(CUES.encode(), "a.srt"), {"Content-Type": KIND})
        assert translator.inside.wait(30)
        gone.close()
        until(lambda: b'path="/translate_file",status="499"} 1' in served.get("/metrics").body)
        translator.gate.set()
        assert served.post({"text": "one"}).status == 200
    assert len(translator.calls) == 2


def test_too_many_files_at_a_time_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are in memory."""
    monkeypatch.setattr(documents, "_MOST_REQUESTS", 1)
    translator = Gated()
    with service(translator) as (served, _), ThreadPoolExecutor(1) as pool:
        translator.gate.clear()
        first = pool.submit(send, served, b"one")
        assert translator.inside.wait(30)
        refused = send(served, b"two")
        assert refused.status == 429 and int(refused.headers["retry-after"]) > 0
        translator.gate.set()
        assert first.result(30).status == send(served, b"two").status == 200


def is_gone(process: Path) -> bool:
    """Whether the process has ended that is the name of this file."""
    try:
        os.kill(int(process.name), 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("why", ["slow", "gone", "stopped"])
def test_a_document_that_hangs_is_ended(why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it takes too long, when its client has gone, and with the service."""
    # It writes its number into a folder, reads all, and answers nothing.
    script = f"import os, sys; open(os.path.join({str(tmp_path)!r}, str(os.getpid())), 'w'); sys.stdin.buffer.read()"
    monkeypatch.setattr(document_process, "COMMAND", (sys.executable, "-S", "-c", script))
    limits = RequestLimits(document_seconds=0.5 if why == "slow" else 60)
    with ThreadPoolExecutor(1) as pool:
        with service(Gated(), limits) as (served, _):
            client = served.connect()
            client.request("POST", "/translate_file", form(b"one"), {"Content-Type": KIND})
            if why == "slow":
                response = client.getresponse()
                assert (response.status, "takes more than 0.5 seconds" in json.load(response)["error"]) == (413, True)
            else:
                until(lambda: [*tmp_path.iterdir()])
                assert served.get("/health").status == 200
            answer = pool.submit(client.getresponse) if why == "stopped" else None
            if why == "gone":
                client.close()
                until(lambda: all(map(is_gone, tmp_path.iterdir())))
        assert answer is None or answer.result(20).status == 503
    assert all(map(is_gone, tmp_path.iterdir()))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("raise SystemExit(3)", "the process of a document ended with status 3"),
        ('input(); input(); print(\'{"failed": "Traceback: planted"}\\n\')', "Traceback: planted"),
    ],
)
def test_a_process_that_fails_is_a_defect_that_the_log_tells(
    script: str, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(document_process, "COMMAND", (sys.executable, "-S", "-c", script))
    with service(Gated()) as (served, _):
        assert send(served, b"one").status == 500
    assert reason in caplog.text


# The process of documents, which says a text in all ways; the document `hangs` takes so long that its 60 s end at once.
TALKS = """
import logging, signal, time, types, warnings
from nmt.serve import document_worker

def opened(content, path, *_, **__):
    for name in ("nmt", "nmt.texts", "another"):
        logging.getLogger(name).critical("SECRET")
    warnings.warn("SECRET")
    if path.stem == "fails":
        raise ValueError("planted")
    if path.stem == "hangs":
        signal.setitimer(signal.ITIMER_REAL, signal.getitimer(signal.ITIMER_REAL)[0] / 1e6)
        time.sleep(20)
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 50
    return types.SimpleNamespace(marked_lines=[], keep=[])

document_worker.OpenedDocument.from_bytes = opened
document_worker.main()
"""


def test_a_process_says_nothing_and_ends_only_with_its_server() -> None:
    """Which may be killed: then it ends after a limit of its own, while it works."""
    process = subprocess.Popen(
        [sys.executable, "-c", TALKS, "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    stdin, stdout = process.stdin, process.stdout

    def begin(name: str) -> None:
        stdin.write(encoded([{"read": f"{name}.txt", "content": "", "languages": ["", ""], "most_unpacked": 0}]))
        stdin.flush()

    def answer(name: str) -> list[Any]:
        begin(name)
        return [json.loads(line) for line in takewhile(bytes.strip, stdout)]

    try:
        assert answer("first") == [{"keep": []}]
        for stop in (signal.SIGINT, signal.SIGTERM):
            process.send_signal(stop)
        [failed] = answer("fails")
        assert "ValueError: planted" in failed["failed"] and answer("second") == [{"keep": []}]
        begin("hangs")
        assert process.communicate() == (b"", b"") and process.returncode == -signal.SIGALRM
    finally:
        process.kill()
        process.communicate()


def test_a_process_starts_quickly() -> None:
    """Without PyTorch, which takes seconds."""
    script = "import sys, nmt.serve.document_worker; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_translated_files_are_private_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After half an hour, at the end, and the oldest where they are too many."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(documents, "_MOST_KEPT", 2)
    text = b"<p translate='no'>%s</p>" % (b"a" * 500)  # not translated: it stays as long
    with service(Gated(), RequestLimits(file=600)) as (served, _):
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
        until(lambda: not (folder / short.json["translatedFileUrl"].rpartition("/")[2]).exists())
        assert fetched(served, short).status == 404
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

    with service(Gated(), RequestLimits(file=600)) as (served, _):
        first = send(served, b"one", "a.txt")
        answer = send(served, b"two\nsix\n" * 70, "b.txt")
        assert (answer.status, len(fetched(served, first).body)) == (507, 9)
        assert answer.json == {
            "error": "b.de.txt: the translated file is larger than 0.000572205 MiB, the limit for all translated "
            "files: send a smaller file"
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
        (form(b"one", source="fr"), 400, "source: fr is not supported: this model has en"),
        (form(b"one", "a.pdf"), 400, "a.pdf: this format is not supported: send .srt, "),
        (form(b"one", "a\tb.json"), 400, "a_b.json: not JSON"),
        (form(b"\xff\xfe\xff", "a.txt"), 400, "a.txt: "),
        (form(b"a" * 20_001), 413, "20001 characters in one text of a.txt, more than 20000: split the text into"),
        (form(b"a\n" * 70_000), 413, "the file has more than 0.125 MiB"),
        (whole[:-20], 400, ""),
        (whole[9:], 400, ""),
        (b"", 400, ""),
        (form(b"one", **{f"f{i}": "" for i in range(20)}), 400, "Maximum number of fields is 16"),
        (form(b"PK", "a.docx"), 400, "a.docx: not a "),
        (form(docx(entities), "a.docx"), 400, "declares the entity"),
        (form(docx(word(RUNS + " " * 2_000_000)), "a.docx"), 400, "when unpacked"),
    ]
    with service(Gated(), RequestLimits(file=2**17)) as (served, _):
        for body, status, words in cases:
            answer = served.post_bytes(body, KIND, "/translate_file")
            assert (answer.status, list(answer.json)) == (status, ["error"]), words
            assert words in answer.json["error"] and "\n" not in answer.json["error"]
        announced = {"Content-Type": KIND, "Content-Length": str(10**9)}  # and not sent
        answer = served.ask("POST", "/translate_file", b"", announced)
        assert answer.status == 413 and "the body has more than" in answer.json["error"]
        nested = send(served, b"<b>" * 20_000 + b"one" + b"</b>" * 2000, "a.html")
        assert nested.status in (200, 400)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
