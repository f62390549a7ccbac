"""A file translated to a file, by one process or several: nothing is lost, and what was killed goes on."""

import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import commands, faults
from helpers.model_files import make_checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.commands import file_job, translate
from nmt.commands.file_job import FileJob
from nmt.commands.output_format import OutputFormat
from nmt.commands.translate import run_job
from nmt.decoding import chunks
from nmt.decoding.chunks import LineCounts, chunked
from nmt.decoding.translator import Translator
from nmt.distributed import launch as launching
from nmt.distributed.environment import FILE_JOB
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.text import lines_out, read_lines, survey
from nmt.loading.opened_model import open_model

HOSTILE = [
    "", "   ", "x" * 1_500, "👩‍👩‍👧 😀", "a\x00b\x01\x1f\x7f", "مرحبا بالعالم. שלום", "a\u2028b\u2029c\x85d\x0be\x0cf",
    "a\rb", "\r", "é" * 300, "好" * 400, "\u202eevil", "one. two! " * 60, "\u2585 ▁", "\t tab \t", "\ufffd", "last",
]  # fmt: skip
TWO = ("--nproc-per-node", "2")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that says something else to almost every line."""
    from helpers.runs import config_text

    from nmt.config import schema

    folder = tmp_path_factory.mktemp("model")
    text = config_text(folder, folder / "run").replace("d_model: 32, feed_forward: 64", "d_model: 16, feed_forward: 16")
    text = text.replace("decoding: {beam_size: 2}", "decoding: {beam_size: 2, max_extra_tokens: 0}")
    model_file.save(folder / "tiny.safetensors", make_checkpoint(schema.parse(text, "test")))
    return folder / "tiny.safetensors"


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return open_model(model).translator("cpu")


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "nmt", "translate", *map(str, arguments)]


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    done = commands.run("translate", *arguments)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@settings(max_examples=15, deadline=None)
@given(
    lines=st.lists(
        st.sampled_from(HOSTILE[3:9]) | st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=9),
        max_size=30,
    ),
    chunk_lines=st.integers(1, 7),
    processes=st.integers(1, 3),
)
def test_any_lines_in_any_chunks_keep_their_order(
    lines: list[str], chunk_lines: int, processes: int, translator: Translator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("job")
    source = write(folder / "in", lines)
    job = FileJob(source, folder / "out", "0" * 16, survey(source, {}), chunk_lines)
    with job.locked():
        for process in range(processes):
            job.translate(translator, echo, process, processes)
        counts, _ = job.finish()
    assert list(read_lines(folder / "out")) == [
        f"{n} {line}".rstrip() + "." for n, line in enumerate(read_lines(source), 1)
    ]
    assert counts == LineCounts(lines=len(lines))
    assert names(folder) == {"in", "out"}


def echo(
    translator: Translator, lines: Iterable[str], chunk_lines: int, first: int, prefixes: object, read_ahead: bool
) -> Iterator[str]:
    for chunk in chunked(lines, chunk_lines):
        translator.counts.lines += len(chunk)
        yield from (f"{number} {line}".rstrip() + "." for number, line in enumerate(chunk, first))
        first += len(chunk)


def test_each_chunk_has_its_own_counts_and_numbers(translator: Translator, tmp_path: Path) -> None:
    """Also where chunks between them were translated before, and though the next is begun before one is complete."""
    lines = ["one", "", "two", "three", "", "", "four", "five", "six", "", "seven", "", "eight"]
    job = FileJob(write(tmp_path / "in", lines), tmp_path / "out", "0" * 16, len(lines), 2)
    done, processes = (0, 3, 5), 2
    texts = OutputFormat(n_best=1).texts
    with job.locked():
        for process in range(processes):
            job.translate(translator, texts, process, processes)
        whole = {path: path.read_text() for path in job.folder.glob("[0-9]*-*")}
        kept = {path for path in whole if (int(path.name.partition("-")[0]) - 1) // 2 in done}
        for path in whole.keys() - kept:
            path.unlink()
        for process in range(processes):
            job.translate(translator, texts, process, processes)
        assert {path: path.read_text() for path in job.folder.glob("[0-9]*-*")} == whole
        job.finish()
    for number, chunk in enumerate(chunked(lines, 2)):
        header, *rows = whole[job.folder / f"{2 * number + 1}-{2 * number + len(chunk)}"].split("\n")[:-1]
        assert LineCounts(**json.loads(header)["counts"]) == LineCounts(lines=len(chunk), empty=chunk.count(""))
        assert [int(row.partition("\t")[0]) for row in rows] == [2 * number + 1 + at for at in range(len(chunk))]
    plain = list(translator.stream(lines, 2))
    assert [line.split("\t")[2] for line in read_lines(tmp_path / "out")] == plain


def test_the_next_chunk_is_begun_before_one_is_written(translator: Translator, tmp_path: Path) -> None:
    """And no more than that one: what is begun is lost if the command is killed."""
    job = FileJob(write(tmp_path / "in", list("abcdefg")), tmp_path / "out", "0" * 16, 7, 2)
    written = []
    with job.locked(), pytest.MonkeyPatch.context() as patch:
        begin = translator.engine.begin_search

        def begin_search(*given: Any) -> Any:
            written.append(len(list(job.folder.glob("[0-9]*-*"))))
            return begin(*given)

        patch.setattr(translator.engine, "begin_search", begin_search)
        job.translate(translator, OutputFormat().texts)
    assert written == [0, 0, 1, 2]


def test_a_survey_counts_what_is_read(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed.gz"
    for text in ("", "\n", "a", "a\n", "a\r\nb\u2028", "a\r\nb\u2028\n", "\ufeff"):
        plain.write_bytes(text.encode())
        packed.write_bytes(gzip.compress(text.encode()))
        assert survey(plain, {}) == survey(packed, {}) == len(list(read_lines(plain)))


@pytest.mark.parametrize("many", [pytest.param((), marks=pytest.mark.thorough), TWO])
def test_killed_and_run_again_it_gives_the_same_text(
    model: Path, translator: Translator, tmp_path: Path, many: tuple[str, ...]
) -> None:
    """Killed as soon as there is a chunk; what was there is not translated again."""
    lines = [" ".join(words) for words in itertools.permutations(("one", "two", "three", "four", "five", "six"))] * 8
    source = write(tmp_path / "in", lines)
    process = commands.Started("translate", model, source, "--output", tmp_path / "out", *many)
    end = time.monotonic() + 100
    while not (kept := sorted(tmp_path.glob(".out.*.part/*-[0-9]*0"))) and time.monotonic() < end:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.ended()
    assert kept and not (tmp_path / "out").exists()
    header, first, *rest = kept[0].read_text().split("\n")
    kept[0].write_text("\n".join([header, f"kept {first}", *rest]))
    done = run(model, source, "--output", tmp_path / "out", *many)
    assert done.returncode == 0 and "of 5,760 lines are translated: continuing" in done.stderr
    expected = translator.translate(lines[:720]) * 8
    expected[int(kept[0].name.partition("-")[0]) - 1] = f"kept {first}"
    assert list(read_lines(tmp_path / "out")) == expected
    assert names(tmp_path) == {"in", "out"}


def requested(model: Path, source: Path, output: Path, **more: Any) -> FileJob:
    request = translate.Request(model=model, source=source, output=output, **more)
    return translate.job_of(request, request.open_models())


@pytest.mark.parametrize(
    ("lines", "processes", "chunk_lines"),
    [(1, 1, 5_000), (900_000, 1, 16_000), (800, 4, 50)],
)
def test_chunks_are_a_small_share_of_a_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, processes: int, chunk_lines: int
) -> None:
    """They do not depend on the device, so that a job can be continued on another one."""
    monkeypatch.setattr(file_job, "survey", lambda path, digests: digests.setdefault(path, "text") and lines)
    source = write(tmp_path / "in", ["one"])
    jobs = [requested(model, source, tmp_path / "out", device=name, processes=processes) for name in ("cpu", "cuda")]
    assert [job.chunk_lines for job in jobs] == [chunk_lines] * 2 and jobs[0].key == jobs[1].key


def job_of(model: Path, folder: Path, name: str = "out", **options: object) -> FileJob:
    return FileJob.of({"model": [model]}, folder / "in", folder / name, options)


def test_what_is_half_written_is_not_continued_with_anything_else(
    model: Path, translator: Translator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "in", ["one", "two"])
    name = "KEY [0].txt"
    caplog.set_level("INFO", "nmt")
    old = job_of(model, tmp_path, name, beam_size=2)
    with old.locked():
        old.translate(translator, OutputFormat().texts)
    new = job_of(model, tmp_path, name, beam_size=3)
    with new.locked():
        assert "another model, input or options" in caplog.text
        assert "2 of 2 lines" not in caplog.text
        with pytest.raises(NmtError, match="another nmt is writing it"), new.locked():
            pass
        new.translate(translator, OutputFormat().texts)
        new.finish()
    assert names(tmp_path) == {"in", name}
    keys = {job_of(model, tmp_path, name).key, old.key, new.key}
    write(tmp_path / "in", ["one", "three"])
    assert len({*keys, job_of(model, tmp_path, name).key}) == 4


def test_hostile_lines_with_prefixes_come_out_one_for_one_from_one_process_and_two(model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in", HOSTILE)
    prefixes = write(tmp_path / "prefixes", ["", "", "zwei", "drei", *[""] * (len(HOSTILE) - 4)])
    extra = ("--prefixes", prefixes, "--format", "json", "--n-best", 2)
    for name, many in (("one", ()), ("two", TWO)):
        done = run(model, source, "--output", tmp_path / name, *extra, *many)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        said = commands.messages(done.stderr)
        assert said.count("\n") == 1 and "4 of 17 lines are longer than 256 subwords: split into" in said
    one, two = ([json.loads(row) for row in read_lines(tmp_path / name)] for name in ("one", "two"))
    assert [row["line"] for row in one] == list(range(1, 18))
    texts, others = ([[found["text"] for found in row["translations"]] for row in rows] for rows in (one, two))
    assert texts == others
    assert all(text.startswith("zwei") for text in texts[2]) and all(text.startswith("drei") for text in texts[3])
    # Batches are others in smaller chunks, and rounding depends on them.
    best, other = ([row["translations"][0]["score"] for row in rows] for rows in (one, two))
    assert best == pytest.approx(other, abs=1e-3)
    assert names(tmp_path) == {"in", "prefixes", "one", "two"}


def test_a_part_is_of_all_that_the_output_depends_on(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out, terms = write(tmp_path / "in", ["one"]), tmp_path / "out", write(tmp_path / "terms", ["one\teins"])
    alone = requested(model, source, out)
    together = requested(model, source, out, ensemble=[model])
    named = requested(model, source, out, glossary=terms)
    write(terms, ["one\tuno"])
    renamed = requested(model, source, out, glossary=terms)
    options = {"overrides": [], "format": asdict(OutputFormat())}
    begun = requested(model, source, out, prefixes=source)
    as_another = FileJob.of({"model": [model, terms], "glossary": []}, source, out, options)
    write(source, ["one", "two", "three"])
    longer, smaller = requested(model, source, out), requested(model, source, out, processes=2)
    assert longer.chunk_lines > smaller.chunk_lines == 1 and longer.key == requested(model, source, out).key
    monkeypatch.setattr(file_job, "__version__", "0.0.0")
    old = requested(model, source, out)
    keys = {job.key for job in (alone, together, named, renamed, begun, as_another, longer, smaller, old)}
    assert len(keys) == 9


def test_another_command_with_the_same_output_keeps_its_part(
    model: Path, translator: Translator, tmp_path: Path
) -> None:
    write(tmp_path / "in", ["one"])
    other, mine = job_of(model, tmp_path, n=1), job_of(model, tmp_path, n=2)
    other.folder.mkdir()
    with atomic.locked(other.folder), mine.locked():
        mine.translate(translator, OutputFormat().texts)
        mine.finish()
        assert other.folder.is_dir()


@pytest.mark.parametrize(
    ("changed", "other", "undone"),
    [
        ("in", ["three", "four"], True),
        ("in", ["one", "two", "three"], False),
        ("prefixes", ["three", "four"], False),
    ],
)
def test_an_input_that_changes_is_found(
    model: Path, translator: Translator, tmp_path: Path, changed: str, other: list[str], undone: bool
) -> None:
    """Between the key and the reading, to as many lines, fewer or more; even if it is as before when all is done."""
    source, prefixes = (write(tmp_path / name, ["one", "two"]) for name in ("in", "prefixes"))
    job = requested(model, source, tmp_path / "out", prefixes=prefixes if changed == "prefixes" else None)
    write(tmp_path / changed, other)
    with pytest.raises(NmtError, match="in: has changed while it was translated"), job.locked():
        job.translate(translator, OutputFormat().texts)
        if undone:
            write(tmp_path / changed, ["one", "two"])
        job.finish()
    assert not (tmp_path / "out").exists()
    if undone and len(other) == 2:
        assert names(tmp_path) == {"in", "prefixes"}, "what was made from other text is not kept"
    write(source, ["one", "two"])
    again = job_of(model, tmp_path)
    with again.locked():
        again.translate(translator, OutputFormat().texts)
        again.finish()
    assert list(read_lines(tmp_path / "out")) == translator.translate(["one", "two"])


def test_each_line_has_a_prefix(model: Path, tmp_path: Path) -> None:
    source, prefixes = write(tmp_path / "in", ["one", "two"]), write(tmp_path / "prefixes", ["a"] * 3)
    with pytest.raises(NmtError, match=r"prefixes: 3 lines, and .*in has 2: give a prefix for each line"):
        requested(model, source, tmp_path / "out", prefixes=prefixes)


def test_a_glossary_that_changes_before_it_is_loaded_is_found(
    model: Path, translator: Translator, tmp_path: Path
) -> None:
    source, terms = write(tmp_path / "in", ["one"]), write(tmp_path / "terms", ["one\teins"])
    job = requested(model, source, tmp_path / "out", glossary=terms)
    job.check_loaded(translator)
    write(terms, ["one\tuno"])
    with pytest.raises(NmtError, match="terms: has changed since the command was started"):
        job.check_loaded(translator)


def test_a_model_that_changes_before_it_is_loaded_is_found(model: Path, tmp_path: Path) -> None:
    source, mine = write(tmp_path / "in", ["one"]), tmp_path / "model.safetensors"
    mine.write_bytes(model.read_bytes())
    job, whole = requested(mine, source, tmp_path / "out"), model_file.load(model)

    def load(device: str) -> Translator:
        model_file.save(mine, replace(whole, provenance={"step": 7}))
        loaded = open_model(mine).translator(device)
        mine.write_bytes(model.read_bytes())  # as before, when the command looks again
        return loaded

    with pytest.raises(NmtError, match=r"model\.safetensors: has changed since the command was started"):
        run_job(job, load, OutputFormat().texts, "cpu", None)
    assert not (tmp_path / "out").exists()


def test_what_is_translated_is_not_translated_again(
    model: Path, translator: Translator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "in", ["one", "two"])
    caplog.set_level("INFO", "nmt")
    job = job_of(model, tmp_path)
    message = "out: 2 of 2 lines are translated: run the same command to continue"
    with pytest.raises(KeyboardInterrupt, match=message), job.locked():
        job.translate(translator, echo)
        raise KeyboardInterrupt
    with job.locked():
        job.translate(translator, lambda *_, **more: pytest.fail("again"))
        job.finish()
    assert list(read_lines(tmp_path / "out")) == ["1 one.", "2 two."]


def test_chunks_that_are_damaged_or_of_other_text_are_translated_again(
    model: Path, translator: Translator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = write(tmp_path / "in", ["one", "two", "three"])
    caplog.set_level("INFO", "nmt")
    job = replace(job_of(model, tmp_path), chunk_lines=1)
    with job.locked():
        write(source, ["one", "other"])  # and as before, when the command is run again
        job.translate(translator, echo)
        (job.folder / "3-3").write_text("half of a chu")
    write(source, ["one", "two", "three"])
    with job.locked():
        assert "1 of 3 lines are translated: continuing" in caplog.text
        job.translate(translator, echo)
        job.finish()
    assert list(read_lines(tmp_path / "out")) == ["1 one.", "2 two.", "3 three."]


def test_where_nothing_is_translated_nothing_is_left(model: Path, tmp_path: Path) -> None:
    write(tmp_path / "in", ["one"])
    with pytest.raises(NmtError, match="no such model"), job_of(model, tmp_path).locked():
        raise NmtError("no such model")
    assert names(tmp_path) == {"in"}


def test_very_long_lines_are_fewer_to_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHARACTERS", 2.5)
    monkeypatch.setattr(chunks, "CHUNK_LINES", 4)
    assert list(chunked(["abcd"] * 4 + ["a"] * 7, 4)) == [["abcd"] * 3, ["abcd", "a", "a", "a"], ["a"] * 4]
    texts = ["abcd"] * 5 + ["x" * 20, "a", "b"]
    job = FileJob(write(tmp_path / "in", texts), tmp_path / "out", "0" * 16, len(texts), 4)
    one: Any = SimpleNamespace(counts=LineCounts(), longest_part=None)
    with job.locked():
        job.translate(one, echo)
        job.finish()
    assert list(read_lines(tmp_path / "out")) == [f"{number} {text}." for number, text in enumerate(texts, 1)]


@pytest.mark.parametrize("status", [0, 1, 130])
def test_the_job_ends_as_its_ranks_do(
    model: Path, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    write(tmp_path / "in", ["one"])
    job, asked = job_of(model, tmp_path), []

    def launch(arguments: list[str], ranks: int, restarts: int) -> int:
        assert os.environ[FILE_JOB] == job.key
        asked.append((ranks, restarts > 0))
        job.translate(translator, echo)
        return status

    monkeypatch.setenv(FILE_JOB, "")
    monkeypatch.setattr(launching, "launch", launch)
    load: Any = None  # by the ranks
    if status == 130:
        with pytest.raises(KeyboardInterrupt):
            run_job(job, load, echo, "cpu", 2)
    else:
        assert run_job(job, load, echo, "cpu", 2) == status
    assert asked == [(2, True)] and (tmp_path / "out").exists() == (status == 0)


def test_a_rank_of_another_job_is_refused(
    model: Path, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in", ["one"])
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(FILE_JOB, "0" * 16)
    with pytest.raises(NmtError, match="the model or the input has changed since the job was started"):
        run_job(job_of(model, tmp_path), lambda _: translator, echo, "cpu", None)


def test_an_error_while_lines_are_written_leaves_the_old_output(tmp_path: Path) -> None:
    out = write(tmp_path / "out", ["old"])
    with pytest.raises(ZeroDivisionError), lines_out(out) as print_line:
        print_line("x" * 100_000)
        raise ZeroDivisionError
    assert out.read_text() == "old\n" and names(tmp_path) == {"out"}


@pytest.mark.thorough
def test_no_fault_at_the_end_loses_what_is_translated(
    model: Path, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call that writes fails in turn: the chunks stay until the output is there."""
    write(tmp_path / "in", ["one", "two"])
    job, out = job_of(model, tmp_path), tmp_path / "out"
    for at in itertools.count(1):
        out.unlink(missing_ok=True)
        with job.locked(), monkeypatch.context() as patch:
            job.translate(translator, echo)
            fault = faults.Faults(tmp_path, at)
            fault.install(patch.setattr)
            with suppress(NmtError):  # what cannot be removed is left
                job.finish()
            assert out.exists() or (job.folder / "1-2").exists(), fault.calls[-1]
            assert not out.exists() or list(read_lines(out)) == ["1 one.", "2 two."], fault.calls[-1]
        if len(fault.calls) < at:
            break
    assert at > 10


