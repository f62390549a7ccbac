"""Standard output refuses a result: an error. Standard error or the log refuses a message: training goes on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SAYS_MUCH = """
import os, sys
from pathlib import Path
from tqdm import tqdm
import typer
from nmt.cli import terminal

app = terminal.application()

@app.command()
@terminal.reporting()
def command(folder: Path) -> None:
    terminal.keep_log(folder / "train.log")
    with tqdm(total=100, disable=False, mininterval=0) as bar:
        for number in range(100):
            terminal.log.info("message %d", number)
            bar.update()
            sys.stderr.write("plain\\n")
            os.write(2, b"from C\\n")
    with (folder / "data").open("w") as file:
        file.write(str(file.fileno()))

terminal.run(app)
"""


@contextmanager
def refusing(how: str) -> Iterator[int | None]:
    """Standard error that takes nothing: a full disk, a pipe that nobody reads; or none."""
    if how == "closed":
        yield None
        return
    if how == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        other, descriptor = os.pipe()
        os.close(other)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("how", ["full", "pipe", "closed"])
def test_a_message_that_cannot_be_written_stops_nothing(tmp_path: Path, how: str) -> None:
    command = ["sh", "-c", '"$@" 2>&-' if how == "closed" else '"$@"', "sh", sys.executable, "-c", SAYS_MUCH]
    with refusing(how) as descriptor:
        done = subprocess.run([*command, str(tmp_path)], stdout=-1, stderr=descriptor)
    assert (done.returncode, done.stdout) == (0, b"")
    assert int((tmp_path / "data").read_text()) > 2, "what C writes to standard error would be in the file"
    assert (tmp_path / "train.log").read_text().count("message ") == 100


def test_a_log_that_cannot_be_written_is_given_up_with_one_warning(tmp_path: Path) -> None:
    (tmp_path / "train.log").symlink_to("/dev/full")
    done = subprocess.run([sys.executable, "-c", SAYS_MUCH, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.count("warning: ") == done.stderr.count("No space left") == 1
    assert f"{tmp_path}/train.log: cannot be written: No space left on device: continuing without" in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("message ") == 100


PRINTS = """
import sys
import typer
from nmt.cli import terminal
from nmt.files import text

app = terminal.application()

@app.command()
@terminal.reporting()
def command(line: str) -> None:
    if line == "interrupted":
        raise KeyboardInterrupt
    if line == "broken":
        raise BrokenPipeError(32, "Broken pipe")
    text.result(line)
    text.result(line)

terminal.run(app)
"""


def printed(arguments: str, line: str = "näive 3 → 4") -> "subprocess.CompletedProcess[str]":
    command = ["sh", "-c", f'"$@" {arguments}', "sh", sys.executable, "-c", PRINTS, line]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8")


def test_a_result_that_cannot_be_written_is_an_error() -> None:
    done = printed("")
    assert (done.returncode, done.stdout, done.stderr) == (0, "näive 3 → 4\n" * 2, "")
    assert printed("", os.fsdecode(b"a\xff.de")).stdout == "a\\udcff.de\n" * 2, "the name of a file need not be UTF-8"
    done = printed(">&-")
    assert (done.returncode, done.stderr) == (
        1,
        "error: standard output is closed: redirect it to a file with > FILE\n",
    )
    for line in ("näive", "--help"):
        done = printed(">/dev/full", line)
        said = "error: standard output: cannot be written: No space left on device\n"
        assert (done.returncode, done.stderr) == (1, said)


ANSWERS = """
import sys
from nmt.files import text

for line in sys.stdin:
    text.result(line.strip() + "!")
"""


@pytest.mark.usefixtures("time_limit")
def test_a_result_is_written_at_once() -> None:
    """Whoever asks through pipes gets an answer before asking again."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", ANSWERS]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, bufsize=1, env=buffered) as process:
        assert process.stdin and process.stdout
        for line in ("one", "two"):
            process.stdin.write(f"{line}\n")
            assert process.stdout.readline() == f"{line}!\n"


def test_an_interruption_has_a_status_of_its_own() -> None:
    done = printed("", "interrupted")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_reader_that_leaves_is_no_error_but_another_broken_pipe_is() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", PRINTS, "a line"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    done = printed("", "broken")
    assert (done.returncode, done.stderr) == (1, "error: [Errno 32] Broken pipe\n")


FAILS = """
import sys
from pathlib import Path
from nmt.cli import terminal

app = terminal.application()

@app.command()
@terminal.reporting()
def command(folder: Path) -> None:
    terminal.keep_log(folder / "train.log")
    try:
        raise ValueError("handled")
    except ValueError:
        terminal.log.error("a request failed", exc_info=True)
    raise ValueError("not handled")

terminal.run(app)
"""


def test_the_traceback_of_an_unexpected_error_is_in_both_logs(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FAILS, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith(
        "error: a request failed\nTraceback (most recent call last):\n"
    )
    for log in (done.stderr, (tmp_path / "train.log").read_text()):
        assert log.count("Traceback") == 2
        assert log.count("\nValueError: handled\n") == log.count("\nValueError: not handled\n") == 1
