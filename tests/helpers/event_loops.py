"""Event loops for tests in which time passes."""

import asyncio


class NoWaiting(asyncio.SelectorEventLoop):
    """Time goes on at once to where the next thing is to be done."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready:  # type: ignore[attr-defined]
            scheduled = [timer.when() for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
            self.now = max(self.now, min(scheduled, default=self.now))
        super()._run_once()  # type: ignore[misc]
