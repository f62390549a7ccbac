"""What the subwords of a side change in its text: invisible characters that are removed, or become a space, and lines
that a model cannot write as they are, because encoding and decoding changes them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.data.normalization import CONTROLS, INVISIBLE, MEANINGLESS, is_meant, plain
from nmt.data.report import SideChanges
from nmt.data.rules.characters import Lines
from nmt.data.vocabulary import Tokenizer

_UNSEEN = INVISIBLE | CONTROLS
_SHOWN = 30  # characters of each kind that are listed
_UNKNOWN, _SAME, _CHANGES = 0, 1, 2  # of a character


@dataclass
class Changes:
    """What was counted of a part of the text."""

    removed: Counter[str] = field(default_factory=Counter)  # invisible characters
    not_written: int = 0  # lines
    lost: Counter[str] = field(default_factory=Counter)  # characters of these lines

    def merge(self, other: "Changes") -> None:
        self.removed.update(other.removed)
        self.not_written += other.not_written
        self.lost.update(other.lost)

    def shown(self, lines: int) -> SideChanges:
        """As the report shows it. lines: of the side."""
        removed, lost = (tuple(_sorted(counts)[:_SHOWN]) for counts in (self.removed, self.lost))
        return SideChanges(lines, self.removed.total(), removed, self.not_written, lost)

    def to_json(self) -> list[Any]:
        return [dict(_sorted(self.removed)), self.not_written, dict(_sorted(self.lost))]

    @classmethod
    def from_json(cls, content: Sequence[Any]) -> "Changes":
        return cls(Counter(content[0]), content[1], Counter(content[2]))


class TextChanges:
    """Counts them. Text in NFC with single spaces is not counted as changed."""

    def __init__(self, tokenizer: Tokenizer, *, written: bool) -> None:
        """written: whether a model writes this side; otherwise only the invisible characters are counted."""
        self._tokenizer, self._written = tokenizer, written
        self.changes = Changes()
        self._kinds = np.zeros(0x110000, np.int8)  # of each character that the text had so far

    def add(self, lines: Lines, present: npt.NDArray[np.int64]) -> None:
        """present: the characters of the lines [distinct]."""
        new = present[self._kinds[present] == _UNKNOWN]
        self._kinds[new] = np.where(self._change(new), _CHANGES, _SAME)
        if (self._kinds[present] == _CHANGES).any():
            marked = np.flatnonzero(self._kinds[lines.codes] == _CHANGES)
            self._compare([lines.texts[place] for place in np.unique(lines.line_of(marked)).tolist()])

    def _change(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which characters may change, looked at alone: [codes]."""
        characters = list(map(chr, codes.tolist()))
        given = [f"a{one}a" for one in characters]
        found = [
            (one in _UNSEEN and one not in back) or (self._written and plain(text) != back)
            for one, text, back in zip(characters, given, self._tokenizer.written(given), strict=True)
        ]
        return np.array(found, np.bool_)

    def _compare(self, texts: list[str]) -> None:
        for text, back in zip(texts, self._tokenizer.written(texts), strict=True):
            if self._written and _seen(text) != _seen(back):
                self.changes.not_written += 1
                self.changes.lost.update(Counter(plain(text)) - Counter(back))
            else:
                self.changes.removed.update(Counter(one for one in text if one in _UNSEEN) - Counter(back))


def _seen(text: str) -> str:
    """Without invisible characters that mean nothing there. A joiner between Persian letters does: a vocabulary that
    was not learned from this text may lose it."""
    kept = (one for one in text if one not in INVISIBLE or (one not in MEANINGLESS and is_meant(one, text)))
    return plain("".join(" " if one in CONTROLS else one for one in kept))


def _sorted(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))
