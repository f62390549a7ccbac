"""Tokens and their cost: what a job has used, a forecast of what it will use, and its limit."""

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nmt.errors import NmtError
from nmt.teachers.endpoint import Endpoint, Limit

Tokens = tuple[float, float]  # of requests and of answers
BYTES_PER_TOKEN = 4  # of UTF-8 for a token: four characters in Latin script, two in Cyrillic, more than one in Chinese


@dataclass
class TeacherCounts:
    """Counts of lines, and of what was used for them."""

    lines: int = 0
    empty: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    rejected: dict[str, int] = field(default_factory=dict)  # lines without a translation, by reason

    def __add__(self, other: "TeacherCounts") -> "TeacherCounts":
        return TeacherCounts(
            self.lines + other.lines,
            self.empty + other.empty,
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            dict(Counter(self.rejected) + Counter(other.rejected)),
        )


class LimitReached(Exception):
    """A request would exceed the limit of the endpoint."""


class Usage:
    """Counts the tokens that were used, and forecasts others. Each pair of numbers is for requests and for answers.

    An estimate has a token for every four bytes. It is multiplied by what earlier requests used of their estimates.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._price, self._limit = endpoint.price, endpoint.limit or Limit()
        self.tokens: Tokens = (0, 0)  # also of earlier commands of a job
        self.lines = 0  # answered in this command
        self._replied: Tokens = (0, 0)
        self._estimated: Tokens = (0, 0)
        self._open: Tokens = (0, 0)  # the estimates of open requests
        self._started = math.inf

    @property
    def seconds(self) -> float:
        """Since the first request."""
        return time.monotonic() - self._started

    @contextmanager
    def open_request(self, estimate: Tokens) -> Iterator[None]:
        """While a request is open, its estimate counts. Raises LimitReached."""
        opened = _sum(self._open, estimate)
        expected = _sum(self.tokens, self.corrected(opened))
        limit = self._limit
        if sum(expected) > (limit.tokens or math.inf) or self._cost(expected) > (limit.cost or math.inf):
            raise LimitReached
        self._open, self._started = opened, min(self._started, time.monotonic())
        try:
            yield
        finally:
            self._open = _sum(self._open, (-estimate[0], -estimate[1]))

    def add(self, tokens: Tokens, estimate: Tokens | None) -> None:
        """Count a reply. estimate: None for a further request for a line, whose tokens count as those of the first."""
        self.tokens, self._replied = _sum(self.tokens, tokens), _sum(self._replied, tokens)
        if estimate is not None:
            self._estimated, self.lines = _sum(self._estimated, estimate), self.lines + 1

    def corrected(self, estimate: Tokens) -> Tokens:
        """The expected tokens for an estimate."""
        by_side = zip(estimate, self._replied, self._estimated, strict=True)
        input_tokens, output_tokens = (count * (used / base if base else 1) for count, used, base in by_side)
        return input_tokens, output_tokens

    def limit_error(self) -> NmtError:
        """The error of a command that stops at the limit."""
        return NmtError(
            f"limit: reached: {self.in_words(self.tokens)} were used: raise it in the endpoint's file, and run the "
            "same command again"
        )

    def in_words(self, tokens: Tokens) -> str:
        """Tokens and their cost, for messages."""
        words = f"{tokens[0]:,.0f} tokens of requests and {tokens[1]:,.0f} of answers"
        return words if self._price is None else f"{words}, cost {_shown(self._cost(tokens))}"

    def in_short(self, whole: Tokens) -> str:
        """What was used of what is expected, for a progress bar."""
        if self._price is not None:
            return f"cost {_shown(self._cost(self.tokens))} of {_shown(self._cost(whole))}"
        return f"{sum(self.tokens):,.0f} of {sum(whole):,.0f} tokens"

    def _cost(self, tokens: Tokens) -> float:
        return 0.0 if self._price is None else (self._price.input * tokens[0] + self._price.output * tokens[1]) / 1e6


def _shown(cost: float) -> str:
    """A cost with two decimals, or with two digits if it is small."""
    return f"{cost:,.2f}" if cost >= 1 else f"{cost:.2g}"


def _sum(tokens: Tokens, others: Tokens) -> Tokens:
    return tokens[0] + others[0], tokens[1] + others[1]
