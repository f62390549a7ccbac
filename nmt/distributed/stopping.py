"""Requests to stop training, by a signal, a hook that raises, or because time is up: it finishes its step, saves and
ends."""

import _thread
import logging
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

log = logging.getLogger("nmt")

# Ctrl-C, what schedulers send before they end a job, and what a terminal sends when it is closed.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, name))
_OUT_OF_TIME = 1000
_HOOK_RAISED = 1001

T = TypeVar("T")


def log_from_handler(text: str, level: int = logging.INFO) -> None:
    """Log a message in the handler of a signal: in a thread, which waits for its turn. The signal may have come while
    a message was being written, and a file cannot be written to again in the middle of that."""
    _thread.start_new_thread(log.log, (level, text))


class StopRequest:
    """Within its `with` block, catches SIGNALS and watches the deadline. A second SIGINT interrupts at once.

    A request is a number, so that ranks can agree on the largest: 0 for none, a signal's number, or a larger one for
    the deadline or a hook. `requested` is this process's own request, `agreed` that of all ranks, which is acted on.
    `failure` is what a hook of this process raised. deadline: on the clock of time.monotonic().
    """

    def __init__(self, deadline: float = float("inf")) -> None:
        self._deadline, self._signal, self.agreed = deadline, 0, 0
        self.failure: BaseException | None = None

    @property
    def requested(self) -> int:
        if self.failure is not None:
            return _HOOK_RAISED
        return self._signal or (_OUT_OF_TIME if time.monotonic() >= self._deadline else 0)

    def guarded(self, hook: Callable[[T], object]) -> Callable[[T], None]:
        """The hook as one that raises nothing: its first exception is a request to stop, and it is called no more."""

        def call(argument: T) -> None:
            if self.failure is None:
                try:
                    hook(argument)
                except BaseException as error:  # also SystemExit: the state is saved before it is raised
                    self.failure = error

        return call

    @property
    def hook_raised(self) -> bool:
        """Whether training ends because of a hook, of this process or another."""
        return self.agreed == _HOOK_RAISED

    @property
    def interrupted(self) -> bool:
        """Whether training ends because of Ctrl-C; a signal from a scheduler is an ordinary end."""
        return self.agreed == signal.SIGINT

    @property
    def reason(self) -> str:
        """Why training ends early; empty if it does not."""
        if self.agreed == _OUT_OF_TIME:
            return "training.max_seconds reached"
        if self.hook_raised:
            return f"on_metrics raised {self.failure!r}" if self.failure else "on_metrics raised in another process"
        return signal.Signals(self.agreed).name if self.agreed else ""

    def __enter__(self) -> "StopRequest":
        main = threading.current_thread() is threading.main_thread()  # Python allows handlers there only
        caught = [number for number in SIGNALS if main and signal.getsignal(number) != signal.SIG_IGN]  # as under nohup
        self._before = {number: signal.signal(number, self._note) for number in caught}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self._signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._signal = number
        if number == signal.SIGINT:  # a person is waiting
            text = "SIGINT: saving after this step; press Ctrl-C again to stop at once, without saving"
            log_from_handler(text, logging.WARNING)
