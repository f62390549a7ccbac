"""A file translated to a file, by one process or several: nothing is lost, and what was killed goes on."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import commands
from helpers.model_files import make_checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.commands import file_job, translate
from nmt.commands.file_job import FileJob
from nmt.commands.output_format import OutputFormat
from nmt.commands.translation_job import TranslationJob
from nmt.decoding.chunks import LineCounts
from nmt.decoding.translator import Translator
from nmt.distributed import launch as launching
from nmt.distributed.environment import FILE_JOB
from nmt.errors import NmtError
from nmt.files.text import read_lines
from nmt.loading.opened_model import open_model

HOSTILE = [
    "", "   ", "x" * 1_500, "👩‍👩‍👧 😀", "a\x00b\x01\x1f\x7f", "مرحبا بالعالم. שלום", "a\u2028b\u2029c\x85d\x0be\x0cf",
    "a\rb", "\r", "é" * 300, "好" * 400, "\u202eevil", "one. two! " * 60, "\u2585 ▁", "\t tab \t", "\ufffd", "last",
]  # fmt: skip
TWO = ("--nproc-per-node", "2")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that says something else to almost every line. With PyTorch, which hardly depends on the batch."""
    from helpers.runs import config_text

    from nmt.config import schema

    folder = tmp_path_factory.mktemp("model")
    text = config_text(folder, folder / "run").replace("d_model: 32, feed_forward: 64", "d_model: 16, feed_forward: 16")
    text = text.replace("decoding: {beam_size: 2}", "decoding: {beam_size: 2, max_extra_tokens: 0, engine: torch}")
    model_file.save(folder / "tiny.safetensors", make_checkpoint(schema.parse(text, "test")))
    return folder / "tiny.safetensors"


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return open_model(model).translator("cpu")


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    done = commands.run("translate", *arguments)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def requested(model: Path, folder: Path, **more: Any) -> FileJob:
    """The job of translating `in` to `out`."""
    request = TranslationJob(model=model, source=folder / "in", output=folder / "out", **more)
    return translate.job_of(request, translate.open_models(request))


class Echo(OutputFormat):
    """Writes each line with its number, and counts it."""

    def texts(self, translator: Any, lines: Iterable[str], *_: Any, first: int = 1, **__: Any) -> Iterator[str]:
        for number, line in enumerate(lines, first):
            translator.counts.lines += 1
            yield f"{number} {line}".rstrip() + "."


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
    lines: list[str], chunk_lines: int, processes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("job")
    source = write(folder / "in", lines)
    job = FileJob(source, folder / "out", "key", len(lines), chunk_lines, Echo())
    translator: Any = SimpleNamespace(counts=LineCounts(), longest_part=None)
    with job.locked():
        for process in range(processes):
            job.translate(translator, process, processes)
        counts, _ = file_job.counts_of(job.headers())
        job.finish()
    assert list(read_lines(folder / "out")) == [
        f"{n} {line}".rstrip() + "." for n, line in enumerate(read_lines(source), 1)
    ]
    assert counts == LineCounts(lines=len(lines))
    assert names(folder) == {"in", "out"}


def test_only_a_line_feed_ends_a_row(tmp_path: Path) -> None:
    rows = ["a\rb\x85c", "\r", "d\x0ce\u2028f\x00", "", "ä\r"]
    job = FileJob(write(tmp_path / "in", ["x"] * 5), tmp_path / "out", "key", 5, 2)
    with job.locked():
        for chunk in job.chunks():
            job.write(chunk, {}, rows[chunk.first_line - 1 :][: len(chunk.lines)])
        job.finish()
    assert job.output.read_bytes() == "".join(f"{row}\n" for row in rows).encode()


