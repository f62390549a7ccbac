"""Requests to stop, by signal or by the clock: training finishes its step, saves, and ends."""

import logging
import signal
import time
from types import FrameType

log = logging.getLogger("nmt")

# Ctrl-C, what schedulers send before they take the machine away, and what a terminal sends that is closed.
_NAMES = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")
SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
_OUT_OF_TIME = 1000


class StopRequest:
    """While entered, notes the first of SIGNALS, and the deadline; a second SIGINT interrupts at once.

    A request is a number, so that ranks can agree on the largest: 0 for none, a signal's, or one beyond them
    for the deadline. `asked` is what this process was asked, `agreed` what all ranks are to do.
    """

    def __init__(self, deadline: float = float("inf")) -> None:
        """deadline: on the clock of time.monotonic()."""
        self._deadline = deadline
        self._signal = 0
        self.agreed = 0

    @property
    def asked(self) -> int:
        """What this process was asked so far."""
        return self._signal or (_OUT_OF_TIME if time.monotonic() >= self._deadline else 0)

    @property
    def interrupted(self) -> bool:
        """Whether training ends for Ctrl-C: what schedulers send is an ordinary end."""
        return self.agreed == signal.SIGINT

    @property
    def reason(self) -> str:
        """Why training ends before its time; empty if it does not."""
        if self.agreed == _OUT_OF_TIME:
            return "training.max_seconds reached"
        return signal.Signals(self.agreed).name if self.agreed else ""

    def __enter__(self) -> "StopRequest":
        heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # else under nohup
        self._before = {number: signal.signal(number, self._note) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self._signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._signal = number
        if number == signal.SIGINT:  # someone is waiting
            log.warning("SIGINT: saving after this step; Ctrl-C again stops at once, back to the last save")
