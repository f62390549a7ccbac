"""scripts/load_test.py says that all is well only where answers were compared."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from helpers.scripts import SCRIPTS, load
from helpers.services import LINES, Gated, service

from nmt.serve.requests import RequestLimits

SCRIPT = SCRIPTS / "load_test.py"
pytestmark = pytest.mark.usefixtures("time_limit")


@pytest.fixture(scope="module")
def load_test() -> ModuleType:
    return load("load_test")


@pytest.mark.parametrize(
    ("statuses", "compared", "different", "status"),
    [({"200": 5, "429": 2}, 5, [], 0), ({}, 0, [], 1), ({"429": 9}, 0, [], 1)],
)
def test_when_all_is_well(
    load_test: ModuleType, statuses: dict[str, int], compared: int, different: list[str], status: int
) -> None:
    seen = load_test.Observations(Counter(statuses), [0.1] * compared, different)
    assert load_test.report(seen, 1.0) == status


def test_answers_are_compared(load_test: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    translator = Gated()
    expected = {line: translator.alone(line)[0].text for line in LINES}
    with service(translator, RequestLimits(lines=2, waiting=2)) as (served, _):
        for given, wrong in ((expected, False), (dict.fromkeys(expected, "something else"), True)):
            seen = asyncio.run(load_test.load(("127.0.0.1", served.port), given, 3, 0.5))
            assert seen.statuses["200"] == len(seen.seconds) > 0
            assert bool(seen.different) == wrong
            assert load_test.report(seen, 0.5) == int(wrong)
    assert "translations compared: " in capsys.readouterr().out


def test_a_text_without_lines_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n \n")
    command = [sys.executable, str(SCRIPT), "no-model", str(tmp_path / "empty"), "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "empty: no line to translate" in done.stderr
