"""A corpus small enough to learn in seconds, the config of a run on it, and a browser for pages."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
import torch
from helpers.runs import config_text, write_corpus

from nmt.config import reader
from nmt.config.schema import Config
from nmt.distributed.stopping import SIGNALS
from nmt.machine import make_products_repeatable, usable_cores

if TYPE_CHECKING:
    from helpers.chromium import Browser

# Examples follow from the test alone, so that a test that passed passes again. To search for new ones, at random:
# scripts/test.sh -m hypothesis --hypothesis-profile=search, as often as one likes.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=40)
hypothesis.settings.register_profile("search", derandomize=False, deadline=None, print_blob=True)
hypothesis.settings.load_profile("fixed")

make_products_repeatable()  # before anything is computed, as `nmt train` does, and for all that tests start


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: some tests wait for what they have started. xdist's variable limits it."""
    return int(os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") or usable_cores() + 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="also the tests marked thorough, which take long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --thorough, tests marked so are not selected."""
    if config.getoption("thorough"):
        return
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    items[:] = [item for item in items if item not in set(left_out)]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session", autouse=True)
def signals_are_heard() -> Iterator[None]:
    """Also under nohup, or in a shell's background: what is ignored would be ignored by all that tests start.

    A handler that does nothing is as good for pytest itself, and is none in what it starts.
    """
    ignored = [number for number in (*SIGNALS, signal.SIGQUIT) if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Tiny tensors gain nothing from threads, and results then do not depend on the machine's cores."""
    torch.set_num_threads(1)


@pytest.fixture
def time_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that hangs fails within a minute, or the `SECONDS` of its module: for those that wait for servers.

    The signal comes again and again, as leaving a block may wait for the same thing once more.
    """

    def fail(*_: object) -> None:
        raise AssertionError("the test hangs")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, getattr(request.module, "SECONDS", 60), 5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.en, train.de (300 pairs) and validation.en, validation.de (20)."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, "train", 300, seed=1)
    write_corpus(folder, "validation", 20, seed=2)
    return folder


@pytest.fixture(scope="session")
def trained_run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that has begun to learn the corpus, for all tests that only read one: copy it to change it.

    120 steps, of which each 20th was validated and saved, with a moving average of the weights. It was stopped by its
    time limit after the first step, and went on to its end.
    """
    from nmt.commands.train import training_data
    from nmt.training.trainer import Trainer

    torch.set_num_threads(1)
    run = tmp_path_factory.mktemp("trained") / "run"
    overrides = [
        "training.max_steps=120", "training.validate_every=20", "training.checkpoint_every=20", "training.keep_last=6",
        "training.keep_best=6", "training.ema_decay=0.9", "training.validation_samples=2",
    ]  # fmt: skip
    config = reader.parse(Config, config_text(corpus, run), "test config", overrides)
    for deadline in (0.0, float("inf")):
        Trainer(config, training_data(config), torch.device("cpu"), deadline=deadline).run()
    return run


@pytest.fixture
def make_config(corpus: Path, tmp_path: Path) -> Callable[..., Config]:
    """A function from overrides (`section.key=value`) to the config of a tiny run in tmp_path/run."""

    def make(*overrides: str) -> Config:
        return reader.parse(Config, config_text(corpus, tmp_path / "run"), "test config", overrides)

    return make


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Browser]":
    """For tests/*_in_chromium.py."""
    from helpers import chromium

    with chromium.started(tmp_path_factory.mktemp("profile")) as window:
        yield window
