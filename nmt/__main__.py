"""The command `nmt`, also as a module: `python -m nmt`, or `torchrun -m nmt`."""

import _thread
import signal
import sys
import time
from types import FrameType

_LATER = 0.02  # seconds


def main() -> None:
    """The console script. Ctrl-C ends it with status 130 from the first moment on."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:  # else it is ignored, as under nohup
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from nmt.errors import NmtError

        try:
            from nmt.cli import app
        except NmtError as error:  # nmt does not run here
            sys.exit(f"error: {error}")
        app.main()
    except KeyboardInterrupt:
        sys.exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not while a module is being imported: PyTorch takes that for a numpy that is not
    installed, and goes on with half of it. Then the signal comes again a little later."""
    while frame is not None and frame.f_code is not main.__code__:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _thread.start_new_thread(_interrupt_later, (_thread.get_ident(),))
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _interrupt_later(thread: int) -> None:
    """A real signal, to the thread that runs the command: it may be waiting for input by then."""
    time.sleep(_LATER)
    signal.pthread_kill(thread, signal.SIGINT)


if __name__ == "__main__":
    main()
