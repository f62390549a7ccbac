"""Requests to stop training: by a signal, by a hook that raises, or by the deadline. Training then finishes its step,
saves and ends."""

import _thread
import logging
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

log = logging.getLogger("nmt")

# The signals of Ctrl-C, of schedulers before they end a job, and of a terminal that is closed.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, name))
_OUT_OF_TIME = 1000
_HOOK_RAISED = 1001

T = TypeVar("T")


def log_from_handler(text: str, level: int = logging.INFO) -> None:
    """Log a message in a signal handler. A thread logs it, because the signal may have interrupted the writing of
    another message, and a file cannot be written to in the middle of a write."""
    _thread.start_new_thread(log.log, (level, text))


class StopRequest:
    """Within its `with` block, catches SIGNALS and watches the deadline. A second SIGINT interrupts immediately.

    A request is a number, so that ranks can agree on the largest: 0 for none, a signal number, or a larger one for the
    deadline or a hook. `requested` is this process's own request; `agreed` is the request of all ranks, which training
    follows. `failure` is the exception of a hook of this process. deadline: on the clock of time.monotonic().
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
        """The hook, wrapped to raise nothing. Its first exception requests a stop, and it is not called again."""

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
        """Whether training ends because of Ctrl-C. A signal from a scheduler is an ordinary end."""
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
        self._old_handlers = {}
        if threading.current_thread() is threading.main_thread():  # Python allows handlers only there
            for signum in SIGNALS:
                if signal.getsignal(signum) != signal.SIG_IGN:  # nohup ignores SIGHUP
                    self._old_handlers[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._old_handlers.items():
            signal.signal(signum, handler)

    def _handle(self, signum: int, _: FrameType | None) -> None:
        if self._signal and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self._signal = signum
        if signum == signal.SIGINT:  # a person is waiting
            text = "SIGINT: saving after this step; press Ctrl-C again to stop at once, without saving"
            log_from_handler(text, logging.WARNING)
