"""What an endpoint has used, will use, and may use: tokens and their cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nmt.errors import NmtError
from nmt.teachers.endpoint import Endpoint, Price

_BYTES = 4  # of UTF-8 for a token: four characters in Latin script, two in Cyrillic, more than one in Chinese


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

    def used(self, price: Price | None) -> str:
        """Requests, tokens and cost, for messages."""
        number = "1 request" if self.requests == 1 else f"{self.requests:,} requests"
        return f"{number}, {in_words(self.input_tokens, self.output_tokens, price)}"


class LimitReached(Exception):
    """A request would exceed the limit of the endpoint."""


class Usage:
    """Counts the tokens of requests. It expects the tokens that the bytes of a request stand for, corrected by what the
    requests before used."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._price, self._limit = endpoint.price, endpoint.limit
        self.tokens = [0.0, 0.0]  # of requests and of answers, also in earlier commands of the job
        self._of_replies, self._estimated, self._open = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]

    def begin(self, estimate: Sequence[float]) -> None:
        """Before a request. Raises LimitReached."""
        opened = _sum(self._open, estimate)
        expected = _sum(self.tokens, self.corrected(opened))
        limit = self._limit
        if limit and limit.tokens is not None and sum(expected) > limit.tokens:
            raise LimitReached
        if limit and limit.cost is not None and self._price and cost(self._price, *expected) > limit.cost:
            raise LimitReached
        self._open = opened

    def end(self, estimate: Sequence[float]) -> None:
        """After a request."""
        self._open = _sum(self._open, [-number for number in estimate])

    def add(self, tokens: Sequence[float], estimate: Sequence[float] | None) -> None:
        """Count the tokens of a reply. estimate: None for a line that was asked for again, so that what is expected for
        other lines has a share for this."""
        self.tokens, self._of_replies = _sum(self.tokens, tokens), _sum(self._of_replies, tokens)
        if estimate is not None:
            self._estimated = _sum(self._estimated, estimate)

    def corrected(self, estimate: Sequence[float]) -> list[float]:
        """The tokens that are expected where `estimate` is."""
        pairs = zip(estimate, self._of_replies, self._estimated, strict=True)
        return [number * (used / estimated if estimated else 1) for number, used, estimated in pairs]

    def limit_error(self) -> NmtError:
        limit = self._limit
        assert limit is not None
        name, most = ("tokens", limit.tokens) if limit.tokens is not None else ("cost", limit.cost)
        used = in_words(self.tokens[0], self.tokens[1], self._price)
        return NmtError(
            f"limit.{name}: {most:,}: {used} were used: raise the limit, and run the same command to continue"
        )


def estimated(body: Mapping[str, Any], line: str) -> list[float]:
    """About how many tokens a request has, and its answer if that is as long as the line."""
    samples = body.get("n") or 1
    return [_bytes(body["messages"]) / _BYTES, samples * max(1.0, len(line.encode()) / _BYTES)]


def _bytes(value: Any) -> int:
    """The bytes of all texts in a value of JSON."""
    if isinstance(value, str):
        return len(value.encode())
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return sum(map(_bytes, items))


def cost(price: Price, input_tokens: float, output_tokens: float) -> float:
    return (price.input * input_tokens + price.output * output_tokens) / 1e6


def in_words(input_tokens: float, output_tokens: float, price: Price | None) -> str:
    """Tokens and their cost, for messages."""
    tokens = f"{input_tokens:,.0f} tokens of requests and {output_tokens:,.0f} of answers"
    return tokens if price is None else f"{tokens}, cost {cost(price, input_tokens, output_tokens):,.2f}"


def _sum(numbers: Sequence[float], others: Sequence[float]) -> list[float]:
    return [number + other for number, other in zip(numbers, others, strict=True)]
