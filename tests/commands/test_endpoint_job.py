"""nmt translate with an endpoint: what was answered is kept and never paid for twice, and the key is nowhere."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from helpers import commands, endpoints
from helpers.chat_server import Asked, Said, backwards, serving
from typer.testing import CliRunner

from nmt.cli import app
from nmt.commands import endpoint_job
from nmt.files.text import read_lines

KEY = "sk-planted-77c0"
LINES = [f"the house number {number} is very old" for number in range(400)]
REFUSAL = "I'm sorry, but I can't help with that."


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def run(*arguments: object, text: str = "") -> tuple[int, str, str]:
    """Exit status, standard output and standard error of nmt translate, in this process."""
    done = CliRunner().invoke(app.app, ["translate", *map(str, arguments)], input=text, env={"TEACHER_KEY": KEY})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def texts_in(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


def answers_in(folder: Path) -> int:
    """How many replies are kept in the folder of a job."""
    files = list(folder.glob(".out.nmt-part/*.replies"))
    return sum(path.read_bytes().count(b"\n") for path in files)


def wait_for_answers(folder: Path, number: int) -> None:
    end = time.monotonic() + 60
    while answers_in(folder) < number:
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.thorough)])
def test_killed_at_random_moments_it_asks_for_no_line_twice(tmp_path: Path, kills: int) -> None:
    """But for the requests that were open; and a reply that is half written is asked for again."""
    chance, lines = random.Random(kills), LINES[: 50 * kills]

    def behave(asked: Asked) -> Said:
        refused = asked.body["seed"] == 1 and "5 " in asked.line  # two requests for each of these lines
        return Said(REFUSAL if refused else backwards(asked.line), seconds=0.02)

    write(tmp_path / "in", lines)
    with serving(behave) as server:
        teacher = endpoints.write(tmp_path, server.address, "key: ${TEACHER_KEY}\nrequests: 4")
        for part in sorted(chance.sample(range(1, len(lines)), kills)):
            process = commands.Started(
                "translate", teacher, tmp_path / "in", "--output", tmp_path / "out", TEACHER_KEY=KEY
            )
            wait_for_answers(tmp_path, part)
            process.send_signal(signal.SIGKILL)
            process.ended()
            [replies] = tmp_path.glob(".out.nmt-part/*.replies")
            replies.write_bytes(replies.read_bytes() + b'{"line": 3, "requ')
            assert KEY not in texts_in(tmp_path).replace("${TEACHER_KEY}", "")
        status, _, said = run(teacher, tmp_path / "in", "--output", tmp_path / "out")
    assert status == 0 and "already answered: " in said
    assert list(read_lines(tmp_path / "out")) == list(map(backwards, lines))
    assert names(tmp_path) == {"in", "out", "teacher.yaml"}
    requests = Counter((asked.line, asked.body["seed"]) for asked in server.asked)
    assert set(requests) == {(line, 1) for line in lines} | {(line, 2) for line in lines if "5 " in line}
    assert sum(requests.values()) - len(requests) <= 4 * kills
    assert f"used: {len(requests)} requests" in said


def test_an_interrupted_job_says_how_to_continue(tmp_path: Path) -> None:
    write(tmp_path / "in", LINES)
    with serving() as server:
        teacher = endpoints.write(tmp_path, server.address, "requests: 4")
        process = commands.Started("translate", teacher, tmp_path / "in", "--output", tmp_path / "out")
        wait_for_answers(tmp_path, 150)
        process.send_signal(signal.SIGINT)
        done = process.ended()
    assert done.returncode == 130 and b"Traceback" not in done.stderr
    assert re.search(r"out: \d{3} of 400 lines are translated: run the same command to continue$", done.stderr.decode())
    assert not (tmp_path / "out").exists() and answers_in(tmp_path) >= 150


def test_the_limit_ends_a_job_that_can_be_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a chunk; what earlier commands used counts too. Another address, key or number of requests is
    the same job."""
    monkeypatch.setattr(endpoint_job, "CHUNK_LINES", 30)
    lines = LINES[:200]
    write(tmp_path / "in", lines)
    arguments = (tmp_path / "teacher.yaml", tmp_path / "in", "--output", tmp_path / "out")
    with serving() as server:
        endpoints.write(tmp_path, server.address, "limit: {tokens: 5000}\nprice: {input: 1, output: 2}")
        for _ in range(2):
            status, _, said = run(*arguments)
            assert (
                status == 1
                and "error: limit: reached: " in said
                and re.search(r"cost 0\.00\d+ were used: raise it", said)
                and "used: 4," in said
            )
            assert answers_in(tmp_path) and len(list(tmp_path.glob(".out.nmt-part/[0-9]*-*[0-9a-f]"))) > 2
        used = len(server.asked)
        assert 60 < used < len(lines)
    with serving() as server:
        endpoints.write(tmp_path, server.address, "limit: {tokens: 90000}\nkey: other\nrequests: 2")
        status, _, said = run(*arguments)
        assert status == 0 and len(server.asked) == len(lines) - used
    assert "forecast for all 200 lines: 00:" in said
    assert list(read_lines(tmp_path / "out")) == list(map(backwards, lines))