def test_each_chunk_has_its_own_counts_and_numbers(translator: Translator, tmp_path: Path) -> None:
    """Also where chunks between them were translated before, and though the next is begun before one is complete."""
    lines = ["one", "", "two", "three", "", "", "four", "five", "six", "", "seven", "", "eight"]
    source, output = write(tmp_path / "in", lines), tmp_path / "out"
    job = FileJob(source, output, "key", len(lines), 2, OutputFormat(n_best=1))
    with job.locked():
        job.translate(translator)
        whole = {path: path.read_text() for path in job.planned}
        for path in [*whole][1:3] + [*whole][4:5]:
            path.unlink()
        job.translate(translator)
        assert {path: path.read_text() for path in job.planned} == whole
        counts, _ = file_job.counts_of(job.headers())
        job.finish()
    assert counts == LineCounts(lines=13, empty=5)
    for content in whole.values():
        header, *rows = content.split("\n")[:-1]
        assert LineCounts(**json.loads(header)["counts"]).lines == len(rows)
    numbers, _, texts = zip(*[row.split("\t") for row in read_lines(output)], strict=True)
    assert list(numbers) == [str(number) for number in range(1, 14)] and list(texts) == translator.translate(lines)


def test_the_next_chunk_is_begun_before_one_is_written(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more than that one: what is begun is lost if the command is killed."""
    job = FileJob(write(tmp_path / "in", list("abcdefg")), tmp_path / "out", "key", 7, 2)
    written, begin = [], translator.engine.begin_search

    def begin_search(*given: Any) -> Any:
        written.append(len(list(job.folder.glob("[0-9]*-*"))))
        return begin(*given)

    monkeypatch.setattr(translator.engine, "begin_search", begin_search)
    with job.locked():
        job.translate(translator)
    assert written == [0, 0, 1, 2]


def test_hostile_lines_with_prefixes_come_out_one_for_one_from_one_process_and_two(model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in", HOSTILE)
    prefixes = write(tmp_path / "prefixes", ["", "", "zwei", "drei", *[""] * (len(HOSTILE) - 4)])
    extra = ("--prefixes", prefixes, "--format", "json", "--n-best", 2)
    for name, processes in (("one", ()), ("two", TWO)):
        done = run(model, source, "--output", tmp_path / name, *extra, *processes)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        said = commands.messages(done.stderr)
        assert said.count("\n") == 1 and "4 of 17 lines are longer than 256 subwords: split into" in said
    first, second = ([json.loads(row) for row in read_lines(tmp_path / name)] for name in ("one", "two"))
    assert [row["line"] for row in first] == list(range(1, 18))
    texts, others = ([[each["text"] for each in row["translations"]] for row in rows] for rows in (first, second))
    assert texts == others
    assert all(text.startswith("zwei") for text in texts[2]) and all(text.startswith("drei") for text in texts[3])
    assert names(tmp_path) == {"in", "prefixes", "one", "two"}


@pytest.mark.parametrize("many", [pytest.param((), marks=pytest.mark.thorough), TWO])
def test_killed_and_run_again_it_gives_the_same_text(
    model: Path, translator: Translator, tmp_path: Path, many: tuple[str, ...]
) -> None:
    """Killed as soon as there is a chunk; what was there is not translated again."""
    lines = [" ".join(words) for words in itertools.permutations(("one", "two", "three", "four", "five", "six"))] * 8
    source = write(tmp_path / "in", lines)
    process = commands.Started("translate", model, source, "--output", tmp_path / "out", *many)
    end = time.monotonic() + 100
    while not (kept := sorted(tmp_path.glob(".out.nmt-part/[0-9]*-*"))) and time.monotonic() < end:
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


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_several_processes_stop_together(model: Path, tmp_path: Path, number: signal.Signals) -> None:
    source = write(tmp_path / "in", ["one two three four five six seven"] * 8_000)
    process = commands.Started("translate", model, source, "--output", tmp_path / "out", *TWO)
    end = time.monotonic() + 100
    while not list(tmp_path.glob(".out.nmt-part/[0-9]*-*")) and time.monotonic() < end:
        time.sleep(0.002)
    process.send_signal(number)
    done = process.ended()
    assert done.returncode == 128 + number, done.stderr
    assert b"Traceback" not in done.stderr
    assert not (tmp_path / "out").exists() and list(tmp_path.glob(".out.nmt-part/[0-9]*-*"))


def test_what_is_translated_is_not_translated_again(
    model: Path, translator: Translator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the same model, options and lines, and with nothing else."""
    write(tmp_path / "in", ["one", "two"])
    caplog.set_level("INFO", "nmt")
    job = requested(model, tmp_path)
    message = "out: 2 of 2 lines are translated: run the same command to continue"
    with pytest.raises(KeyboardInterrupt, match=message), job.locked():
        job.translate(translator)
        raise KeyboardInterrupt
    [chunk] = job.folder.glob("1-2-*")
    chunk.write_text(chunk.read_text().rpartition("\n")[0].rpartition("\n")[0] + "\nkept\n")
    other = requested(model, tmp_path, overrides=["decoding.beam_size=1"])
    with other.locked():
        assert "unfinished translation with another model, input or options: it is not continued" in caplog.text
        with pytest.raises(NmtError, match="another nmt is writing it"), job.locked():
            pass
        other.translate(translator)
    with job.locked():
        assert "2 of 2 lines are translated: continuing" in caplog.text
        job.translate(translator)
        job.finish()
    assert list(read_lines(tmp_path / "out"))[1] == "kept" and names(tmp_path) == {"in", "out"}


def test_the_key_is_of_all_that_the_output_depends_on(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of the device, so that a job can be continued on another one."""
    write(tmp_path / "in", ["one", "two", "three"])
    terms = write(tmp_path / "terms", ["one\teins"])
    keys = [requested(model, tmp_path, **more).key for more in (
        {}, {"ensemble": [model]}, {"glossary": terms}, {"overrides": ["decoding.beam_size=1"]},
        {"format": OutputFormat(scores=True)},
    )]  # fmt: skip
    write(terms, ["one\tuno"])
    keys.append(requested(model, tmp_path, glossary=terms).key)
    assert requested(model, tmp_path, device="cuda").key == keys[0]
    monkeypatch.setattr(file_job, "__version__", "0.0.0")
    keys.append(requested(model, tmp_path).key)
    assert len(set(keys)) == 7


@pytest.mark.parametrize(("lines", "processes", "chunk_lines"), [(1, 1, 5_000), (900_000, 1, 16_000), (800, 4, 50)])
def test_chunks_are_a_small_share_of_a_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, processes: int, chunk_lines: int
) -> None:
    monkeypatch.setattr(file_job, "survey", lambda *_: lines)
    write(tmp_path / "in", ["one"])
    assert requested(model, tmp_path, processes=processes).chunk_lines == chunk_lines


@pytest.mark.parametrize("changed", ["in", "prefixes"])
def test_an_input_that_changes_is_found(model: Path, translator: Translator, tmp_path: Path, changed: str) -> None:
    """Also if it is as before when the command is run again: nothing that was made from other text is used."""
    source, prefixes = (write(tmp_path / name, ["one", "two"]) for name in ("in", "prefixes"))
    job = requested(model, tmp_path, prefixes=prefixes)
    with pytest.raises(NmtError, match="in: has changed while it was translated"), job.locked():
        write(tmp_path / changed, ["three", "four"])
        job.translate(translator)
        job.finish()
    assert not (tmp_path / "out").exists()
    write(tmp_path / changed, ["one", "two"])
    again = requested(model, tmp_path, prefixes=prefixes)
    with again.locked():
        again.translate(translator)
        again.finish()
    expected = translator.stream(read_lines(source), prefixes=read_lines(prefixes))
    assert list(read_lines(tmp_path / "out")) == list(expected)
    assert names(tmp_path) == {"in", "prefixes", "out"}


def test_each_line_has_a_prefix(model: Path, tmp_path: Path) -> None:
    write(tmp_path / "in", ["one", "two"])
    with pytest.raises(NmtError, match=r"prefixes: 3 lines, and .*in has 2: give a prefix for each line"):
        requested(model, tmp_path, prefixes=write(tmp_path / "prefixes", ["a"] * 3))


def test_a_file_that_changes_before_it_is_loaded_is_found(model: Path, translator: Translator, tmp_path: Path) -> None:
    write(tmp_path / "in", ["one"])
    terms, own_model = write(tmp_path / "terms", ["one\teins"]), tmp_path / "model.safetensors"
    job = requested(model, tmp_path, glossary=terms)
    job.check_unchanged()
    write(terms, ["one\tuno"])
    with pytest.raises(NmtError, match="terms: has changed since the command was started"):
        job.translate(translator)
    own_model.write_bytes(model.read_bytes())
    job = requested(own_model, tmp_path)
    model_file.save(own_model, replace(model_file.load(model), provenance={"step": 7}))
    loaded = open_model(own_model).translator("cpu")
    own_model.write_bytes(model.read_bytes())  # as before, when the command looks again
    with pytest.raises(NmtError, match=r"model\.safetensors: has changed since the command was started"):
        job.translate(loaded)


def test_a_command_that_fails_leaves_nothing(model: Path, tmp_path: Path) -> None:
    write(tmp_path / "in", ["one"])
    with pytest.raises(NmtError, match="out of memory"), requested(model, tmp_path).locked():
        raise NmtError("out of memory")
    assert names(tmp_path) == {"in"}


@pytest.mark.parametrize("status", [0, 1, 130])
def test_the_job_ends_as_its_ranks_do(
    model: Path, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    write(tmp_path / "in", ["one"])
    request = TranslationJob(model=model, source=tmp_path / "in", output=tmp_path / "out", processes=2)
    job, asked = requested(model, tmp_path, processes=2), []

    def launch(arguments: list[str], ranks: int, restarts: int) -> int:
        assert os.environ[FILE_JOB] == job.key
        asked.append((ranks, restarts > 0))
        job.translate(translator)
        return status

    monkeypatch.setenv(FILE_JOB, "")
    monkeypatch.setattr(launching, "launch", launch)
    if status == 130:
        with pytest.raises(KeyboardInterrupt):
            translate.translate(request)
    else:
        assert translate.translate(request) == status
    assert asked == [(2, True)] and (tmp_path / "out").exists() == (status == 0)


def test_a_rank_of_another_job_is_refused(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", ["one"])
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(FILE_JOB, "0" * 16)
    with pytest.raises(NmtError, match="the model has changed since the job was started"):
        translate.translate(TranslationJob(model=model, source=tmp_path / "in", output=tmp_path / "out"))


def test_several_processes_need_files(model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in", ["one"])
    for arguments in [(), ("-",), (source,), (source, "--output", tmp_path / "out", "--line-by-line")]:
        done = CliRunner().invoke(app.app, ["translate", str(model), *map(str, arguments), *TWO])
        assert done.exit_code == 2 and names(tmp_path) == {"in"}


def test_devices_pipes_and_links_stay_what_they_are(model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in", ["one"])
    pipe, target, link = tmp_path / "pipe", tmp_path / "target", tmp_path / "link"
    os.mkfifo(pipe)
    target.write_text("old\n")
    link.symlink_to(target)
    command = [sys.executable, "-m", "nmt", "translate", str(model), str(source), "--output", str(pipe)]
    with subprocess.Popen(command, stderr=-1) as writing:
        through_the_pipe = pipe.read_text()
    assert writing.returncode == 0 and not pipe.is_file()
    assert run(model, source, "--output", link).returncode == 0
    assert link.is_symlink() and target.read_text() == through_the_pipe != ""
    assert run(model, source, "--output", "/dev/null").returncode == 0
    assert not Path("/dev/null").is_file()
    for output, words in ((tmp_path, "a folder"), (tmp_path / "none" / "out", "no folder")):
        refused = CliRunner().invoke(app.app, ["translate", str(model), "--output", str(output)], input="one\n")
        assert refused.exit_code == 1 and words in refused.stderr