def test_a_folder_of_the_users_with_the_name_of_a_jobs_stays(
    model: Path, translator: Translator, tmp_path: Path
) -> None:
    write(tmp_path / "in", ["one"])
    job = job_of(model, tmp_path)
    theirs, half, another = (
        tmp_path / name
        for name in (".out.0123456789abcdef.part", ".out.fedcba9876543210.part", ".more.fedcba9876543210.part")
    )
    for folder in (theirs, half, another):
        folder.mkdir()
        (folder / "thesis").write_text("mine")
        (folder / "1-2000").touch()
    for folder in (half, another):
        (folder / atomic.LOCK).touch()
    with job.locked():
        job.translate(translator, OutputFormat().texts)
        job.finish()
    assert (theirs / "thesis").read_text() == (half / "thesis").read_text() == "mine"
    assert not (half / "1-2000").exists()
    assert (theirs / "1-2000").exists() and (another / "1-2000").exists(), "not of a job with this output"


@pytest.mark.thorough
def test_an_error_in_a_rank_ends_all_with_one_line(model: Path, tmp_path: Path) -> None:
    """Of the lines in the share of the second rank one is too long."""
    source = write(tmp_path / "in", [*["one"] * 40, "one " * 400, *["one"] * 39])
    done = run(model, source, "--output", tmp_path / "out", *TWO, "decoding.long_input=error")
    said = commands.messages(done.stderr)
    assert done.returncode == 1 and said.count("\n") == 1, said
    assert "subwords, more than decoding.max_source_tokens: 256" in said
    assert not (tmp_path / "out").exists()