def test_lines_without_a_translation_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_job, "CHUNK_LINES", 4)
    lines = [*LINES[:20], "", "a\tb number 5 c\u2028d"]
    arguments = (write(tmp_path / "in", lines), "--output", tmp_path / "out")

    def behave(asked: Asked) -> Said:
        return Said(REFUSAL + "\t!" if "number 5 " in asked.line else backwards(asked.line))

    with serving(behave) as server:
        teacher = endpoints.write(tmp_path, server.address, "retries: 0")
        status, _, said = run(teacher, *arguments)
        assert status == 0
        expected = ["" if "number 5 " in line else backwards(line) for line in lines]
        assert list(read_lines(tmp_path / "out")) == expected
        assert f"2 of 22 lines have no good translation: 2 refusal: see {tmp_path}/out.rejected.tsv" in said
        heading, *rows = read_lines(tmp_path / "out.rejected.tsv")
        assert heading.split("\t") == ["line", "reason", "source", "answer"]
        assert [row.split("\t")[:3] for row in rows] == [
            ["6", "refusal", LINES[5]],
            ["22", "refusal", "a b number 5 c d"],
        ]
        assert all(row.split("\t")[3].startswith("I'm sorry") for row in rows)
        write(tmp_path / "in", LINES[:5])
        assert run(teacher, *arguments)[0] == 0 and not (tmp_path / "out.rejected.tsv").exists()
        terms = write(tmp_path / "x.rejected.tsv", ["house\tHaus"])
        status, _, said = run(teacher, tmp_path / "in", "--output", tmp_path / "x", "--glossary", terms)
        assert status == 1 and "x.rejected.tsv: is an input of this command" in said


def test_formats_with_samples(tmp_path: Path) -> None:
    lines = ["one two three four", "", "five six seven eight"]
    letters = "abc"

    def behave(asked: Asked) -> Said:
        return Said(f"{backwards(asked.line)} {letters[asked.before % 3]}", most=1)

    with serving(behave) as server:
        teacher = endpoints.write(tmp_path, server.address, "temperature: 1")
        status, rows, _ = run(teacher, write(tmp_path / "in", lines), "--n-best", "2")
        assert (status, rows) == (0, "".join(
            f"{row}\n" for row in ["1\teno owt eerht ruof a", "1\teno owt eerht ruof b", "2\t",
                                   "3\tevif xis neves thgie a", "3\tevif xis neves thgie b"]
        ))  # fmt: skip
        status, rows, _ = run(teacher, "--format", "json", "--line-by-line", text="one two three four\n\n")
        assert [json.loads(row) for row in rows.splitlines()] == [
            {"line": 1, "translations": [{"text": "eno owt eerht ruof c"}]},
            {"line": 2, "translations": [{"text": ""}]},
        ]


