"""`nmt serve` as a process: what it says, how it is refused, how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import uvicorn
from helpers.commands import messages
from helpers.services import Gated, Service, save_small_model, until
from typer.testing import CliRunner

from nmt.cli import app as cli
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.decoding.markup import masking
from nmt.errors import NmtError
from nmt.serve import app, server
from nmt.serve.batching import BatchingQueue, RequestQueue
from nmt.serve.requests import RequestLimits

NMT = [sys.executable, "-m", "nmt"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
Start = Callable[..., subprocess.Popen[str]]
SECONDS = 180  # of a test: each starts commands, which first import PyTorch
pytestmark = pytest.mark.usefixtures("time_limit")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model(tmp_path_factory.mktemp("served") / "model.safetensors")


@pytest.fixture
def start(model: Path) -> Iterator[Start]:
    """A function that starts `nmt serve` on a free port; what still runs at the end is killed."""
    started = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        command = [*NMT, "serve", str(model), "--port", "0", *arguments]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def listening(process: subprocess.Popen[str]) -> tuple[str, int]:
    """Where it says that it listens."""
    assert process.stderr
    line = next_message(process)
    found = re.fullmatch(r"listening on http://(.+):([0-9]+)\n", line)
    assert found, line
    return found[1], int(found[2])


def next_message(process: subprocess.Popen[str]) -> str:
    """The next line on standard error, without the line that says which engine searches."""
    assert process.stderr
    return next(line for line in process.stderr if messages(line))


def refused(*arguments: object) -> str:
    """What is said, in one line, where it does not start."""
    done = CliRunner().invoke(cli.app, ["serve", *map(str, arguments)])
    assert (done.exit_code, done.stdout) == (1, "")
    told = messages(done.stderr)
    assert told.count("\n") == 1, told
    return told.removesuffix("\n")


def test_it_listens_on_loopback_and_says_where(start: Start) -> None:
    process = start()
    host, port = listening(process)
    assert host == "127.0.0.1"
    answer = Service(port).post({"text": "one"})
    assert answer.status == 200 and "server" not in answer.headers  # nobody need know of what version it is
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "stopped: 1 lines translated\n")


@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGTERM, 0), pytest.param(signal.SIGINT, 130, marks=pytest.mark.thorough)]
)
def test_requests_under_way_are_answered(start: Start, sent: int, status: int) -> None:
    """Those that wait too. A translation of 20 lines is under way for long enough to be met in it."""
    process = start("--beam-size", "8")
    _, port = listening(process)
    served = Service(port)
    with ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(served.post, {"text": ["one two three four " * 4] * 20}) for _ in range(6)]
        until(lambda: lines_sent(served) >= 100)  # all wait or are translated, but those of one that is under way
        process.send_signal(sent)
        assert [answer.result(60).status for answer in answers] == [200] * 6
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (status, "stopped: 120 lines translated\n")
    with pytest.raises(ConnectionRefusedError):
        served.get("/health")


@pytest.mark.thorough
def test_a_second_ctrl_c_ends_it_at_once_in_one_line(start: Start) -> None:
    process = start()
    _, port = listening(process)
    with socket.create_connection(("127.0.0.1", port)) as client:  # whose request never ends
        client.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        until(lambda: b"nmt_" in Service(port).get("/metrics").body)
        process.send_signal(signal.SIGINT)
        until(lambda: refuses(port))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)  # without it, the service waits for 30 seconds
    assert (process.returncode, said) == (130, "warning: stopped immediately: current requests are not answered\n")


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False


def lines_sent(served: Service) -> float:
    """How many wait or are translated."""
    metrics = served.get("/metrics").body.decode()
    return sum(float(count) for count in re.findall(r"^nmt_(?:waiting_lines|lines_total) (.+)$", metrics, re.MULTILINE))


def test_where_it_cannot_listen(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"--host 127.0.0.1 --port {port}: cannot listen there: Address already in use: choose others" in refused(
            model, "--port", port
        )


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a..b", "nul\0"])
def test_a_host_that_is_none(host: str) -> None:
    with pytest.raises(NmtError, match=r"^--host .*: no such host: give a host name or an IP address of this machine$"):
        server._listen(host, 0)


def test_what_is_asked_for_reaches_the_service(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def build(queue: RequestQueue, *arguments: object) -> None:
        built.append((queue.max_waiting, arguments))

    built = list[object]()
    monkeypatch.setattr(app, "build", build)
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: masking.log.warning("what a client has sent"))
    limits = RequestLimits(lines=3, characters=5, waiting=9, answer=12_345)
    languages = LanguagePairs((LanguagePair("en", "de"),))
    server.serve(BatchingQueue(Gated(), 7), languages, "0.0.0.0", 0, limits, True, ["x.example"])
    (warning,) = caplog.messages
    assert (found := re.fullmatch(r"(http://0\.0\.0\.0:[0-9]+): other machines can use it without .*", warning))
    assert built == [(7, (languages, limits, found[1], True, ["x.example"]))]


def test_mistakes(model: Path, tmp_path: Path) -> None:
    assert "--allowed-host http://x: give only a host name" in refused(model, "--allowed-host", "http://x")
    assert "none.safetensors: no such file" in refused(tmp_path / "none.safetensors")
    assert "--max-lines 9 is more than --max-waiting 8: lower one or raise the other" in refused(
        model, "--max-lines", 9, "--max-waiting", 8
    )


def test_a_missing_package_is_named(model: Path, tmp_path: Path) -> None:
    script = f"import sys; sys.modules['uvicorn'] = None; sys.argv = ['nmt', 'serve', {str(model)!r}]"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}; from nmt.cli.app import main; main()"],
        capture_output=True, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    expected = "error: serving needs the package uvicorn: pip install 'nmt-toolkit[serve]'\n"
    assert (done.returncode, done.stderr) == (1, expected)
