"""How far training is: a progress bar on a terminal, log lines elsewhere."""

import logging
import time

from tqdm import tqdm

log = logging.getLogger("nmt")

_FORMAT = "step {n:,} of {total:,}, {remaining} left{postfix} |{bar}|"  # a narrow terminal gets a short bar


class ProgressBar:
    """Step N of M, loss, learning rate, speed and time left. The log gets the same as a line; see `log`."""

    def __init__(self, step: int, last_step: int, *, hidden: bool):
        """step: steps done so far; last_step: where training is expected to end. The bar is shown if standard error is
        a terminal, and not `hidden`."""
        self._first_step, self._last_step, self._start = step, last_step, time.monotonic()
        self._bar = tqdm(
            total=max(last_step, step), initial=step, bar_format=_FORMAT, smoothing=0, dynamic_ncols=True,
            disable=True if hidden else None,
        )  # fmt: skip

    @property
    def shown(self) -> bool:
        return not self._bar.disable

    def update(self) -> None:
        """One more step is done."""
        self._bar.total = max(self._last_step, self._bar.n + 1)  # epochs may be longer than expected
        self._bar.update()

    def show(self, loss: float, learning_rate: float, speed: float) -> None:
        """Show these on the bar; speed: target tokens per second."""
        self._bar.set_postfix_str(f"loss {loss:.3f}, lr {learning_rate:.1e}, {speed:,.0f} tokens/s")

    def log(self, step: int, epoch: int, loss: float, learning_rate: float, speed: float) -> None:
        """Log these and the time left. While the bar is shown the line goes only to the log file."""
        left = (time.monotonic() - self._start) / max(1, step - self._first_step) * max(0, self._last_step - step)
        log.log(
            logging.DEBUG if self.shown else logging.INFO,
            "step %s of %s  epoch %d  loss %.3f  lr %.2e  %s target tokens/s  %s left",
            *(f"{step:,}", f"{max(step, self._last_step):,}", epoch, loss, learning_rate, f"{speed:,.0f}"),
            tqdm.format_interval(left),
        )

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