def test_prefixes_and_a_glossary_are_lines_of_the_prompt(tmp_path: Path) -> None:
    prefixes, terms = write(tmp_path / "p", ["", "Das"]), write(tmp_path / "g", ["house\tHaus"])
    extra = ("--prefixes", prefixes, "--glossary", terms)
    with serving() as server:
        teacher = endpoints.write(tmp_path, server.address)
        source = write(tmp_path / "in", ["the old tree", "the old house"])
        assert run(teacher, source, "--output", tmp_path / "out", *extra)[0] == 0
        asked = {asked.line: asked.body["messages"][-1]["content"] for asked in server.asked}
        assert "Use these" not in asked["the old tree"] and "Begin" not in asked["the old tree"]
        assert "house = Haus\nBegin the translation with: Das\n\nTranslate" in asked["the old house"]
    parts = 'messages: [{role: user, content: [{type: text, text: "{text}"}]}]'
    teacher = endpoints.write(tmp_path, server.address, parts)
    for option, file in (("--prefixes", prefixes), ("--glossary", terms)):
        status, _, said = run(teacher, source, option, file)
        assert status == 1 and f"error: {option}: cannot be added to `messages`" in said


def test_a_dry_run_sends_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "in", ["", *LINES])
    with serving() as server:
        teacher = endpoints.write(tmp_path, server.address, "key: ${TEACHER_KEY}\nprice: {input: 10, output: 100}")
        status, shown, said = run(teacher, source, "--output", tmp_path / "out", "--dry-run")
        assert not server.asked
    assert status == 0 and names(tmp_path) == {"in", "teacher.yaml"} and KEY not in shown + said
    *requests, forecast = shown.splitlines()
    assert [json.loads(body)["messages"][-1]["content"].split("\n")[-1] for body in requests] == LINES[:5]
    assert re.fullmatch(
        r"401 lines, \d+ requests: about 1\d,\d{3} tokens of requests and 3,\d{3} of answers, cost 0\.\d\d, .*",
        forecast,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scores",), "teacher.yaml: an endpoint has no --scores: leave it out"),
        (("--format", "tsv"), "an endpoint has no confidence for --format tsv and --order: leave it out"),
        (("--order", "confidence"), "an endpoint has no confidence for --format tsv and --order: leave it out"),
        (("--markup", "html"), "an endpoint has no --markup"),
        (("--ensemble", "x"), "an endpoint has no --ensemble"),
        (("--beam-size", "2"), "decoding.beam_size: an endpoint has only decoding.consensus, decoding.candidates"),
        (("--to", "fr"), "language 'fr': this model translates into de"),
        (("--n-best", "2"), "temperature: 0: all samples would be equal"),
        (("decoding.consensus=chrf",), "temperature: 0: all samples would be equal"),
        (("decoding.candidates=none",), "decoding.candidates"),
    ],
)
def test_what_an_endpoint_does_not_have_is_said_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    teacher = endpoints.write(tmp_path, "http://127.0.0.1:1/v1")
    status, _, said = run(teacher, write(tmp_path / "in", ["one"]), *arguments)
    assert status == 1 and message.replace("decoding.candidates", "candidates") in said.replace(
        "decoding.candidates", "candidates"
    )
    assert said.count("\n") == 1


def test_documents_are_for_models(tmp_path: Path) -> None:
    teacher = endpoints.write(tmp_path, "http://127.0.0.1:1/v1")
    source = write(tmp_path / "in.srt", ["1", "00:00:01,000 --> 00:00:02,000", "one", ""])
    status, _, said = run(teacher, source, "--output", tmp_path / "out.srt")
    assert status == 1 and "an endpoint translates lines of text" in said


def test_a_service_that_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    teacher = endpoints.write(tmp_path, "http://127.0.0.1:1/v1", "key: ${TEACHER_KEY}")
    source = write(tmp_path / "in", LINES)
    status, _, said = run(teacher, source, "--output", tmp_path / "out")
    assert status == 1 and "cannot be reached" in said and KEY not in said
    assert names(tmp_path) == {"in", "teacher.yaml"}


def test_no_pytorch_is_loaded(tmp_path: Path) -> None:
    """A process that only asks a service stays small."""
    program = "import sys; from nmt.cli.app import app; app(standalone_mode=False); assert 'torch' not in sys.modules"
    source = write(tmp_path / "in", LINES[:3])
    with serving() as server:
        teacher = endpoints.write(tmp_path, server.address)
        command = [sys.executable, "-c", program, "translate", teacher, source, "--output", tmp_path / "out"]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert len(list(read_lines(tmp_path / "out"))) == 3
