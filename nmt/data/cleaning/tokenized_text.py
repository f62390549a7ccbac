"""Detect text that a tokenizer has written: with spaces before punctuation, with escaped signs, or in subwords.

A mixture of tokenized and plain text gives a low score, or a model that writes tokenized text. Shares are computed over
the lines that could show a trace. Punctuation that French writes after a space, ` ?`, ` !`, ` :` and ` »`, is ignored.
The danda of Hindi, the comma of Arabic and the full stop of Khmer are written with and without a space. They count only
if nearly all of one text and nearly none of the other text has the space.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations


@dataclass(frozen=True, eq=False)
class _Trace:
    """A trace of a tokenizer, and the words of the message about it."""

    possible: re.Pattern[str]  # matches lines that could show the trace
    pattern: re.Pattern[str]  # matches the trace
    least: float  # the smallest significant difference between two shares
    is_so: str  # describes a text with the trace
    is_not: str  # describes a text without the trace
    lines_with_it: str
    beside_any: bool = False  # a text without the trace counts even if too few of its lines could show it


_TRACES = (
    _Trace(
        re.compile(r"[.,።፣](?= |$)|[。，、]"),
        re.compile(r"(?<= )(?:[.,።፣](?= |$)|[。，、])"),
        0.2,
        "looks tokenized",
        "does not",
        "of their lines with a full stop or comma have a space before one",
    ),
    _Trace(
        re.compile("[।॥،؛۔។]"),
        re.compile("(?<= )[।॥،؛۔។]"),
        0.8,
        "looks tokenized",
        "does not",
        "of their lines with such punctuation as । or ، have a space before one",
    ),
    _Trace(
        re.compile(r"['\"‘’“”«»&<>\[\]|]"),
        re.compile(r"&(?:[a-z]{2,6}|#\d{1,5}|#x[\da-fA-F]{1,5});"),  # &apos; &#39; &#x27;
        0.2,
        "is escaped",
        "is not",
        "of their lines with a quotation mark, & or bracket have it as &apos; or the like",
        beside_any=True,
    ),
    _Trace(
        re.compile(""),
        re.compile(r"\S(?:@@|￭)(?= |$)|(?:^| )[▁￭]"),  # subword-nmt's, OpenNMT's and SentencePiece's marks
        0.05,
        "is split into subwords",
        "is not",
        "of their lines have @@ or ▁",
    ),
)
_RARE = 0.01  # of the lines: if fewer could show a trace, there is no evidence
_FEWEST = 20  # lines that could show a trace, and lines that show it: fewer are no evidence


@dataclass
class TokenizerTraces:
    """Counts lines of a text by the traces that tokenizers leave."""

    lines: int = 0
    possible: Counter[_Trace] = field(default_factory=Counter)
    showing: Counter[_Trace] = field(default_factory=Counter)

    def add(self, lines: Iterable[str]) -> "TokenizerTraces":
        """Count more lines and return self. Empty lines do not count."""
        for line in lines:
            self.lines += bool(line.strip())
            for trace in _TRACES:
                if line.strip() and trace.possible.search(line):
                    self.possible[trace] += 1
                    self.showing[trace] += trace.pattern.search(line) is not None
        return self

    def share(self, trace: _Trace) -> float | None:
        """The share of lines with the trace among lines that could show it; None if too few could."""
        possible = self.possible[trace]
        if trace.beside_any and not self.showing[trace] and self.lines >= _FEWEST:
            return 0.0
        return self.showing[trace] / possible if possible >= max(_FEWEST, _RARE * self.lines) else None

    def shows(self, trace: _Trace, least: float) -> bool:
        """Whether more than a few lines show a trace, and at least this share of those that could."""
        return self.showing[trace] >= _FEWEST and (self.share(trace) or 0) >= least

    @property
    def look_tokenized(self) -> bool:
        """Whether at least half of the lines have spaces before full stops or commas."""
        return self.shows(_TRACES[0], 0.5)


def contrast(name: str, text: TokenizerTraces, other_name: str, other: TokenizerTraces) -> str | None:
    """A message that says in which way one of two texts looks tokenized and the other does not, with shares; None if
    there is no such difference."""
    parts = []
    for trace in _TRACES:
        for (having, high), (without, low) in permutations(((name, text), (other_name, other))):
            low_share = low.share(trace)
            if low_share is not None and high.shows(trace, low_share + trace.least):
                shares = f"({high.share(trace):.0%} and {low_share:.0%} {trace.lines_with_it})"
                parts.append(f"{having} {trace.is_so} and {without} {trace.is_not} {shares}")
    return "; ".join(parts) or None
