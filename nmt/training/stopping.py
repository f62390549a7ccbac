"""Ctrl-C and SIGTERM as requests: training finishes its step, saves, and ends."""

import logging
import signal
from types import FrameType, TracebackType

log = logging.getLogger("nmt")


class StopRequest:
    """While entered, notes the first SIGINT or SIGTERM; a second SIGINT interrupts at once.

    signal: the one that came, or None.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    @property
    def interrupted(self) -> bool:
        """Whether it was Ctrl-C: SIGTERM, which schedulers send, is an ordinary end."""
        return self.signal is signal.SIGINT

    def __enter__(self) -> "StopRequest":
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
        log.warning("%s: saving after this step; Ctrl-C again stops at once, back to the last save", self.signal.name)