def test_several_processes_need_files(model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in", ["one"])
    for arguments in [(), ("-",), (source,), (source, "--output", tmp_path / "out", "--line-by-line")]:
        done = CliRunner().invoke(app.app, ["translate", str(model), *map(str, arguments), *TWO])
        assert done.exit_code == 2 and names(tmp_path) == {"in"}


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_it_does_not_end_well(model: Path, tmp_path: Path, number: signal.Signals) -> None:
    source = write(tmp_path / "in", ["one two three four five six seven"] * 8_000)
    process = commands.Started("translate", model, source, "--output", tmp_path / "out", *TWO)
    end = time.monotonic() + 100
    while not list(tmp_path.glob(".out.*.part/*-[0-9]*00")) and time.monotonic() < end:
        time.sleep(0.002)
    process.send_signal(number)
    done = process.ended()
    assert done.returncode == 128 + number, done.stderr
    assert b"Traceback" not in done.stderr
    assert not (tmp_path / "out").exists() and list(tmp_path.glob(".out.*.part/*-[0-9]*"))


def test_devices_pipes_and_links_stay_what_they_are(model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in", ["one"])
    pipe, target, link = tmp_path / "pipe", tmp_path / "target", tmp_path / "link"
    os.mkfifo(pipe)
    target.write_text("old\n")
    link.symlink_to(target)
    with subprocess.Popen(command(model, source, "--output", pipe), stderr=-1) as writing:
        through_the_pipe = pipe.read_text()
    assert writing.returncode == 0 and not pipe.is_file()
    assert run(model, source, "--output", link).returncode == 0
    assert link.is_symlink() and target.read_text() == through_the_pipe != ""
    assert run(model, source, "--output", "/dev/null").returncode == 0
    assert not Path("/dev/null").is_file()
    for output, words in ((tmp_path, "a folder"), (tmp_path / "none" / "out", "no folder")):
        refused = CliRunner().invoke(app.app, ["translate", str(model), "--output", str(output)], input="one\n")
        assert refused.exit_code == 1 and words in refused.stderr


def test_a_job_that_begins_while_another_ends_keeps_its_folder(
    model: Path, translator: Translator, tmp_path: Path
) -> None:
    write(tmp_path / "in", ["one"])
    first, second = job_of(model, tmp_path), job_of(model, tmp_path)
    with ExitStack() as held:
        with first.locked():
            first.translate(translator, OutputFormat().texts)
            first.finish()
            held.enter_context(second.locked())
        second.translate(translator, OutputFormat().texts)
        second.finish()
    assert names(tmp_path) == {"in", "out"}
